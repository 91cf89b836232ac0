# SPDX-License-Identifier: Apache-2.0
"""Metadata and tags of servers. :mod:`fleet_api.application` names their paths."""

from __future__ import annotations

from collections.abc import Mapping

import falcon

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet.objects import fields
from fleet.objects.changes import NewMetadata, OneMetadata, Tags
from fleet_api.requests import answers, bodies, guard, microversions
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import Fault
from fleet_api.servers.input.server_change import change
from fleet_api.servers.servers import show

_SINCE = (2, 26)


_ALL, _ONE = answers.Answer({"metadata": dict[str, str]}), answers.Answer({"meta": dict[str, str]})
_TAGS = answers.Answer({"tags": list[str]})


class Metadata:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("compute:servers:get")
    @answers.gives(_ALL)
    def on_get(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        response.media = {"metadata": self._shown(request, server_id)["metadata"]}

    @guard.by("compute:servers:update")
    @answers.gives(_ALL)
    @bodies.takes(bodies.Body({"metadata": NewMetadata}))
    def on_post(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        """Keys that are not named stay."""
        self._shown(request, server_id)
        given = bodies.part(request, "metadata", NewMetadata)
        response.media = {"metadata": self._change(request, server_id, metadata=given)["metadata"]}

    @guard.by("compute:servers:update")
    @answers.gives(_ALL)
    @bodies.takes(bodies.Body({"metadata": NewMetadata}))
    def on_put(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        """Keys that are not named go."""
        self._shown(request, server_id)
        given = bodies.part(request, "metadata", NewMetadata)
        changed = self._change(request, server_id, metadata=given, replace_metadata=True)
        response.media = {"metadata": changed["metadata"]}

    @guard.by("compute:servers:get")
    @answers.gives(_ONE)
    def on_get_key(self, request: falcon.Request, response: falcon.Response, server_id: str, key: str) -> None:
        response.media = {"meta": {key: self._value(request, server_id, key)}}

    @guard.by("compute:servers:update")
    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"meta": OneMetadata}))
    def on_put_key(self, request: falcon.Request, response: falcon.Response, server_id: str, key: str) -> None:
        self._shown(request, server_id)
        given = bodies.part(request, "meta", OneMetadata)
        if key not in given:
            raise errors.InvalidInput(field="meta", reason="must have the key that the path names")
        response.media = {"meta": {key: self._change(request, server_id, metadata=given)["metadata"][key]}}

    @guard.by("compute:servers:update")
    @answers.gives(answers.NOTHING, 204)
    def on_delete_key(self, request: falcon.Request, response: falcon.Response, server_id: str, key: str) -> None:
        self._value(request, server_id, key)
        self._change(request, server_id, metadata={key: None})
        response.status = falcon.HTTP_204

    def _value(self, request: falcon.Request, server_id: str, key: str) -> str:
        found: Mapping[str, str] = self._shown(request, server_id)["metadata"]
        if key not in found:
            raise Fault(404, "Metadata item was not found.")
        return found[key]

    def _shown(self, request: falcon.Request, server_id: str) -> JSONMapping:
        return _instance(self._conductor, request, server_id)

    def _change(self, request: falcon.Request, server_id: str, **changes: object) -> JSONMapping:
        return change(self._conductor, request, server_id, changes)


class ServerTags:
    """From version 2.26 on."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("compute:servers:get")
    @answers.gives(_TAGS)
    def on_get(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        response.media = {"tags": self._tags(request, server_id)}

    @guard.by("compute:servers:update")
    @answers.gives(_TAGS)
    @bodies.takes(bodies.Body({"tags": Tags}))
    def on_put(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        self._tags(request, server_id)
        given = bodies.part(request, "tags", Tags)
        response.media = {"tags": change(self._conductor, request, server_id, {"tags": given})["tags"]}

    @guard.by("compute:servers:update")
    @answers.gives(answers.NOTHING, 204)
    def on_delete(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        self._tags(request, server_id)
        change(self._conductor, request, server_id, {"tags": []})
        response.status = falcon.HTTP_204

    @guard.by("compute:servers:get")
    @answers.gives(answers.NOTHING, 204)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, server_id: str, tag: str) -> None:
        self._require(request, server_id, tag)
        response.status = falcon.HTTP_204

    @guard.by("compute:servers:update")
    @answers.gives(answers.NOTHING, 201, 204)
    def on_put_one(self, request: falcon.Request, response: falcon.Response, server_id: str, tag: str) -> None:
        there = tag in self._tags(request, server_id)
        fields.parse(Tags, [tag], "tag")
        change(self._conductor, request, server_id, {"add_tags": [tag]})
        response.status = falcon.HTTP_204 if there else falcon.HTTP_201
        if not there:
            response.location = microversions.links(request, f"/servers/{server_id}/tags/{tag}")[0]["href"]

    @guard.by("compute:servers:update")
    @answers.gives(answers.NOTHING, 204)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, server_id: str, tag: str) -> None:
        self._require(request, server_id, tag)
        change(self._conductor, request, server_id, {"remove_tags": [tag]})
        response.status = falcon.HTTP_204

    def _require(self, request: falcon.Request, server_id: str, tag: str) -> None:
        if tag not in self._tags(request, server_id):
            raise Fault(404, f"Server {server_id} has no tag '{tag}'.")

    def _tags(self, request: falcon.Request, server_id: str) -> list[str]:
        if request.context.version < _SINCE:
            raise Fault(404, "Tags of servers are known from version 2.26 on.")
        found: list[str] = _instance(self._conductor, request, server_id).get("tags", [])
        return found


def _instance(conductor: Conductor, request: falcon.Request, server_id: str) -> JSONMapping:
    found: JSONMapping = show(conductor, request, server_id)["instance"]
    return found
