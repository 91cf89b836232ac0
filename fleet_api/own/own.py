# SPDX-License-Identifier: Apache-2.0
"""Routes beside nova's API, under ``/fleet/v1``: for the page, and for scripts.

Called by :mod:`fleet_api.application`. The answers are those of the RPC (docs/wire-contract.md, docs/explain.md), but
for the hosts: ten thousand of them are columns and rows, which is a quarter of the size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, cast

import falcon
from typing_extensions import TypedDict

from fleet.client import pages
from fleet.json_codec import JSONMapping
from fleet.objects import fields
from fleet.objects.answers.hosts import ActView
from fleet_api.access import identity, rules
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor

ROOT = "/fleet/v1"
HOST_COLUMNS = (
    *("host", "node", "zone", "labels", "state", "status", "running_vms", "hypervisor_type", "updated_at"),
    *("vcpus", "vcpus_used", "reserved_vcpus", "cpu_allocation_ratio"),
    *("memory_mb", "memory_mb_used", "reserved_memory_mb", "ram_allocation_ratio"),
    *("local_gb", "local_gb_used", "reserved_disk_gb", "disk_allocation_ratio"),
)
_BUILD_FIELDS = (
    *("uuid", "name", "project_id", "vm_state", "task_state", "host", "attempt"),
    *("created_at", "updated_at", "deadline"),
)
_DEFAULT_BUILDS, _MOST_BUILDS = 50, 500
_MOST_SCORES = 50


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """A request as ``create`` takes it (docs/wire-contract.md), with what is asked about it."""

    __pydantic_config__ = bodies.STRICT

    request: dict[fields.Name, object]
    best: fields.Natural = 10
    group_by: Literal["zone", "aggregate"] | None = None


@dataclasses.dataclass(frozen=True)
class _Call:
    """``project_id`` and ``user_id`` are whom the call is for; see :func:`fleet_api.access.identity.acting_for`."""

    __pydantic_config__ = bodies.STRICT

    arguments: dict[fields.Name, object] = dataclasses.field(default_factory=dict)
    project_id: fields.Text | None = None
    user_id: fields.Text | None = None


class HostTable(TypedDict):
    """A row has a value for each column."""

    columns: list[str]
    rows: list[list[object]]


class FlavorOfBuild(TypedDict):
    name: str
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int


class BuildShown(TypedDict):
    uuid: str
    name: str
    project_id: str | None
    vm_state: str
    task_state: str | None
    host: str | None
    attempt: int
    created_at: str
    updated_at: str | None
    deadline: str | None
    flavor: FlavorOfBuild
    fault: dict[str, object] | None


class Result(TypedDict):
    result: object


class Refusal(TypedDict):
    """``error`` is the name of a class of errors, ``facts`` are its arguments."""

    error: str
    facts: dict[str, object]
    message: str


_ON_THE_WIRE = answers.Answer(entire=answers.AsOnTheWire)


class Own:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("fleet:others")
    @answers.gives(answers.Answer(entire=HostTable))
    def on_get_hosts(self, request: falcon.Request, response: falcon.Response) -> None:
        """All hosts as ``columns`` and ``rows``."""
        rows = pages.host_table(self._conductor.operator(request), HOST_COLUMNS)
        shown: HostTable = {"columns": list(HOST_COLUMNS), "rows": rows}
        response.media = shown

    @guard.by("fleet:others")
    @answers.gives(_ON_THE_WIRE)
    def on_get_host(self, request: falcon.Request, response: falcon.Response, name: str) -> None:
        """One host with its instances. :raises errors.NotFound:"""
        response.media = self._conductor.operator(request).show_host(name=name)

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"builds": list[BuildShown]}))
    @bodies.asks("limit", "vm_state")
    def on_get_builds(self, request: falcon.Request, response: falcon.Response) -> None:
        """Instances, the newest first; each that is in ERROR with its newest fault."""
        limit = min(bodies.number(request, "limit") or _DEFAULT_BUILDS, _MOST_BUILDS)
        filters = {"vm_state": request.get_param("vm_state")}
        found = self._conductor.operator(request).list_instances(filters=filters, limit=limit, newest_first=True)
        failed = [each["uuid"] for each in found if each["vm_state"] == "error"]
        faults = self._conductor.operator(request).newest_faults(uuids=failed) if failed else {}
        response.media = {"builds": [_build(each, faults.get(each["uuid"])) for each in found]}

    @guard.by("fleet:others")
    @answers.gives(_ON_THE_WIRE)
    def on_get_trace(self, request: falcon.Request, response: falcon.Response, name: str) -> None:
        """The events of an instance, a reservation or a request id. :raises errors.NotFound: errors.Conflict:"""
        response.media = self._conductor.operator(request).trace(name=name)

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"flavors": list[answers.AsOnTheWire]}))
    def on_get_flavors(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = {"flavors": self._conductor.operator(request).list_flavors()}

    @guard.by("fleet:others")
    @answers.gives(_ON_THE_WIRE)
    @bodies.asks("hours", "points")
    def on_get_use(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show the use of instances in the last ``hours``, at evenly spaced times. :raises errors.InvalidInput:"""
        asked = {name: value for name in ("hours", "points") if (value := bodies.number(request, name)) is not None}
        response.media = self._conductor.operator(request).use_over_time(**asked)

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"acts": list[ActView]}))
    @bodies.asks("limit")
    def on_get_acts(self, request: falcon.Request, response: falcon.Response) -> None:
        """List the acts of administrators and the accepted builds, the newest first. :raises errors.InvalidInput:"""
        limit = bodies.number(request, "limit")
        asked = {} if limit is None else {"limit": limit}
        response.media = {"acts": self._conductor.operator(request).list_acts(**asked)}

    @guard.by("fleet:others")
    @answers.gives(_ON_THE_WIRE)
    @bodies.takes(bodies.Body(entire=_Wanted))
    def on_post_explain(self, request: falcon.Request, response: falcon.Response) -> None:
        """Explain which hosts a request would get, or why it would get none. Nothing is booked."""
        wanted = _wanted(request)
        response.media = self._conductor.explain(request, wanted.request, min(wanted.best, _MOST_SCORES))

    @guard.by("fleet:others")
    @answers.gives(_ON_THE_WIRE)
    @bodies.takes(bodies.Body(entire=_Wanted))
    def on_post_capacity(self, request: falcon.Request, response: falcon.Response) -> None:
        """Count the further instances of a request's shape that fit."""
        wanted = _wanted(request)
        response.media = self._conductor.capacity(request, wanted.request, wanted.group_by)

    @guard.by("fleet:others")
    @answers.gives(answers.Answer(entire=Result))
    @answers.gives(answers.Answer(entire=Refusal), answers.FAILURE)
    @bodies.takes(bodies.Body(entire=_Call))
    def on_post_call(self, request: falcon.Request, response: falcon.Response, topic: str, method: str) -> None:
        """A call of the wire contract, as the ``fleet`` command makes it."""
        asked = bodies.entire(request, _Call)
        if _names_volumes(topic, method, asked.arguments):
            identity.require(request, rules.ATTACH)
        context = identity.acting_for(request, asked.project_id, asked.user_id)
        calls = self._conductor.calls
        response.media, response.status = calls.answer(context, topic, method, asked.arguments)


