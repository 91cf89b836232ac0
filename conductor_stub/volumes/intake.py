# SPDX-License-Identifier: Apache-2.0
"""Accepts users' requests about volumes in one transaction each, or refuses them with the reason.

Users call it over RPC or through ``fleet-api``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

from oslo_log import log as logging

from conductor_stub.steps.acts import Acts
from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes import claims, deletion, extension, listing, views
from conductor_stub.volumes.creation import VolumeCreation
from conductor_stub.volumes.placement import VolumePlacement
from fleet import errors, volume_states
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.hosts import services
from fleet.db.tables.hosts import ServiceRow
from fleet.db.tables.volumes import PoolRow, VolumeRow
from fleet.db.volumes import attachments, pools, volume_history, volume_types, volumes
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import (
    VolumeChanges,
    VolumeRequest,
    VolumeType,
    fields,
    location,
    request_keys,
    volume,
)
from fleet.objects.answers.volumes import MadeVolumes, PoolView, ShownVolume, VolumeTypeView, VolumeView
from fleet.rpc.endpoint import endpoint, require_size, served

LOG = logging.getLogger(__name__)

#: Faults that are shown of one volume.
_NEWEST = 500

Changed = TypeVar("Changed")


class VolumeIntake:
    """The RPC surface of the namespace ``operator`` for volumes, their types, and pools."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, placement: VolumePlacement, creation: VolumeCreation) -> None:
        self._database = database
        self._placement = placement
        self._acts = Acts(database, placement.now)
        self._creation = creation

    @endpoint
    def create_volumes(
        self, context: RequestContext, request: JSONObject, client_token: fields.Token | None = None
    ) -> MadeVolumes:
        """Return ``volumes``, each with ``uuid`` and ``name``, and ``warnings``.

        :param client_token: a repeated request with the same token gets the volumes of the first one
        :raises errors.InvalidInput:
        :raises errors.NotFound: the volume type, or the source
        :raises errors.Conflict: the source is not available, or the token was used for another request
        """
        require_size(request, "request")
        warnings = request_keys.unknown(request, VolumeRequest, "request")
        volumes = self._creation.accept(context, VolumeRequest.from_wire(request), client_token)
        return {"volumes": volumes, "warnings": warnings}

    @endpoint
    def list_volumes(
        self,
        context: RequestContext,
        filters: JSONObject | None = None,
        limit: fields.Positive | None = None,
        marker: fields.Uuid | None = None,
    ) -> list[VolumeView]:
        """:param filters: named in ``fleet.db.volumes.volumes.FILTERS``
        :param limit: most volumes
        :param marker: only those after this one
        :raises errors.InvalidInput: an unknown filter, or more than an answer may have
        :raises errors.NotFound: a type or a backend that neither exists nor has volumes, or an unknown marker
        """
        volumes.require_known(filters)
        return self._database.read(_listed, filters or {}, context.scope, limit, marker)

    @endpoint
    def show_volume(self, context: RequestContext, name: fields.Name) -> ShownVolume:
        """:raises errors.NotFound: errors.Conflict: several volumes match"""
        return self._database.read(_shown, name)

    @endpoint
    def update_volume(self, context: RequestContext, name: fields.Name, changes: JSONObject) -> VolumeView:
        """Change the name, the description or the metadata in any status. No pool and no scheduler needs to know it.

        :param changes: a VolumeChanges
        :raises errors.NotFound: errors.Conflict: several volumes match; errors.InvalidInput:
        """
        require_size(changes, "changes")
        wanted = VolumeChanges.from_wire(changes)

        def change(tx: Transaction) -> VolumeView:
            row = volumes.lock(tx, found.uuid)
            if row.deleted:
                raise errors.NotFound(kind="Volume", name=name)
            details = wanted.details({"metadata": row.spec.get("metadata", {})})
            return views.of_volume(volumes.note(tx, row, name=wanted.name or row.name, spec={**row.spec, **details}))

        found = self._database.read(volumes.find, name)
        return self._database.write(change)

    @endpoint
    def delete_volume(
        self,
        context: RequestContext,
        name: fields.Name,
        with_snapshots: fields.Flag = False,
        force: fields.Flag = False,
    ) -> VolumeView:
        """Delete a volume in any status.

        :param with_snapshots: delete its snapshots first
        :param force: also if the agent of its backend is down or removed, which removes the data if it comes back
        :raises errors.NotFound: errors.Conflict: several volumes match, or the volume has snapshots
        :raises errors.NotTrusted: only the administrator may force it
        """
        if force and not context.is_admin:
            raise errors.NotTrusted(reason="only the administrator forces the deletion of a volume")
        found = self._database.read(volumes.find, name)
        subject, shown = f"{found.name} ({found.uuid})", claims.state_of(found.uuid)
        ctx = self._placement.step_context(context)
        asked = (found.uuid, ctx, with_snapshots, force)
        row = self._acts.write(context, "volume.delete", subject, shown, deletion.begin_deletion, *asked)
        LOG.info("Deleting volume %s", row.name)
        first = self._database.read(volumes.snapshots, {"snapshot_of": row.uuid}) if with_snapshots else []
        for each in (*first, row):
            about = context.about(volume=each.uuid, attempt=each.attempt, host=each.host)
            self._placement.notify(about, each)
        return views.of_volume(row)

    @endpoint
    def extend_volume(self, context: RequestContext, name: fields.Name, size: volume.Size) -> VolumeView:
        """:param size: the new size in GiB
        :raises errors.NotFound: errors.Conflict: errors.InvalidInput: errors.PoolSpaceUnavailable:
        """
        found = self._database.read(volumes.find, name)
        row = self._database.write(extension.extend, found.uuid, size, self._placement.step_context(context))
        about = context.about(volume=row.uuid, attempt=row.attempt, host=row.host)
        LOG.info("Extending volume %s from %d to %d GiB", row.name, row.size_gb, size)
        self._placement.notify(about, row)
        return views.of_volume(row)

    @endpoint
    def list_pools(self, context: RequestContext, name: fields.Name | None = None) -> list[PoolView]:
        """:param name: ``machine@backend#pool``, or without the pool. :raises errors.NotFound: nothing has this name"""
        found = self._database.read(self._read_pools)
        if name is None:
            return found
        named = [each for each in found if name in (each["name"], location.extract_host(each["name"]))]
        if not named:
            raise errors.NotFound(kind="Storage pool", name=name)
        return named

    def _read_pools(self, connection: Connection) -> list[PoolView]:
        ctx = self._placement.step_context()
        agents = services.of_hosts(connection, services.VOLUME, None)
        return [_with_service(row, agents.get(row.host), ctx) for row in pools.list_all(connection)]

    @endpoint
    def create_volume_type(self, context: RequestContext, volume_type: JSONObject) -> VolumeTypeView:
        """:raises errors.InvalidInput: errors.Conflict:"""
        wanted = VolumeType.from_wire(volume_type)
        fields.require_small(wanted.extra_specs, "volume_type.extra_specs")
        asked = (volume_types.create, wanted, self._placement.now())
        return self._change_type(context, "volume_type.create", wanted.name, *asked).to_wire()

    @endpoint
    def update_volume_type(
        self,
        context: RequestContext,
        name: fields.Name,
        extra_specs: dict[fields.Name, fields.Text | None],
        description: fields.Text | None = None,
        new_name: fields.Name | None = None,
        is_public: fields.Flag | None = None,
    ) -> VolumeTypeView:
        """:param extra_specs: to be set; None removes one
        :param is_public: whether every project may use it; volumes of others stay

        :raises errors.InvalidInput: errors.NotFound: errors.Conflict: the new name is taken, or volumes have the type
        """
        asked = (_change_type, name, extra_specs, description, new_name, is_public)
        return self._change_type(context, "volume_type.update", name, *asked).to_wire()

    @endpoint
    def delete_volume_type(self, context: RequestContext, name: fields.Name) -> None:
        """Volumes of the type keep it. :raises errors.NotFound:"""
        self._change_type(context, "volume_type.delete", name, volume_types.remove, name)

    def _change_type(
        self, context: RequestContext, act: str, name: str, work: Callable[..., Changed], *args: object
    ) -> Changed:
        return self._acts.write(context, act, name, functools.partial(volume_types.find, name=name), work, *args)

    @endpoint
    def list_volume_types(self, context: RequestContext) -> list[VolumeTypeView]:
        return [each.to_wire() for each in self._database.read(volume_types.list_all, context.scope)]

    @endpoint
    def list_volume_type_access(self, context: RequestContext, name: fields.Name) -> list[str]:
        """The projects that may use a type that is not public. :raises errors.NotFound: errors.Conflict: it is public"""
        return list(self._database.read(volume_types.projects, name))

    @endpoint
    def add_volume_type_access(self, context: RequestContext, name: fields.Name, project_id: fields.Name) -> list[str]:
        """Let a project use a type that is not public. Return all that may.

        :raises errors.NotFound: errors.Conflict: the type is public, or the project may use it already
        """
        return self._change_access(context, "volume_type.grant", name, volume_types.grant, project_id)

    @endpoint
    def remove_volume_type_access(
        self, context: RequestContext, name: fields.Name, project_id: fields.Name
    ) -> list[str]:
        """Let a project use a type no more. Return those that still may.

        :raises errors.NotFound: also if the project may not use it; errors.Conflict: the type is public
        """
        return self._change_access(context, "volume_type.revoke", name, volume_types.revoke, project_id)

    def _change_access(
        self, context: RequestContext, act: str, name: str, work: Callable[..., Sequence[str]], project_id: str
    ) -> list[str]:
        def shown(tx: Transaction) -> JSONObject:
            return {"projects": list(volume_types.projects(tx, name))}

        return list(self._acts.write(context, act, name, shown, work, name, project_id))


