# SPDX-License-Identifier: Apache-2.0
"""Hypervisors, services and availability zones: the hosts of the fleet in nova's forms."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NotRequired, cast

import falcon
import pydantic
from typing_extensions import TypedDict

from fleet import errors
from fleet.objects import fields
from fleet_api.requests import answers, bodies, paging
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import NotHere

_MOST = 1000
#: Versions from which ids are uuids, and from which a hypervisor has no capacity.
_UUIDS, _NO_CAPACITY = (2, 53), (2, 88)
#: Tools look for nova's names of the services.
_NAMES = {"fleet-compute": "nova-compute", "fleet-scheduler": "nova-scheduler", "fleet-conductor": "nova-conductor"}
_OURS = {name: ours for ours, name in _NAMES.items()}
_COMPUTE = "fleet-compute"
#: Services have no uuid: theirs is made of host and name.
_NAMESPACE = uuid.UUID("7b3f1b8e-6a53-4e0c-9c83-3d9a6f0a7d55")
#: What zones show of their hosts.
_OF_ZONES = ("host", "zone", "state", "status", "updated_at")
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


def service_id(host: str, binary: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{host}/{binary}"))


class BriefHypervisor(TypedDict):
    id: Annotated[int | str, pydantic.Field(description="A uuid from version 2.53 on.")]
    hypervisor_hostname: str
    state: str
    status: str


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
    uptime: NotRequired[Annotated[None, answers.since("2.88")]]
    current_workload: NotRequired[Annotated[int, answers.until("2.88")]]
    cpu_info: NotRequired[Annotated[str, answers.until("2.88")]]


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

    def _all(self, request: falcon.Request) -> list[Mapping[str, Any]]:
        """Return the nodes, each with its ``number``: the id in versions before uuids."""
        listed = self._conductor.operator(request).list_hosts()
        found: list[Mapping[str, Any]] = [{**each, "number": number} for number, each in enumerate(listed, 1)]
        if pattern := request.get_param("hypervisor_hostname_pattern"):
            found = [each for each in found if pattern in each["node"]]
        return found

    @answers.gives(answers.listed("hypervisors", BriefHypervisor))
    @bodies.asks("limit", "marker", "hypervisor_hostname_pattern")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, "/os-hypervisors", self._brief)

    @answers.gives(answers.listed("hypervisors", HypervisorShown))
    @bodies.asks("limit", "marker", "hypervisor_hostname_pattern")
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, "/os-hypervisors/detail", self._view)

    def _list(self, request: falcon.Request, path: str, shown: Any) -> dict[str, Any]:
        found = self._all(request)
        part, more = paging.cut(request, found, [each["uuid"] for each in found], _MOST)
        answer: dict[str, Any] = {"hypervisors": [shown(request, each) for each in part]}
        if more:
            answer["hypervisors_links"] = paging.next_link(request, path, part[-1]["uuid"])
        return answer

    @answers.gives(answers.Answer({"hypervisor": HypervisorShown}))
    def on_get_one(self, request: falcon.Request, response: falcon.Response, hypervisor_id: str) -> None:
        for each in self._all(request):
            shown = self._view(request, each)
            if hypervisor_id == str(shown["id"]):
                response.media = {"hypervisor": shown}
                return
        raise errors.NotFound(kind="Hypervisor", name=hypervisor_id)

    @answers.gives(answers.Answer({"hypervisor_statistics": Statistics}))
    @bodies.asks("hypervisor_hostname_pattern")
    def on_get_statistics(self, request: falcon.Request, response: falcon.Response) -> None:
        found = self._all(request)
        sums = {name: sum(each[column] or 0 for each in found) for name, column in _SUMMED.items()}
        shown = cast(Statistics, {"count": len(found), "current_workload": 0, **sums})
        response.media = {"hypervisor_statistics": shown}

    @staticmethod
    def _brief(request: falcon.Request, host: Mapping[str, Any]) -> BriefHypervisor:
        return {
            "id": host["uuid" if request.context.version >= _UUIDS else "number"],
            "hypervisor_hostname": host["node"],
            "state": host["state"],
            "status": host["status"],
        }

    def _view(self, request: falcon.Request, host: Mapping[str, Any]) -> HypervisorShown:
        version = request.context.version
        serving = service_id(host["host"], _COMPUTE) if version >= _UUIDS else host["number"]
        shown: HypervisorShown = {
            **self._brief(request, host),
            "hypervisor_type": host["hypervisor_type"],
            "hypervisor_version": host["hypervisor_version"] or 0,
            "host_ip": host["host_ip"],
            "service": {"id": serving, "host": host["host"], "disabled_reason": None},
        }
        if version >= _NO_CAPACITY:
            return {**shown, "uptime": None}
        sizes: Any = {name: host[column] for name, column in _SUMMED.items()}
        return {**shown, **sizes, "current_workload": 0, "cpu_info": ""}


@dataclasses.dataclass(frozen=True)
class _Change:
    __pydantic_config__ = bodies.STRICT

    status: Literal["enabled", "disabled"] | None = None
    disabled_reason: fields.Text | None = None
    forced_down: bool | None = None


class ServiceShown(TypedDict):
    id: Annotated[int | str, pydantic.Field(description="A uuid from version 2.53 on.")]
    binary: str
    host: str
    zone: str | None
    status: str
    state: str
    disabled_reason: str | None
    forced_down: bool
    updated_at: str | None


class Services:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @answers.gives(answers.Answer({"services": list[ServiceShown]}))
    @bodies.asks("host", "binary")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        found = self._all(request)
        if host := request.get_param("host"):
            found = [each for each in found if each["host"] == host]
        if binary := request.get_param("binary"):
            found = [each for each in found if each["binary"] == _OURS.get(binary, binary)]
        response.media = {"services": [self._view(request, each, number) for number, each in enumerate(found, 1)]}

    @answers.gives(answers.Answer({"service": ServiceShown}))
    @bodies.takes(bodies.Body(entire=_Change))
    def on_put_one(self, request: falcon.Request, response: falcon.Response, service_id: str) -> None:
        if service_id in ("enable", "disable", "disable-log-reason", "force-down"):
            raise NotHere(f"PUT /os-services/{service_id}: ask with version 2.53 or later, which")
        change = bodies.entire(request, _Change, "service")
        about = self._named(request, service_id)
        where = {"host": about["host"], "binary": about["binary"]}
        if change.forced_down is not None:
            self._conductor.operator(request).force_down(**where, forced=change.forced_down)
        if change.status is not None:
            reason = change.disabled_reason if change.status == "disabled" else None
            self._conductor.operator(request).update_service(
                **where, disabled=change.status == "disabled", reason=reason
            )
        response.media = {"service": self._view(request, self._named(request, service_id), 0)}

    @answers.gives(answers.NOTHING, 204)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, service_id: str) -> None:
        about = self._named(request, service_id)
        self._conductor.operator(request).delete_service(host=about["host"], binary=about["binary"])
        response.status = falcon.HTTP_204

    def _all(self, request: falcon.Request) -> list[Mapping[str, Any]]:
        zones = dict(self._conductor.operator(request).host_table(columns=["host", "zone"]))
        found = self._conductor.operator(request).list_services()
        return [{**each, "zone": zones.get(each["host"], "internal")} for each in found]

    def _named(self, request: falcon.Request, wanted: str) -> Mapping[str, Any]:
        for each in self._all(request):
            if service_id(each["host"], each["binary"]) == wanted:
                return each
        raise errors.NotFound(kind="Service", name=wanted)

    @staticmethod
    def _view(request: falcon.Request, service: Mapping[str, Any], number: int) -> ServiceShown:
        identity = service_id(service["host"], service["binary"]) if request.context.version >= _UUIDS else number
        seen = service["last_seen_up"]
        return {
            "id": identity,
            "binary": _NAMES.get(service["binary"], service["binary"]),
            "host": service["host"],
            "zone": service["zone"],
            "status": service["status"],
            "state": service["state"],
            "disabled_reason": service["disabled_reason"],
            "forced_down": service["forced_down"],
            "updated_at": seen.removesuffix("Z") if seen else None,
        }


class ServiceOfZone(TypedDict):
    available: bool
    active: bool
    updated_at: str


class ZoneState(TypedDict):
    available: bool


class ZoneShown(TypedDict):
    """``hosts`` is null, or has the services of each host."""

    zoneName: str | None
    zoneState: ZoneState
    hosts: dict[str, dict[str, ServiceOfZone]] | None


_ZONES = answers.Answer({"availabilityZoneInfo": list[ZoneShown]})


class Zones:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @answers.gives(_ZONES)
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, detail=False)

    @answers.gives(_ZONES)
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, detail=True)

    def _list(self, request: falcon.Request, detail: bool) -> dict[str, Any]:
        zones: dict[str, dict[str, Any]] = {}
        for row in self._conductor.operator(request).host_table(columns=_OF_ZONES):
            host = dict(zip(_OF_ZONES, row, strict=True))
            zones.setdefault(host["zone"], {})[host["host"]] = host
        return {"availabilityZoneInfo": [self._view(name, zones[name], detail) for name in sorted(zones)]}

    @staticmethod
    def _view(name: str, hosts: Mapping[str, Any], detail: bool) -> ZoneShown:
        states: Iterable[tuple[str, bool, bool]] = [
            (host, each["state"] == "up", each["status"] == "enabled") for host, each in hosts.items()
        ]
        shown: dict[str, dict[str, ServiceOfZone]] = {
            host: {
                "nova-compute": {
                    "available": up,
                    "active": enabled,
                    "updated_at": (hosts[host]["updated_at"] or "")[:19],
                }
            }
            for host, up, enabled in states
        }
        available = any(up and enabled for _host, up, enabled in states)
        return {"zoneName": name, "zoneState": {"available": available}, "hosts": shown if detail else None}
