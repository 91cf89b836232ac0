# SPDX-License-Identifier: Apache-2.0
"""Snapshots of volumes: create, list, show, delete. Called by :mod:`fleet_api.block_storage.routes`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import falcon
from oslo_utils import uuidutils

from fleet import errors
from fleet.client import pages
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields
from fleet.objects.answers.volumes import SnapshotView
from fleet_api.block_storage import list_filters, views
from fleet_api.block_storage.metadata import Metadata
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor

_FILTERS = {"name": "name", "status": "status", "volume_id": "snapshot_of", "project_id": "project_id"}
_PARAMETERS = (*views.PARAMETERS, *_FILTERS, *list_filters.OF_SNAPSHOTS)


@dataclasses.dataclass(frozen=True)
class _Snapshot:
    """``force`` is for attached volumes; a snapshot is always made."""

    __pydantic_config__ = bodies.STRICT

    volume_id: fields.Uuid | None
    name: fields.Text | None = None
    metadata: fields.Metadata | None = None
    description: fields.Text | None = None
    #: Names of old clients.
    display_name: fields.Text | None = None
    display_description: fields.Text | None = None
    force: object = None


@dataclasses.dataclass(frozen=True)
class _Update:
    __pydantic_config__ = bodies.STRICT

    name: fields.Text | None = None
    description: fields.Text | None = None
    display_name: fields.Text | None = None
    display_description: fields.Text | None = None


class Snapshots:
    """:param most: most snapshots in one answer"""

    def __init__(self, conductor: Conductor, most: int) -> None:
        self._conductor = conductor
        self._most = most

    @guard.by("volume:change")
    @answers.gives(answers.Answer({"snapshot": views.BriefSnapshot}), 202)
    @bodies.takes(bodies.Body({"snapshot": _Snapshot}))
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        asked = bodies.part(request, "snapshot", _Snapshot)
        if asked.volume_id is None:
            raise errors.NotFound(kind="Volume", name="null")
        volume = self._conductor.operator(request).show_volume(name=asked.volume_id)
        views.require_own(request, volume, "Volume", asked.volume_id)
        description = asked.description or asked.display_description
        said = {"description": description} if description else {}
        made = self._conductor.operator(request).create_snapshot(
            volume=asked.volume_id, name=asked.name or asked.display_name or "", metadata=asked.metadata or {}, **said
        )
        response.media = {"snapshot": views.brief_snapshot(request, made)}
        response.status = falcon.HTTP_202

    @guard.by("volume:get")
    @answers.gives(answers.listed("snapshots", views.BriefSnapshot, count=int))
    @bodies.asks(*_PARAMETERS)
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._listed(request, "snapshots", views.brief_snapshot)

    @guard.by("volume:get")
    @answers.gives(answers.listed("snapshots", views.SnapshotShown, count=int))
    @bodies.asks(*_PARAMETERS)
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._listed(request, "snapshots/detail", views.snapshot)

    @guard.by("volume:get")
    @answers.gives(answers.Answer({"snapshot": views.SnapshotShown}))
    def on_get_one(self, request: falcon.Request, response: falcon.Response, snapshot_id: str) -> None:
        response.media = {"snapshot": views.snapshot(request, self._shown(request, snapshot_id))}

    @guard.by("volume:change")
    @answers.gives(answers.Answer({"snapshot": views.BriefSnapshot}))
    @bodies.takes(bodies.Body({"snapshot": _Update}))
    def on_put_one(self, request: falcon.Request, response: falcon.Response, snapshot_id: str) -> None:
        """Other fields stay. ``display_name`` and ``display_description`` are the names of old clients."""
        self._shown(request, snapshot_id)
        asked = bodies.part(request, "snapshot", _Update)
        description = asked.display_description if asked.description is None else asked.description
        given = {"name": asked.name or asked.display_name, "description": description}
        changes = {name: value for name, value in given.items() if value is not None}
        if not changes:
            raise errors.InvalidInput(field="snapshot", reason="has nothing to change")
        response.media = {"snapshot": views.brief_snapshot(request, self._change(request, snapshot_id, changes))}

    def metadata(self) -> Metadata:
        """Return the resource of the metadata of snapshots."""
        return Metadata(
            lambda request, path: self._shown(request, path["snapshot_id"]),
            lambda request, path, changes: self._change(request, path["snapshot_id"], changes),
        )

    def _change(self, request: falcon.Request, snapshot_id: str, changes: Mapping[str, object]) -> JSONMapping:
        found: JSONMapping = self._conductor.operator(request).update_snapshot(name=snapshot_id, changes=changes)
        return found

    @guard.by("volume:change")
    @answers.gives(answers.NOTHING, 202)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, snapshot_id: str) -> None:
        self._shown(request, snapshot_id)
        self._conductor.operator(request).delete_snapshot(name=snapshot_id)
        response.status = falcon.HTTP_202

    def _listed(self, request: falcon.Request, path: str, shown: views.View) -> JSONObject:
        show = self._conductor.operator(request).show_snapshot
        return views.listed(request, self._found(request), path, shown, self._most, show)

    def _found(self, request: falcon.Request) -> list[SnapshotView]:
        matches = list_filters.conditions(request, _PARAMETERS)
        wanted = views.filters(request, _FILTERS)
        found = pages.snapshots(self._conductor.operator(request), wanted)
        return [each for each in found if all(match(each) for match in matches)]

    def _shown(self, request: falcon.Request, snapshot_id: str) -> JSONMapping:
        """Find a snapshot by uuid only. :raises errors.NotFound:"""
        if not uuidutils.is_uuid_like(snapshot_id):
            raise errors.NotFound(kind="Snapshot", name=snapshot_id)
        found: JSONMapping = self._conductor.operator(request).show_snapshot(name=snapshot_id)
        views.require_own(request, found, "Snapshot", snapshot_id)
        return found