def _change_type(
    tx: Transaction,
    name: str,
    extra_specs: dict[str, str | None],
    description: str | None,
    new_name: str | None,
    is_public: bool | None,
) -> VolumeType:
    known = volume_types.find(tx, name)
    specs = {key: value for key, value in {**known.extra_specs, **extra_specs}.items() if value is not None}
    fields.require_small(specs, "extra_specs")
    text = known.description if description is None else description
    public = known.is_public if is_public is None else is_public
    wanted = {"name": new_name or name, "extra_specs": specs, "description": text, "is_public": public}
    return volume_types.change(tx, name, VolumeType.from_wire(wanted))


def _with_service(row: PoolRow, service: ServiceRow | None, ctx: StepContext) -> PoolView:
    up = service is not None and services.is_up(service, ctx.now, ctx.limits.service_down_time_s)
    return views.of_pool(row, up, service is None or service.disabled)


def _listed(
    connection: Connection, filters: JSONMapping, project: str | None, limit: int | None, marker: str | None
) -> list[VolumeView]:
    """Live volumes.

    :param project: for which they are listed; None: the administrator
    :raises errors.NotFound: nothing has the type, the backend or the pool that the filters name
    """
    found = listing.read(connection, "Volume", filters, limit, marker, _with_guests)
    if not found and marker is None:
        _require_places(connection, filters, project)
    return found


