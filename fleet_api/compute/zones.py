# SPDX-License-Identifier: Apache-2.0
"""Availability zones: the hosts of the fleet by their zone. Called by :mod:`fleet_api.application`."""

from __future__ import annotations

from collections.abc import Mapping

import falcon
from typing_extensions import TypedDict

from fleet.client import pages
from fleet_api.requests import answers, guard
from fleet_api.requests.conductor import Conductor

#: What the detailed view reads of hosts.
_COLUMNS = ("host", "zone", "state", "status", "updated_at")


class ServiceOfZone(TypedDict):
    available: bool
    active: bool
    updated_at: str


class ZoneState(TypedDict):
    available: bool


class ZoneShown(TypedDict):
    """``hosts`` is null, or has the services of each host."""

    zoneName: str
    zoneState: ZoneState
    hosts: dict[str, dict[str, ServiceOfZone]] | None


_ZONES = answers.Answer({"availabilityZoneInfo": list[ZoneShown]})


class Zones:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("compute:zones:get")
    @answers.gives(_ZONES)
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        found = pages.zones(self._conductor.operator(request))
        response.media = {"availabilityZoneInfo": [_view(name, takes, None) for name, takes in found.items()]}

    @guard.by("fleet:others")
    @answers.gives(_ZONES)
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        zones: dict[str, dict[str, ServiceOfZone]] = {}
        for host, named, state, status, seen in pages.host_table(self._conductor.operator(request), _COLUMNS):
            service = ServiceOfZone(available=state == "up", active=status == "enabled", updated_at=(seen or "")[:19])
            for zone in named.split(","):
                zones.setdefault(zone, {})[host] = service
        response.media = {"availabilityZoneInfo": [_detailed(name, zones[name]) for name in sorted(zones)]}


def _detailed(name: str, services: Mapping[str, ServiceOfZone]) -> ZoneShown:
    takes = any(each["available"] and each["active"] for each in services.values())
    return _view(name, takes, {host: {"nova-compute": each} for host, each in services.items()})


def _view(name: str, takes: bool, hosts: dict[str, dict[str, ServiceOfZone]] | None) -> ZoneShown:
    """:param takes: a host of the zone is up and enabled"""
    return {"zoneName": name, "zoneState": {"available": takes}, "hosts": hosts}
