# SPDX-License-Identifier: Apache-2.0
"""Volumes: create, list, show, extend, migrate, retype, delete."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

import falcon
from oslo_utils import uuidutils

from fleet import errors
from fleet.objects import fields
from fleet.objects.answers.volumes import VolumeView
from fleet.objects.changes import NewMetadata
from fleet.objects.volume import Size
from fleet_api.access import identity, policies
from fleet_api.block_storage import views, volume_request, volume_types
from fleet_api.requests import answers, bodies
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


@dataclasses.dataclass(frozen=True)
class _Extend:
    __pydantic_config__ = bodies.STRICT

    new_size: Size


@dataclasses.dataclass(frozen=True)
class _Migrate:
    """The other fields say how cinder copies: fleet has one way."""

    host: fields.Name | None = None


@dataclasses.dataclass(frozen=True)
class _Retype:
    __pydantic_config__ = bodies.STRICT

    new_type: fields.Name
    migration_policy: Literal["never", "on-demand"] = "never"


@dataclasses.dataclass(frozen=True)
class _Update:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name | None = None
    description: fields.Text | None = None
    display_name: fields.Name | None = None
    display_description: fields.Text | None = None
    metadata: NewMetadata | None = None


_ACTIONS: Mapping[str, Any] = {
    "os-extend": _Extend,
    "os-migrate_volume": _Migrate,
    "os-retype": _Retype,
    "os-unmanage": None,
}


_ONE = answers.Answer({"volume": views.VolumeShown})
_METADATA = answers.Answer({"metadata": dict[str, str]})


class Volumes:
    """:param most: most volumes in one answer"""

    def __init__(self, conductor: Conductor, most: int) -> None:
        self._conductor = conductor
        self._most = most
        self._actions: Mapping[str, Callable[[falcon.Request, str, Any], None]] = {
            "os-extend": self._extend,
            "os-migrate_volume": self._migrate,
            "os-retype": self._retype,
            "os-unmanage": self._unmanage,
        }

    @answers.gives(_ONE, 202)
    @bodies.takes(volume_request.BODY)
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        wanted = volume_request.parse(request, self._conductor)
        token = request.get_header(IDEMPOTENCY_KEY)
        named = {"client_token": token} if token else {}
        with bodies.naming("volume"):
            (made,) = self._conductor.operator(request).create_volumes(request=wanted, **named)["volumes"]
        response.media = {"volume": views.volume(request, self._shown(request, made["uuid"]))}
        response.status = falcon.HTTP_202

    @answers.gives(answers.listed("volumes", views.BriefVolume, count=int))
    @bodies.asks(*views.PARAMETERS, *_FILTERS)
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = views.listed(request, self._found(request), "volumes", views.brief_volume, self._most)

    @answers.gives(answers.listed("volumes", views.VolumeShown, count=int))
    @bodies.asks(*views.PARAMETERS, *_FILTERS)
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = views.listed(request, self._found(request), "volumes", views.volume, self._most)

    @answers.gives(_ONE)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, volume_id: str) -> None:
        response.media = {"volume": views.volume(request, self._shown(request, volume_id))}

    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"volume": _Update}))
    def on_put_one(self, request: falcon.Request, response: falcon.Response, volume_id: str) -> None:
        """Other fields stay. ``display_name`` and ``display_description`` are the names of old clients."""
        self._shown(request, volume_id)
        asked = bodies.part(request, "volume", _Update)
        names = {"name": asked.name or asked.display_name, "description": asked.description}
        if asked.description is None:
            names["description"] = asked.display_description
        changes: dict[str, Any] = {name: given for name, given in names.items() if given is not None}
        if asked.metadata is not None:
            changes |= {"metadata": asked.metadata, "replace_metadata": True}
        if not changes:
            raise errors.InvalidInput(field="volume", reason="has nothing to change")
        response.media = {"volume": views.volume(request, self._change(request, volume_id, **changes))}

    @answers.gives(answers.NOTHING, 202)
    @bodies.asks("cascade")
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, volume_id: str) -> None:
        self._shown(request, volume_id)
        if bodies.flag(request, "cascade"):
            raise NotHere("Deletion of a volume together with its snapshots")
        self._conductor.operator(request).delete_volume(name=volume_id)
        response.status = falcon.HTTP_202

    @answers.gives(_METADATA)
    def on_get_metadata(self, request: falcon.Request, response: falcon.Response, volume_id: str) -> None:
        response.media = {"metadata": self._shown(request, volume_id)["metadata"]}

    @answers.gives(_METADATA)
    @bodies.takes(bodies.Body({"metadata": NewMetadata}))
    def on_post_metadata(self, request: falcon.Request, response: falcon.Response, volume_id: str) -> None:
        """Keys that are not named stay."""
        self._set_metadata(request, response, volume_id, replace=False)

    @answers.gives(_METADATA)
    @bodies.takes(bodies.Body({"metadata": NewMetadata}))
    def on_put_metadata(self, request: falcon.Request, response: falcon.Response, volume_id: str) -> None:
        """Keys that are not named go."""
        self._set_metadata(request, response, volume_id, replace=True)

    @answers.gives(answers.NOTHING)
    def on_delete_metadatum(self, request: falcon.Request, response: falcon.Response, volume_id: str, key: str) -> None:
        if key not in self._shown(request, volume_id)["metadata"]:
            raise Fault(404, f"Volume {volume_id} has no metadata item {key[:100]}.")
        self._change(request, volume_id, metadata={key: None})

    def _set_metadata(self, request: falcon.Request, response: falcon.Response, volume_id: str, replace: bool) -> None:
        self._shown(request, volume_id)
        given = bodies.part(request, "metadata", NewMetadata)
        changed = self._change(request, volume_id, metadata=given, replace_metadata=replace)
        response.media = {"metadata": changed["metadata"]}

    def _change(self, request: falcon.Request, volume_id: str, **changes: Any) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._conductor.operator(request).update_volume(name=volume_id, changes=changes)
        return found

    @answers.gives(answers.NOTHING, 202)
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
        response.status = falcon.HTTP_202

    def _extend(self, request: falcon.Request, volume_id: str, wanted: Any) -> None:
        size = fields.parse(_Extend, wanted, "os-extend").new_size
        self._conductor.operator(request).extend_volume(name=volume_id, size=size)

    def _migrate(self, request: falcon.Request, volume_id: str, wanted: Any) -> None:
        identity.require(request, policies.MIGRATE_VOLUME)
        host = fields.parse(_Migrate, wanted, "os-migrate_volume").host
        with bodies.naming("os-migrate_volume.host"):
            self._conductor.operator(request).migrate_volume(name=volume_id, **({"host": host} if host else {}))

    def _retype(self, request: falcon.Request, volume_id: str, wanted: Any) -> None:
        asked = fields.parse(_Retype, wanted, "os-retype")
        with bodies.naming("os-retype.new_type"):
            name = volume_types.find(self._conductor, request, asked.new_type).name
        policy = asked.migration_policy
        self._conductor.operator(request).retype_volume(name=volume_id, volume_type=name, migration_policy=policy)

    def _unmanage(self, request: falcon.Request, volume_id: str, _wanted: Any) -> None:
        """The volume goes, and its data stay on their pool."""
        identity.require(request, policies.MANAGE_VOLUME)
        self._conductor.operator(request).unmanage_volume(name=volume_id)

    def _found(self, request: falcon.Request) -> list[VolumeView]:
        wanted = views.filters(request, _FILTERS)
        return self._conductor.operator(request).list_volumes(filters=wanted)

    def _shown(self, request: falcon.Request, volume_id: str) -> Mapping[str, Any]:
        """By uuid only: clients look for a name in the list. :raises errors.NotFound:"""
        if not uuidutils.is_uuid_like(volume_id):
            raise errors.NotFound(kind="Volume", name=volume_id)
        found: Mapping[str, Any] = self._conductor.operator(request).show_volume(name=volume_id)
        views.require_own(request, found, "Volume", volume_id)
        return found
