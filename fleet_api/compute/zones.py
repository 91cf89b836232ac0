# SPDX-License-Identifier: Apache-2.0
"""Availability zones: the hosts of the fleet by their zone. Called by :mod:`fleet_api.application`."""

from __future__ import annotations

from collections.abc import Iterable

import falcon
from typing_extensions import TypedDict

from fleet.client import pages
from fleet.json_codec import JSONMapping, JSONObject
from fleet_api.requests import answers, guard
from fleet_api.requests.conductor import Conductor

#: What zones show of their hosts.
_OF_ZONES = ("host", "zone", "state", "status", "updated_at")


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

    @guard.by("compute:zones:get")
    @answers.gives(_ZONES)
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, detail=False)

    @guard.by("fleet:others")
    @answers.gives(_ZONES)
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, detail=True)

    def _list(self, request: falcon.Request, detail: bool) -> JSONObject:
        zones: dict[str, JSONObject] = {}
        for row in pages.host_table(self._conductor.operator(request), _OF_ZONES):
            host = dict(zip(_OF_ZONES, row, strict=True))
            for zone in host["zone"].split(","):
                zones.setdefault(zone, {})[host["host"]] = host
        return {"availabilityZoneInfo": [self._view(name, zones[name], detail) for name in sorted(zones)]}

    @staticmethod
    def _view(name: str, hosts: JSONMapping, detail: bool) -> ZoneShown:
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
