# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of flavors, namespace ``operator``. :mod:`fleet.rpc.clients.operator.catalog` calls it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from oslo_utils import uuidutils

from conductor_stub.steps.acts import Acts
from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.catalog import flavors
from fleet.db.catalog.flavors import Offer
from fleet.db.engine.database import Database
from fleet.db.hosts import flavor_mix
from fleet.db.upkeep import removal
from fleet.json_codec import JSONObject
from fleet.objects import Flavor, fields
from fleet.objects.answers.catalog import FlavorView
from fleet.objects.flavor_mix import Shape
from fleet.rpc.endpoint import endpoint, served

_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "name")
#: What may change, beside extra specs.
_CHANGES = (*_SIZES, "description", "is_public")


@dataclasses.dataclass(frozen=True)
class _Told:
    """Fields of a flavor in the catalog beside its sizes."""

    is_public: fields.Flag = True
    description: fields.LongText | None = None


class FlavorManager:
    """A ``name`` is a name or a flavorid. A project sees public flavors, and those that it has access to."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, clock: Clock = utcnow) -> None:
        self._database = database
        self._acts = Acts(database, clock)
        self._clock = clock

    @endpoint
    def list_flavors(self, context: RequestContext) -> list[FlavorView]:
        """Return the flavors, each with its shares in the flavor mix; null if it was not asked for."""
        known, mix = self._database.read(
            lambda connection: (flavors.list_all(connection, context.scope), flavor_mix.read(connection))
        )
        requests, core_hours = mix.request_shares(), mix.shares()
        return [
            {
                **offer.to_wire(),
                "share_of_requests": _rounded(requests.get(shape)),
                "share_of_core_hours": _rounded(core_hours.get(shape)),
            }
            for offer in known
            for shape in [_shape(offer.flavor)]
        ]

    @endpoint
    def create_flavor(self, context: RequestContext, flavor: JSONObject) -> FlavorView:
        """:raises errors.Conflict: errors.InvalidInput: it has no name"""
        wanted, told = Flavor.from_wire(flavor), fields.parse(_Told, flavor, "flavor")
        wanted.require_bounds()
        if not wanted.name:
            raise errors.InvalidInput(field="flavor.name", reason="is required")
        named = dataclasses.replace(wanted, flavorid=wanted.flavorid or uuidutils.generate_uuid())
        offer = Offer(named, told.is_public, told.description or None)
        shown = functools.partial(flavors.offer, name=named.flavorid)
        written = self._acts.write(context, "flavor.create", named.name, shown, flavors.create, offer, self._clock())
        return written.to_wire()

    @endpoint
    def show_flavor(self, context: RequestContext, name: fields.Name) -> FlavorView:
        return self._database.read(flavors.offer, name, context.scope).to_wire()

    @endpoint
    def update_flavor(
        self,
        context: RequestContext,
        name: fields.Name,
        changes: JSONObject | None = None,
        extra_specs: dict[fields.Name, fields.Text | None] | None = None,
    ) -> FlavorView:
        """:param changes: sizes, a new ``name``, ``description`` and ``is_public``
        :param extra_specs: None removes a key; others stay

        :raises errors.InvalidInput: naming the field
        """
        found = self._database.read(flavors.find, name)
        changed = functools.partial(_changed, changes=changes or {}, extra_specs=extra_specs or {})
        shown = functools.partial(flavors.offer, name=found.flavorid)
        asked = (_key(found), changed)
        return self._acts.write(context, "flavor.update", found.name, shown, flavors.change, *asked).to_wire()

    @endpoint
    def delete_flavor(self, context: RequestContext, name: fields.Name) -> None:
        """Instances keep the sizes that they were built with."""
        found = self._database.read(flavors.find, name)
        shown = functools.partial(flavors.offer, name=found.flavorid)
        self._acts.write(context, "flavor.delete", found.name, shown, removal.flavor, _key(found))

    @endpoint
    def list_flavor_access(self, context: RequestContext, name: fields.Name) -> list[str]:
        """The projects that may use a flavor that is not public. :raises errors.NotFound: errors.Conflict: it is public"""
        found = self._private(name)
        return list(self._database.read(flavors.projects, _key(found)))

    @endpoint
    def add_flavor_access(self, context: RequestContext, name: fields.Name, project_id: fields.Name) -> list[str]:
        """Let a project use a flavor that is not public. Return all that may.

        :raises errors.NotFound: errors.Conflict: the flavor is public, or the project may use it already
        """
        found = self._private(name)
        if project_id in self._database.read(flavors.projects, _key(found)):
            raise errors.Conflict(kind="Flavor", name=found.name, reason=f"is open to project {project_id} already")
        self._change_access(context, "flavor.grant", found, project_id)
        return self.list_flavor_access(context, name=found.flavorid)

    @endpoint
    def remove_flavor_access(self, context: RequestContext, name: fields.Name, project_id: fields.Name) -> list[str]:
        """Let a project use a flavor no more. Return those that still may.

        :raises errors.NotFound: also if the project may not use it; errors.Conflict: the flavor is public
        """
        found = self._private(name)
        if project_id not in self._database.read(flavors.projects, _key(found)):
            raise errors.NotFound(kind=f"Access to flavor {found.name} of project", name=project_id)
        self._change_access(context, "flavor.revoke", found, project_id)
        return self.list_flavor_access(context, name=found.flavorid)

    def _change_access(self, context: RequestContext, act: str, found: Flavor, project_id: str) -> None:
        key = _key(found)
        work = {"flavor.grant": flavors.grant, "flavor.revoke": flavors.revoke}[act]
        self._acts.write(
            context, act, found.name, lambda tx: {"projects": list(flavors.projects(tx, key))}, work, key, project_id
        )

    def _private(self, name: str) -> Flavor:
        found = self._database.read(flavors.offer, name)
        if found.is_public:
            raise errors.Conflict(kind="Flavor", name=found.flavor.name, reason="is public: every project may use it")
        return found.flavor


def _changed(found: Offer, changes: Mapping[str, object], extra_specs: Mapping[str, str | None]) -> Offer:
    """:raises errors.InvalidInput: naming the field"""
    unknown = sorted(set(changes) - set(_CHANGES))
    if unknown:
        raise errors.InvalidInput(field=f"changes.{unknown[0]}", reason=f"is not one of {', '.join(_CHANGES)}")
    specs = {**found.flavor.extra_specs, **extra_specs}
    kept = {key: value for key, value in specs.items() if value is not None}
    sizes = {name: value for name, value in changes.items() if name in _SIZES}
    wanted = Flavor.from_wire({**dataclasses.asdict(found.flavor), **sizes, "extra_specs": kept}, "changes")
    wanted.require_bounds("changes")
    if not wanted.name:
        raise errors.InvalidInput(field="changes.name", reason="must not be empty")
    before = {"is_public": found.is_public, "description": found.description}
    told = fields.parse(_Told, {name: changes.get(name, value) for name, value in before.items()}, "changes")
    return Offer(wanted, told.is_public, told.description or None)


def _shape(flavor: Flavor) -> Shape:
    return Shape(flavor.vcpus, flavor.memory_mb, flavor.root_gb + flavor.ephemeral_gb)


def _key(found: Flavor) -> int:
    assert found.id is not None, "a flavor that was read has its key"
    return found.id


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
