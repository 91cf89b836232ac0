# SPDX-License-Identifier: Apache-2.0
"""Storage pools and availability zones. :mod:`fleet_api.block_storage.routes` names its paths."""

from __future__ import annotations

from typing import NotRequired

import falcon
from typing_extensions import TypedDict

from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects.answers.volumes import PoolView
from fleet_api.block_storage import views
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor

_CAPABILITIES = (
    *("volume_backend_name", "total_capacity_gb", "free_capacity_gb", "allocated_capacity_gb"),
    *("provisioned_capacity_gb", "reserved_percentage", "max_over_subscription_ratio"),
    *("thin_provisioning_support", "thick_provisioning_support", "total_volumes"),
)


class PoolShown(TypedDict):
    """``capabilities`` are what the backend reports and what the ledger counts, with ``detail``."""

    name: str
    capabilities: NotRequired[JSONObject]


class ZoneState(TypedDict):
    available: bool


class VolumeZone(TypedDict):
    zoneName: str
    zoneState: ZoneState


class Pools:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"pools": list[PoolShown]}))
    @bodies.asks("detail")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        whole = bodies.flag(request, "detail")
        found = self._conductor.operator(request).list_pools()
        response.media = {
            "pools": [
                {"name": each["name"], **({"capabilities": _capabilities(each)} if whole else {})} for each in found
            ]
        }

    @guard.by("compute:zones:get")
    @answers.gives(answers.Answer({"availabilityZoneInfo": list[VolumeZone]}))
    def on_get_zones(self, request: falcon.Request, response: falcon.Response) -> None:
        found = (each["availability_zone"] for each in self._conductor.operator(request).list_pools())
        zones = sorted({zone for zone in found if zone is not None})
        available = {"available": True}
        response.media = {"availabilityZoneInfo": [{"zoneName": zone, "zoneState": available} for zone in zones]}


def _capabilities(pool: PoolView) -> JSONObject:
    """Return the capabilities of a pool: the report of the backend, and the sums of the ledger."""
    stored: JSONMapping = pool
    counted = {name: stored[name] for name in _CAPABILITIES}
    where = {"backend_state": pool["state"], "timestamp": views.plain(pool["updated_at"])}
    return {**(pool["capabilities"] or {}), **counted, **where}
