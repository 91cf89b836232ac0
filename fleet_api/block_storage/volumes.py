# SPDX-License-Identifier: Apache-2.0
"""Volumes: create, list, show, extend, migrate, retype, delete. Called by :mod:`fleet_api.block_storage.routes`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, NotRequired

import falcon
from oslo_utils import strutils, uuidutils
from typing_extensions import TypedDict

from fleet import errors
from fleet.client import pages
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields
from fleet.objects.answers.volumes import VolumeView
from fleet.objects.changes import NewMetadata
from fleet.objects.volume import Size
from fleet_api.access import identity, rules
from fleet_api.block_storage import list_filters, views, volume_request, volume_types
from fleet_api.block_storage.metadata import Metadata
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import Fault, NotHere
from fleet_api.servers.servers import IDEMPOTENCY_KEY

_FILTERS = {
    "name": "name",
    "status": "status",
    "volume_type": "volume_type",
    "host": "host",
    "project_id": "project_id",
}
_PARAMETERS = (*views.PARAMETERS, *_FILTERS, *list_filters.OF_VOLUMES)


@dataclasses.dataclass(frozen=True)
class _Extend:
    __pydantic_config__ = bodies.STRICT

    new_size: Size


@dataclasses.dataclass(frozen=True)
class _Migrate:
    """The destination of a migration. Cinder's other fields choose a way of copying, and are ignored: fleet has one way."""

    host: fields.Name | None = None


@dataclasses.dataclass(frozen=True)
class _Retype:
    __pydantic_config__ = bodies.STRICT

    new_type: fields.Name
    migration_policy: Literal["never", "on-demand"] = "never"


@dataclasses.dataclass(frozen=True)
class _Bootable:
    __pydantic_config__ = bodies.STRICT

    bootable: fields.Flag | Literal["true", "false", "True", "False"]


@dataclasses.dataclass(frozen=True)
class _Update:
    __pydantic_config__ = bodies.STRICT

    name: fields.Text | None = None
    description: fields.Text | None = None
    display_name: fields.Text | None = None
    display_description: fields.Text | None = None
    metadata: NewMetadata | None = None


_ACTIONS: JSONMapping = {
    "os-extend": _Extend,
    "os-migrate_volume": _Migrate,
    "os-retype": _Retype,
    "os-unmanage": None,
    "os-set_bootable": _Bootable,
    "os-force_delete": None,
}


_ONE = answers.Answer({"volume": views.VolumeShown})
#: Versions from which there is a summary, and metadata in it.
_SUMMARY, _SUMMARY_OF_METADATA = (3, 12), (3, 36)


class Summary(TypedDict):
    """The number of volumes of a project, and their size in GiB."""

    total_size: int
    total_count: int
    metadata: NotRequired[Annotated[dict[str, list[str]], answers.since("3.36")]]