def _with_guests(connection: Connection, found: Sequence[VolumeRow]) -> list[VolumeView]:
    """Volumes as users see them, with the guests that have them."""
    attached = [row.uuid for row in found if row.status in volume_states.WITH_A_GUEST]
    guests = attachments.of_volumes(connection, attached)
    return [views.of_volume(row, guests.get(row.uuid)) for row in found]


def _require_places(connection: Connection, filters: JSONMapping, project: str | None) -> None:
    """:raises errors.NotFound: nothing has the type, the backend or the pool that the filters name"""
    host, pool, volume_type = (filters.get(name) for name in ("host", "pool", "volume_type"))
    there = [row for row in pools.list_all(connection, host) if pool in (None, row.pool)]
    where = location.append_host(host, pool)
    if where and not there and not volumes.list_all(connection, limit=1, host=host, pool=pool):
        raise errors.NotFound(kind="Storage pool", name=where)
    if volume_type and not volumes.list_all(connection, limit=1, volume_type=volume_type, project_id=project):
        volume_types.find(connection, volume_type, project)


def _shown(connection: Connection, name: str) -> ShownVolume:
    """A volume with the names of its snapshots, and what failed in its life. :raises errors.NotFound: errors.Conflict:"""
    row = volumes.find(connection, name)
    faults = [views.of_event(each) for each in volume_history.faults(connection, row.uuid, _NEWEST)]
    (shown,) = _with_guests(connection, [row])
    return {**shown, "snapshots": volumes.snapshots_of(connection, row.uuid), "faults": faults}
