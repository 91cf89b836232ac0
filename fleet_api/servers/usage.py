# SPDX-License-Identifier: Apache-2.0
"""The hours for which servers of projects ran in a period, times their sizes: ``/os-simple-tenant-usage``.

Called by :mod:`fleet_api.application`. A server counts from its first start to its end. One that was deleted counts as
long as its row is kept.
"""

from __future__ import annotations

import collections
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NotRequired
from urllib.parse import quote

import falcon
from oslo_utils import timeutils
from typing_extensions import TypedDict

from fleet import errors
from fleet.clock import utcnow
from fleet.json_codec import JSONMapping
from fleet_api.access import identity
from fleet_api.access.rules import ALL_QUOTAS
from fleet_api.requests import answers, bodies, guard, paging
from fleet_api.requests.conductor import Conductor
from fleet_api.servers import parts, server_view

#: Without a beginning the period is that long.
_PERIOD = datetime.timedelta(weeks=4)
_PARAMETERS = ("start", "end", "detailed", "limit", "marker")
#: The version from which an answer has a part of the servers. Clients ask for the next part until one is empty.
_PAGES = (2, 40)
_PATH = "/os-simple-tenant-usage"


class ServerUsage(TypedDict):
    """A server: its size, ``hours`` within the period, and ``uptime`` in seconds up to now or to its end."""

    instance_id: str
    name: str
    tenant_id: str
    flavor: str
    vcpus: int
    memory_mb: int
    local_gb: int
    state: str
    started_at: str
    ended_at: str | None
    hours: float
    uptime: int


class Usage(TypedDict):
    """A project: hours of its servers, and these times what they take."""

    tenant_id: str
    start: str
    stop: str
    total_hours: float
    total_vcpus_usage: float
    total_memory_mb_usage: float
    total_local_gb_usage: float
    server_usages: NotRequired[list[ServerUsage]]


class Usages:
    """:param most: most servers in one answer, from version 2.40 on"""

    def __init__(self, conductor: Conductor, most: int) -> None:
        self._conductor = conductor
        self._most = most

    @guard.by("fleet:others")
    @answers.gives(answers.listed("tenant_usages", Usage))
    @bodies.asks(*_PARAMETERS)
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        start, stop = _period(request)
        part, links = self._part(request, self._counted(request, {}, start, stop), _PATH)
        by_project: dict[str, list[ServerUsage]] = collections.defaultdict(list)
        for each in part:
            by_project[each["tenant_id"]].append(each)
        detailed = request.get_param("detailed") == "1"
        found = [_usage(name, by_project[name], start, stop, detailed) for name in sorted(by_project)]
        response.media = {"tenant_usages": found}
        if links:
            response.media["tenant_usages_links"] = links

    @guard.by("compute:limits:get")
    @answers.gives(answers.Answer({"tenant_usage": Usage | dict[str, str]}, {"tenant_usage_links": list[answers.Link]}))
    @bodies.asks(*_PARAMETERS)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        """Empty if no server of the project ran. :raises faults.Fault: another project's are the administrator's"""
        if project_id != request.context.caller.project_id:
            identity.require(request, ALL_QUOTAS)
        start, stop = _period(request)
        counted = self._counted(request, {"project_id": project_id}, start, stop)
        part, links = self._part(request, counted, f"{_PATH}/{quote(project_id, safe='')}")
        response.media = {"tenant_usage": _usage(project_id, part, start, stop, True) if part else {}}
        if links:
            response.media["tenant_usage_links"] = links

    def _part(
        self, request: falcon.Request, counted: Iterable[ServerUsage], path: str
    ) -> tuple[Sequence[ServerUsage], Sequence[answers.Link]]:
        """Return the servers that the request asks for, and the link to the next ones. The marker is a server.

        They are in the order of project and uuid, which no deletion changes. A server that is deleted between the two lists
        is in both; the later one knows its end.
        """
        once = {each["instance_id"]: each for each in counted}
        found = sorted(once.values(), key=lambda each: (each["tenant_id"], each["instance_id"]))
        if request.context.version < _PAGES:
            return found, ()
        part, more = paging.cut(request, found, [each["instance_id"] for each in found], self._most)
        return part, paging.next_link(request, path, part[-1]["instance_id"]) if more else ()

    def _counted(
        self, request: falcon.Request, filters: Mapping[str, object], start: datetime.datetime, stop: datetime.datetime
    ) -> Iterator[ServerUsage]:
        now = utcnow()
        for instance in self._instances(request, filters):
            began, ended = _moment(instance["launched_at"]), _moment(instance["terminated_at"])
            if began is not None and began < stop and (ended is None or ended > start):
                seconds = (min(stop, ended or now) - max(start, began)).total_seconds()
                yield _server(instance, began, ended, max(seconds, 0) / 3600, now)

    def _instances(self, request: falcon.Request, filters: Mapping[str, object]) -> Iterator[JSONMapping]:
        """Live ones, then those that were deleted."""
        calls = self._conductor.operator(request)
        for which in ({}, {"deleted": True}):
            for part in parts.every(calls.list_instances, {**filters, **which}):
                yield from part


def _period(request: falcon.Request) -> tuple[datetime.datetime, datetime.datetime]:
    """:raises errors.InvalidInput:"""
    stop = bodies.moment(request, "end") or utcnow()
    start = bodies.moment(request, "start") or max(stop, datetime.datetime.min + _PERIOD) - _PERIOD
    if start >= stop:
        raise errors.InvalidInput(field="start", reason="must be before end")
    return start, stop


def _moment(text: str | None) -> datetime.datetime | None:
    return timeutils.normalize_time(timeutils.parse_isotime(text)) if text else None


def _server(
    instance: JSONMapping,
    began: datetime.datetime,
    ended: datetime.datetime | None,
    hours: float,
    now: datetime.datetime,
) -> ServerUsage:
    flavor = instance["flavor"]
    return {
        "instance_id": instance["uuid"],
        "name": instance["name"],
        "tenant_id": instance["project_id"] or identity.ADMIN,
        "flavor": flavor["name"],
        "vcpus": flavor["vcpus"],
        "memory_mb": flavor["memory_mb"],
        "local_gb": flavor["root_gb"] + flavor["ephemeral_gb"],
        "state": "terminated" if ended else server_view.status(instance).lower(),
        "started_at": began.isoformat(timespec="microseconds"),
        "ended_at": ended.isoformat(timespec="microseconds") if ended else None,
        "hours": hours,
        "uptime": max(int(((ended or now) - began).total_seconds()), 0),
    }


def _usage(
    project: str, found: Sequence[ServerUsage], start: datetime.datetime, stop: datetime.datetime, detailed: bool
) -> Usage:
    shown: Usage = {
        "tenant_id": project,
        "start": start.isoformat(timespec="microseconds"),
        "stop": stop.isoformat(timespec="microseconds"),
        "total_hours": sum(each["hours"] for each in found),
        "total_vcpus_usage": sum(each["hours"] * each["vcpus"] for each in found),
        "total_memory_mb_usage": sum(each["hours"] * each["memory_mb"] for each in found),
        "total_local_gb_usage": sum(each["hours"] * each["local_gb"] for each in found),
    }
    if detailed:
        shown["server_usages"] = list(found)
    return shown
