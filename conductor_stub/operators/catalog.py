# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of flavors, images and aggregates, namespace ``operator``."""

from __future__ import annotations

import dataclasses
from typing import Any

import oslo_messaging
from oslo_utils import uuidutils

from conductor_stub.operators.announcements import Announcements
from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.catalog import flavors, images
from fleet.db.engine.database import Database
from fleet.db.hosts import aggregates, flavor_mix
from fleet.db.upkeep import removal
from fleet.objects import Flavor, ImageRecord, fields, uuid_like
from fleet.objects.flavor_mix import Shape
from fleet.rpc import versions
from fleet.rpc.endpoint import endpoint

_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "name")


class CatalogManager:
    """A ``name`` is a name or a uuid. What is in use is not removed: errors.Conflict names its users."""

    target = oslo_messaging.Target(namespace="operator", version=versions.CURRENT["conductor"])

    def __init__(self, database: Database, announcements: Announcements, clock: Clock = utcnow) -> None:
        self._database = database
        self._announcements = announcements
        self._clock = clock

    # Flavors

    @endpoint
    def list_flavors(self, context: RequestContext) -> list[dict[str, Any]]:
        """Return the flavors, each with its shares in the flavor mix; null if it was not asked for."""
        known, mix = self._database.read(lambda connection: (flavors.list_all(connection), flavor_mix.read(connection)))
        requests, core_hours = mix.request_shares(), mix.shares()
        return [
            {
                **flavor.to_wire(),
                "share_of_requests": _rounded(requests.get(shape)),
                "share_of_core_hours": _rounded(core_hours.get(shape)),
            }
            for flavor in known
            for shape in [Shape(flavor.vcpus, flavor.memory_mb, flavor.root_gb + flavor.ephemeral_gb)]
        ]

    @endpoint
    def create_flavor(self, context: RequestContext, flavor: dict[str, Any]) -> dict[str, Any]:
        """:raises errors.Conflict: errors.InvalidInput: it has no name"""
        wanted = Flavor.from_wire(flavor)
        wanted.require_bounds()
        if not wanted.name:
            raise errors.InvalidInput(field="flavor.name", reason="is required")
        named = dataclasses.replace(wanted, flavorid=wanted.flavorid or uuidutils.generate_uuid())
        return self._database.write(flavors.create, named, self._clock()).to_wire()

    @endpoint
    def show_flavor(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._database.read(flavors.find, name).to_wire()

    @endpoint
    def update_flavor(
        self,
        context: RequestContext,
        name: fields.Name,
        changes: dict[str, Any] | None = None,
        extra_specs: dict[fields.Name, fields.Text | None] | None = None,
    ) -> dict[str, Any]:
        """:param changes: sizes, and a new ``name``
        :param extra_specs: None removes a key; others stay

        :raises errors.InvalidInput: naming the field
        """
        changes = changes or {}
        unknown = sorted(set(changes) - set(_SIZES))
        if unknown:
            raise errors.InvalidInput(field=f"changes.{unknown[0]}", reason=f"is not one of {', '.join(_SIZES)}")
        found = self._database.read(flavors.find, name)
        specs = {**found.extra_specs, **(extra_specs or {})}
        kept = {key: value for key, value in specs.items() if value is not None}
        wanted = Flavor.from_wire({**dataclasses.asdict(found), **changes, "extra_specs": kept}, "changes")
        wanted.require_bounds("changes")
        if not wanted.name:
            raise errors.InvalidInput(field="changes.name", reason="must not be empty")
        return self._database.write(flavors.change, _key(found.id), wanted).to_wire()

    @endpoint
    def delete_flavor(self, context: RequestContext, name: fields.Name) -> None:
        found = self._database.read(flavors.find, name)
        self._database.write(removal.flavor, _key(found.id))

    # Images

    @endpoint
    def list_images(self, context: RequestContext) -> list[dict[str, Any]]:
        return [image.to_wire() for image in self._database.read(images.list_all)]

    @endpoint
    def create_image(self, context: RequestContext, image: dict[str, Any]) -> dict[str, Any]:
        """:raises errors.Conflict: the name is taken; errors.InvalidInput:"""
        fields.parse(uuid_like.GivenName, image.get("name"), "image.name")
        wanted = dataclasses.replace(ImageRecord.from_wire(image), uuid=uuidutils.generate_uuid())
        fields.require_small(wanted.properties, "image.properties")
        return self._database.write(images.create, wanted, self._clock()).to_wire()

    @endpoint
    def show_image(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._database.read(images.find, name).to_wire()

    @endpoint
    def delete_image(self, context: RequestContext, name: fields.Name) -> None:
        """Instances keep what they were built with."""
        found = self._database.read(images.find, name)
        self._database.write(images.remove, found.uuid)

    # Aggregates

    @endpoint
    def list_aggregates(self, context: RequestContext) -> list[dict[str, Any]]:
        return [aggregate.to_wire() for aggregate in self._database.read(aggregates.list_all)]

    @endpoint
    def create_aggregate(
        self, context: RequestContext, name: uuid_like.GivenName, metadata: fields.Texts | None = None
    ) -> dict[str, Any]:
        self._database.write(aggregates.create, uuidutils.generate_uuid(), name, metadata or {}, self._clock())
        return self._announcements.aggregate_changed(context, self._database.read(aggregates.find, name))

    @endpoint
    def show_aggregate(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._database.read(aggregates.find, name).to_wire()

    @endpoint
    def rename_aggregate(
        self, context: RequestContext, name: fields.Name, new_name: uuid_like.GivenName
    ) -> dict[str, Any]:
        found = self._database.read(aggregates.find, name)
        changed = self._database.write(aggregates.rename, found.id, new_name)
        return self._announcements.aggregate_changed(context, changed)

    @endpoint
    def add_aggregate_host(self, context: RequestContext, name: fields.Name, host: fields.Name) -> dict[str, Any]:
        changed = self._database.write(aggregates.add_host, name, host)
        return self._announcements.aggregate_changed(context, changed)

    @endpoint
    def remove_aggregate_host(self, context: RequestContext, name: fields.Name, host: fields.Name) -> dict[str, Any]:
        changed = self._database.write(aggregates.remove_host, name, host)
        return self._announcements.aggregate_changed(context, changed)

    @endpoint
    def set_aggregate_metadata(
        self, context: RequestContext, name: fields.Name, metadata: dict[fields.Name, fields.Text | None]
    ) -> dict[str, Any]:
        changed = self._database.write(aggregates.set_metadata, name, metadata)
        return self._announcements.aggregate_changed(context, changed)

    @endpoint
    def delete_aggregate(self, context: RequestContext, name: fields.Name) -> None:
        found = self._database.read(aggregates.find, name)
        self._database.write(removal.aggregate, found.id, self._clock())
        self._announcements.aggregate_deleted(context, found)


def _key(found: int | None) -> int:
    assert found is not None, "a flavor that was read has its key"
    return found


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