def routes(conductor: Conductor) -> list[tuple[str, object, str | None]]:
    """Path below ROOT, resource and suffix."""
    own = Own(conductor)
    return [
        ("/hosts", own, "hosts"),
        ("/hosts/{name}", own, "host"),
        ("/builds", own, "builds"),
        ("/trace/{name}", own, "trace"),
        ("/flavors", own, "flavors"),
        ("/use", own, "use"),
        ("/acts", own, "acts"),
        ("/explain", own, "explain"),
        ("/capacity", own, "capacity"),
        ("/calls/{topic}/{method}", own, "call"),
    ]


def _wanted(request: falcon.Request) -> _Wanted:
    """:raises errors.InvalidInput: fleet_api.requests.faults.Fault:"""
    return bodies.entire(request, _Wanted)


def _names_volumes(topic: str, method: str, arguments: Mapping[str, object]) -> bool:
    """Return True for a build that attaches volumes: it has a rule of its own, as in ``POST /servers``."""
    build = arguments.get("request") if (topic, method) == ("compute_task", "create") else None
    return isinstance(build, dict) and bool(build.get("block_device_mapping"))


def _build(instance: JSONMapping, fault: Mapping[str, object] | None) -> BuildShown:
    flavor = instance["flavor"]
    known = {name: instance[name] for name in _BUILD_FIELDS}
    of_flavor = {name: flavor[name] for name in FlavorOfBuild.__annotations__}
    return cast(BuildShown, {**known, "flavor": of_flavor, "fault": fault})
