# SPDX-License-Identifier: Apache-2.0
"""Hypervisors: the nodes of the fleet in nova's form. Called by :mod:`fleet_api.application`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired, cast

import falcon
import pydantic
from oslo_utils import timeutils
from typing_extensions import TypedDict

from fleet import errors
from fleet.client import pages
from fleet.json_codec import JSONMapping, JSONObject
from fleet_api.compute.services import COMPUTE, UUIDS, number_of, service_id
from fleet_api.requests import answers, bodies, guard, microversions, paging
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import Fault

_MOST = 1000
#: Versions from which ids are uuids, and from which a hypervisor has no capacity.
_UUIDS, _NO_CAPACITY = UUIDS, (2, 88)
#: The version from which ``cpu_info`` is an object.
_CPU_OBJECT = (2, 28)
_SUMMED = {
    "vcpus": "vcpus",
    "vcpus_used": "vcpus_used",
    "memory_mb": "memory_mb",
    "memory_mb_used": "memory_mb_used",
    "free_ram_mb": "free_ram_mb",
    "local_gb": "local_gb",
    "local_gb_used": "local_gb_used",
    "free_disk_gb": "free_disk_gb",
    "disk_available_least": "free_disk_gb",
    "running_vms": "running_vms",
}


class BriefHypervisor(TypedDict):
    id: Annotated[int | str, pydantic.Field(description="A uuid from version 2.53 on.")]
    hypervisor_hostname: str
    state: str
    status: str
    servers: NotRequired[list[ServerThere]]


class ServerThere(TypedDict):
    uuid: str
    name: str


class HypervisorService(TypedDict):
    id: int | str
    host: str
    disabled_reason: str | None


class _Capacity(TypedDict):
    vcpus: NotRequired[Annotated[int | None, answers.until("2.88")]]
    vcpus_used: NotRequired[Annotated[int | None, answers.until("2.88")]]
    memory_mb: NotRequired[Annotated[int | None, answers.until("2.88")]]
    memory_mb_used: NotRequired[Annotated[int | None, answers.until("2.88")]]
    free_ram_mb: NotRequired[Annotated[int | None, answers.until("2.88")]]
    local_gb: NotRequired[Annotated[int | None, answers.until("2.88")]]
    local_gb_used: NotRequired[Annotated[int | None, answers.until("2.88")]]
    free_disk_gb: NotRequired[Annotated[int | None, answers.until("2.88")]]
    disk_available_least: NotRequired[Annotated[int | None, answers.until("2.88")]]
    running_vms: NotRequired[Annotated[int | None, answers.until("2.88")]]


class HypervisorShown(BriefHypervisor, _Capacity):
    """A compute node: sizes in MB and GB."""

    hypervisor_type: str | None
    hypervisor_version: int
    host_ip: str | None
    service: HypervisorService
    uptime: NotRequired[Annotated[str | None, answers.since("2.88", "In a list it is null.")]]
    current_workload: NotRequired[Annotated[int, answers.until("2.88")]]
    cpu_info: NotRequired[Annotated[str | JSONObject, answers.until("2.88")]]


class Uptime(BriefHypervisor):
    uptime: str


class Statistics(TypedDict):
    """Sums over all nodes."""

    count: int
    current_workload: int
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    free_ram_mb: int
    local_gb: int
    local_gb_used: int
    free_disk_gb: int
    disk_available_least: int
    running_vms: int


class Hypervisors:
    """One for each compute node."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    def _all(self, request: falcon.Request) -> Sequence[JSONMapping]:
        return pages.hosts(self._conductor.operator(request))

    def _matching(self, request: falcon.Request) -> list[JSONMapping]:
        """Return the nodes whose names have the text that the query asks for in them; all if it asks for none."""
        pattern = request.get_param("hypervisor_hostname_pattern") or ""
        return [each for each in self._all(request) if pattern in each["node"]]

    @guard.by("fleet:others")
    @answers.gives(answers.listed("hypervisors", BriefHypervisor))
    @bodies.asks("limit", "marker", "hypervisor_hostname_pattern", "with_servers")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, "/os-hypervisors", self._brief)

    @guard.by("fleet:others")
    @answers.gives(answers.listed("hypervisors", HypervisorShown))
    @bodies.asks("limit", "marker", "hypervisor_hostname_pattern", "with_servers")
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, "/os-hypervisors/detail", self._view)

    def _list(self, request: falcon.Request, path: str, shown: Any) -> JSONObject:
        found = self._matching(request)
        part, more = paging.cut(request, found, [each["uuid"] for each in found], _MOST)
        answer: JSONObject = {"hypervisors": [shown(request, each) for each in part]}
        if request.context.version >= _UUIDS and bodies.flag(request, "with_servers"):
            for host, listed in zip(part, answer["hypervisors"], strict=True):
                listed["servers"] = self._servers(request, host)
        if more:
            answer["hypervisors_links"] = paging.next_link(request, path, part[-1]["uuid"])
        return answer

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"hypervisor": HypervisorShown}))
    @bodies.asks("with_servers")
    def on_get_one(self, request: falcon.Request, response: falcon.Response, hypervisor_id: str) -> None:
        found = self._one(request, hypervisor_id)
        shown = self._view(request, found)
        if request.context.version >= _NO_CAPACITY:
            shown["uptime"] = self._uptime(request, found)
        if request.context.version >= _UUIDS and bodies.flag(request, "with_servers"):
            shown["servers"] = self._servers(request, found)
        response.media = {"hypervisor": shown}

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"hypervisors": list[BriefHypervisor]}))
    def on_get_search(self, request: falcon.Request, response: falcon.Response, hypervisor_id: str) -> None:
        """Search hypervisors by a part of their names. Before version 2.53."""
        response.media = {"hypervisors": [self._brief(request, each) for each in self._like(request, hypervisor_id)]}

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"hypervisors": list[BriefHypervisor]}))
    def on_get_servers(self, request: falcon.Request, response: falcon.Response, hypervisor_id: str) -> None:
        """The same with their servers. Before version 2.53."""
        found = self._like(request, hypervisor_id)
        shown: list[BriefHypervisor] = []
        for each in found:
            there = self._servers(request, each)
            shown.append({**self._brief(request, each), **({"servers": there} if there else {})})  # type: ignore[typeddict-item]
        response.media = {"hypervisors": shown}

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"hypervisor": Uptime}))
    def on_get_uptime(self, request: falcon.Request, response: falcon.Response, hypervisor_id: str) -> None:
        """For how long the machine of a host has run. Before version 2.88: it is in the hypervisor then."""
        microversions.require_before(request, _NO_CAPACITY)
        found = self._one(request, hypervisor_id)
        uptime = self._uptime(request, found)
        if uptime is None:
            raise Fault(400, "The host does not report its uptime.")
        response.media = {"hypervisor": {**self._brief(request, found), "uptime": uptime}}

    def _uptime(self, request: falcon.Request, host: JSONMapping) -> str | None:
        """Return the words of the command ``uptime``, without users and load; None if the host does not report it."""
        nodes = self._conductor.operator(request).show_host(name=host["host"])["nodes"]
        booted = next((each.get("booted_at") for each in nodes if each["node"] == host["node"]), None)
        if booted is None:
            return None
        now = timeutils.utcnow()
        ran = max(now - timeutils.normalize_time(timeutils.parse_isotime(booted)), datetime.timedelta())
        hours, minutes = divmod(ran.seconds // 60, 60)
        return f" {now:%H:%M:%S} up {ran.days} days, {hours:2}:{minutes:02}"

    def _like(self, request: falcon.Request, text: str) -> list[JSONMapping]:
        microversions.require_before(request, _UUIDS)
        found = [each for each in self._all(request) if text in each["node"]]
        if not found:
            raise Fault(404, f"No hypervisor matching '{text[:100]}' could be found.")
        return found

    def _servers(self, request: falcon.Request, host: Mapping[str, object]) -> list[ServerThere]:
        found = pages.brief_instances(self._conductor.operator(request), {"host": host["host"]})
        return [{"uuid": each["uuid"], "name": each["name"]} for each in found]

    def _one(self, request: falcon.Request, hypervisor_id: str) -> JSONMapping:
        """:raises errors.NotFound:"""
        for each in self._all(request):
            if hypervisor_id == str(self._brief(request, each)["id"]):
                return each
        raise errors.NotFound(kind="Hypervisor", name=hypervisor_id)

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"hypervisor_statistics": Statistics}))
    @bodies.asks("hypervisor_hostname_pattern")
    def on_get_statistics(self, request: falcon.Request, response: falcon.Response) -> None:
        """Before version 2.88."""
        microversions.require_before(request, _NO_CAPACITY)
        found = self._matching(request)
        sums = {name: sum(each[column] or 0 for each in found) for name, column in _SUMMED.items()}
        shown = cast(Statistics, {"count": len(found), "current_workload": 0, **sums})
        response.media = {"hypervisor_statistics": shown}

    @staticmethod
    def _brief(request: falcon.Request, host: JSONMapping) -> BriefHypervisor:
        return {
            "id": host["uuid"] if request.context.version >= _UUIDS else number_of(host["uuid"]),
            "hypervisor_hostname": host["node"],
            "state": host["state"],
            "status": host["status"],
        }

    def _view(self, request: falcon.Request, host: JSONMapping) -> HypervisorShown:
        version = request.context.version
        service = service_id(host["host"], COMPUTE)
        serving = service if version >= _UUIDS else number_of(service)
        shown: HypervisorShown = {
            **self._brief(request, host),
            "hypervisor_type": host["hypervisor_type"],
            "hypervisor_version": host["hypervisor_version"] or 0,
            "host_ip": host["host_ip"] or None,
            "service": {"id": serving, "host": host["host"], "disabled_reason": None},
        }
        if version >= _NO_CAPACITY:
            return {**shown, "uptime": None}
        sizes: Any = {name: host[column] for name, column in _SUMMED.items()}
        return {**shown, **sizes, "current_workload": 0, "cpu_info": {} if version >= _CPU_OBJECT else ""}
