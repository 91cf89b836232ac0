# SPDX-License-Identifier: Apache-2.0
"""Limits of a project, and what it uses."""

from __future__ import annotations

import falcon
from typing_extensions import TypedDict

from fleet_api.access import identity
from fleet_api.access.policies import ALL_QUOTAS
from fleet_api.requests import answers, bodies
from fleet_api.requests.conductor import Conductor

_UNLIMITED = ("maxTotalKeypairs", "maxServerGroupMembers", "maxServerMeta", "maxTotalSnapshots")
#: Resource → the names of its limit and its use.
_NAMES = {
    "instances": ("maxTotalInstances", "totalInstancesUsed"),
    "cores": ("maxTotalCores", "totalCoresUsed"),
    "ram": ("maxTotalRAMSize", "totalRAMUsed"),
    "server_groups": ("maxServerGroups", "totalServerGroupsUsed"),
    "volumes": ("maxTotalVolumes", "totalVolumesUsed"),
    "gigabytes": ("maxTotalVolumeGigabytes", "totalGigabytesUsed"),
}


class LimitsShown(TypedDict):
    """``absolute`` has a number for each limit, and one for each use; -1 is no limit."""

    rate: list[str]
    absolute: dict[str, int]


class Limits:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @answers.gives(answers.Answer({"limits": LimitsShown}))
    @bodies.asks("tenant_id")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Those of the own project. :raises faults.Fault: another project's are the administrator's"""
        own = request.context.caller.project_id
        project_id = request.get_param("tenant_id") or own
        if project_id != own:
            identity.require(request, ALL_QUOTAS)
        found = self._conductor.operator(request).show_quota(project_id=project_id)
        absolute = dict.fromkeys(_UNLIMITED, -1)
        for resource, (most, used) in _NAMES.items():
            absolute.update({most: found["limits"][resource], used: found["used"][resource]})
        shown: LimitsShown = {"rate": [], "absolute": absolute}
        response.media = {"limits": shown}