class Volumes:
    """:param most: most volumes in one answer"""

    def __init__(self, conductor: Conductor, most: int) -> None:
        self._conductor = conductor
        self._most = most
        self._actions: Mapping[str, Callable[[falcon.Request, str, object], None]] = {
            "os-extend": self._extend,
            "os-migrate_volume": self._migrate,
            "os-retype": self._retype,
            "os-unmanage": self._unmanage,
            "os-set_bootable": self._set_bootable,
            "os-force_delete": self._force_delete,
        }

    @guard.by("volume:change")
    @answers.gives(_ONE, 202)
    @bodies.takes(volume_request.BODY)
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        wanted = volume_request.parse(request, self._conductor)
        token = request.get_header(IDEMPOTENCY_KEY)
        named = {"client_token": token} if token else {}
        (made,) = self._conductor.operator(request).create_volumes(request=wanted, **named)["volumes"]
        response.media = {"volume": views.new_volume(request, self._shown(request, made["uuid"]))}
        response.status = falcon.HTTP_202

    @guard.by("volume:get")
    @answers.gives(answers.listed("volumes", views.BriefVolume, count=int))
    @bodies.asks(*_PARAMETERS)
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._listed(request, "volumes", views.brief_volume)

    @guard.by("volume:get")
    @answers.gives(answers.listed("volumes", views.VolumeShown, count=int))
    @bodies.asks(*_PARAMETERS)
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._listed(request, "volumes/detail", views.volume)

    @guard.by("volume:get")
    @answers.gives(_ONE)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, volume_id: str) -> None:
        response.media = {"volume": views.volume(request, self._shown(request, volume_id))}

    @guard.by("volume:change")
    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"volume": _Update}))
    def on_put_one(self, request: falcon.Request, response: falcon.Response, volume_id: str) -> None:
        """Other fields stay. ``display_name`` and ``display_description`` are the names of old clients."""
        self._shown(request, volume_id)
        asked = bodies.part(request, "volume", _Update)
        names = {"name": asked.name or asked.display_name, "description": asked.description}
        if asked.description is None:
            names["description"] = asked.display_description
        changes: JSONObject = {name: given for name, given in names.items() if given is not None}
        if asked.metadata is not None:
            changes |= {"metadata": asked.metadata, "replace_metadata": True}
        if not changes:
            raise errors.InvalidInput(field="volume", reason="has nothing to change")
        response.media = {"volume": views.new_volume(request, self._change(request, volume_id, **changes))}

    @guard.by("volume:change")
    @answers.gives(answers.NOTHING, 202)
    @bodies.asks("cascade")
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, volume_id: str) -> None:
        self._shown(request, volume_id)
        calls = self._conductor.operator(request)
        if bodies.flag(request, "cascade"):
            calls.delete_volume(name=volume_id, with_snapshots=True)
        else:
            calls.delete_volume(name=volume_id)
        response.status = falcon.HTTP_202

    @guard.by("volume:get")
    @answers.gives(answers.Answer({"volume-summary": Summary}))
    @bodies.asks("all_tenants")
    def on_get_summary(self, request: falcon.Request, response: falcon.Response) -> None:
        """From version 3.12 on. Metadata of all volumes, by key, are there from version 3.36 on."""
        if request.context.version < _SUMMARY:
            raise Fault(404, "A summary is there from version 3.12 on.")
        found = pages.volumes(self._conductor.operator(request), views.filters(request, {}))
        shown: Summary = {"total_size": sum(each["size_gb"] for each in found), "total_count": len(found)}
        if request.context.version >= _SUMMARY_OF_METADATA:
            values: dict[str, set[str]] = {}
            for each in found:
                for key, value in each["metadata"].items():
                    values.setdefault(key, set()).add(value)
            shown["metadata"] = {key: sorted(values[key]) for key in sorted(values)}
        response.media = {"volume-summary": shown}

    def metadata(self) -> Metadata:
        """Return the resource of the metadata of volumes."""
        return Metadata(
            lambda request, path: self._shown(request, path["volume_id"]),
            lambda request, path, changes: self._change(request, path["volume_id"], **changes),
        )

    def _change(self, request: falcon.Request, volume_id: str, **changes: object) -> JSONMapping:
        found: JSONMapping = self._conductor.operator(request).update_volume(name=volume_id, changes=changes)
        return found

    @guard.by("volume:change")
    @answers.gives(answers.NOTHING, 200, 202)
    @bodies.takes(bodies.Body(_ACTIONS))
    def on_post_action(self, request: falcon.Request, response: falcon.Response, volume_id: str) -> None:
        body = bodies.whole(request)
        if len(body) != 1:
            raise errors.InvalidInput(field="action", reason="is required, and there can be only one")
        ((name, wanted),) = body.items()
        self._shown(request, volume_id)
        if name not in self._actions:
            raise NotHere(f"The action {name[:100]}")
        self._actions[name](request, volume_id, wanted)
        response.status = falcon.HTTP_200 if name == "os-set_bootable" else falcon.HTTP_202

    def _extend(self, request: falcon.Request, volume_id: str, wanted: object) -> None:
        size = fields.parse(_Extend, wanted, "os-extend").new_size
        self._conductor.operator(request).extend_volume(name=volume_id, size=size)

    def _migrate(self, request: falcon.Request, volume_id: str, wanted: object) -> None:
        identity.require(request, rules.MIGRATE_VOLUME)
        host = fields.parse(_Migrate, wanted, "os-migrate_volume").host
        with bodies.naming("os-migrate_volume.host"):
            self._conductor.operator(request).migrate_volume(name=volume_id, **({"host": host} if host else {}))

    def _retype(self, request: falcon.Request, volume_id: str, wanted: object) -> None:
        asked = fields.parse(_Retype, wanted, "os-retype")
        with bodies.naming("os-retype.new_type"):
            name = volume_types.find(self._conductor, request, asked.new_type).name
        policy = asked.migration_policy
        self._conductor.operator(request).retype_volume(name=volume_id, volume_type=name, migration_policy=policy)

    def _unmanage(self, request: falcon.Request, volume_id: str, _wanted: object) -> None:
        """The volume goes, and its data stay on their pool."""
        identity.require(request, rules.MANAGE_VOLUME)
        self._conductor.operator(request).unmanage_volume(name=volume_id)

    def _set_bootable(self, request: falcon.Request, volume_id: str, wanted: object) -> None:
        asked = fields.parse(_Bootable, wanted, "os-set_bootable").bootable
        self._change(request, volume_id, bootable=strutils.bool_from_string(asked))

    def _force_delete(self, request: falcon.Request, volume_id: str, _wanted: object) -> None:
        """A volume is deleted in any status. What is forced: its backend is not waited for if it is down."""
        identity.require(request, rules.FORCE_DELETE_VOLUME)
        self._conductor.operator(request).delete_volume(name=volume_id, force=True)

    def _listed(self, request: falcon.Request, path: str, shown: views.View) -> JSONObject:
        show = self._conductor.operator(request).show_volume
        return views.listed(request, self._found(request), path, shown, self._most, show)

    def _found(self, request: falcon.Request) -> list[VolumeView]:
        matches = list_filters.conditions(request, _PARAMETERS)
        wanted = views.filters(request, _FILTERS)
        found = pages.volumes(self._conductor.operator(request), wanted)
        return [each for each in found if all(match(each) for match in matches)]

    def _shown(self, request: falcon.Request, volume_id: str) -> JSONMapping:
        """Find a volume by uuid only: clients look up names in the list. :raises errors.NotFound:"""
        if not uuidutils.is_uuid_like(volume_id):
            raise errors.NotFound(kind="Volume", name=volume_id)
        found: JSONMapping = self._conductor.operator(request).show_volume(name=volume_id)
        views.require_own(request, found, "Volume", volume_id)
        return found
