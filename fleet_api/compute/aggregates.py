# SPDX-License-Identifier: Apache-2.0
"""Host aggregates. Their ids are integers. Called by :mod:`fleet_api.application`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired

import falcon
from typing_extensions import TypedDict

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet.objects import fields
from fleet.objects.answers.hosts import AggregateView
from fleet.rpc.clients import OperatorCalls
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor

_ZONE = "availability_zone"
_UUID = (2, 41)


@dataclasses.dataclass(frozen=True)
class _New:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name
    availability_zone: fields.Text | None = None


@dataclasses.dataclass(frozen=True)
class _Change:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name | None = None
    availability_zone: fields.Text | None = None


@dataclasses.dataclass(frozen=True)
class _Host:
    __pydantic_config__ = bodies.STRICT

    host: fields.Name


@dataclasses.dataclass(frozen=True)
class _Metadata:
    __pydantic_config__ = bodies.STRICT

    metadata: dict[fields.Name, fields.Text | None]


class NewAggregate(TypedDict):
    id: int
    name: str
    availability_zone: str | None
    created_at: str | None
    updated_at: str | None
    deleted: bool
    deleted_at: None
    uuid: NotRequired[Annotated[str, answers.since("2.41")]]


class AggregateShown(NewAggregate):
    hosts: list[str]
    metadata: dict[str, str]


_ONE = answers.Answer({"aggregate": AggregateShown})


def view(request: falcon.Request, aggregate: AggregateView) -> AggregateShown:
    return {**_new(request, aggregate), "hosts": aggregate["hosts"], "metadata": aggregate["metadata"]}


def _new(request: falcon.Request, aggregate: AggregateView) -> NewAggregate:
    """Return it without hosts and metadata, as the answer to a creation shows it."""
    shown: NewAggregate = {
        "id": aggregate["id"],
        "name": aggregate["name"],
        "availability_zone": aggregate["metadata"].get(_ZONE),
        # A conductor that is older does not send them.
        "created_at": aggregate.get("created_at"),
        "updated_at": aggregate.get("updated_at"),
        "deleted": False,
        "deleted_at": None,
    }
    if request.context.version >= _UUID:
        shown["uuid"] = aggregate["uuid"]
    return shown


def _require_change(action: str, aggregate: AggregateView, wanted: Any) -> None:
    """:raises errors.Conflict: the host is there already; errors.NotFound: it is not there"""
    if action == "add_host" and wanted.host in aggregate["hosts"]:
        raise errors.Conflict(kind="Aggregate", name=aggregate["name"], reason=f"has host {wanted.host} already")
    if action == "remove_host" and wanted.host not in aggregate["hosts"]:
        raise errors.NotFound(kind=f"Host of aggregate {aggregate['name']}", name=wanted.host)


_ACTIONS: JSONMapping = {"add_host": _Host, "remove_host": _Host, "set_metadata": _Metadata}


class Aggregates:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._actions: Mapping[str, Callable[[OperatorCalls, str, Any], AggregateView]] = {
            "add_host": lambda calls, name, wanted: calls.add_aggregate_host(name=name, host=wanted.host),
            "remove_host": lambda calls, name, wanted: calls.remove_aggregate_host(name=name, host=wanted.host),
            "set_metadata": lambda calls, name, wanted: calls.set_aggregate_metadata(
                name=name, metadata=wanted.metadata
            ),
        }

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"aggregates": list[AggregateShown]}))
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = {
            "aggregates": [view(request, each) for each in self._conductor.operator(request).list_aggregates()]
        }

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"aggregate": NewAggregate}))
    @bodies.takes(bodies.Body({"aggregate": _New}))
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        wanted = bodies.part(request, "aggregate", _New)
        metadata = {_ZONE: wanted.availability_zone} if wanted.availability_zone else {}
        made = self._conductor.operator(request).create_aggregate(name=wanted.name, metadata=metadata)
        response.media = {"aggregate": _new(request, made)}

    @guard.by("fleet:others")
    @answers.gives(_ONE)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, aggregate_id: str) -> None:
        response.media = {"aggregate": view(request, self._find(request, aggregate_id))}

    @guard.by("fleet:others")
    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"aggregate": _Change}))
    def on_put_one(self, request: falcon.Request, response: falcon.Response, aggregate_id: str) -> None:
        listed = self._conductor.operator(request).list_aggregates()
        # By uuid: the name of one may be the id of another.
        name = _one(listed, aggregate_id)["uuid"]
        wanted = bodies.part(request, "aggregate", _Change)
        # Before the zone changes: a request that is refused has no effect.
        _require_free(listed, wanted.name, name)
        if wanted.availability_zone is not None:
            metadata = {_ZONE: wanted.availability_zone or None}
            self._conductor.operator(request).set_aggregate_metadata(name=name, metadata=metadata)
        if wanted.name is not None:
            self._conductor.operator(request).rename_aggregate(name=name, new_name=wanted.name)
        response.media = {"aggregate": view(request, self._find(request, aggregate_id))}

    @guard.by("fleet:others")
    @answers.gives(answers.NOTHING)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, aggregate_id: str) -> None:
        self._conductor.operator(request).delete_aggregate(name=self._find(request, aggregate_id)["uuid"])

    @guard.by("fleet:others")
    @answers.gives(_ONE)
    @bodies.takes(bodies.Body(_ACTIONS))
    def on_post_action(self, request: falcon.Request, response: falcon.Response, aggregate_id: str) -> None:
        body = bodies.whole(request)
        name = next(iter(body), "")
        if name not in self._actions:
            raise errors.InvalidInput(field="action", reason=f"must be one of {', '.join(self._actions)}")
        work = self._actions[name]
        wanted: Any = bodies.part(request, name, _ACTIONS[name])
        found = self._find(request, aggregate_id)
        _require_change(name, found, wanted)
        changed = work(self._conductor.operator(request), found["uuid"], wanted)
        response.media = {"aggregate": view(request, changed)}

    def _find(self, request: falcon.Request, aggregate_id: str) -> AggregateView:
        return _one(self._conductor.operator(request).list_aggregates(), aggregate_id)


def _one(listed: Sequence[AggregateView], aggregate_id: str) -> AggregateView:
    """:raises errors.NotFound:"""
    for each in listed:
        if str(each["id"]) == aggregate_id:
            return each
    raise errors.NotFound(kind="Aggregate", name=aggregate_id)


def _require_free(listed: Sequence[AggregateView], name: str | None, uuid: str) -> None:
    """:raises errors.Conflict: another aggregate than this one has the name"""
    for each in listed:
        if each["name"] == name and each["uuid"] != uuid:
            raise errors.Conflict(kind="Aggregate", name=name, reason="exists already")
