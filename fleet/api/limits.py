# SPDX-License-Identifier: Apache-2.0
"""Limits of a project, and what it uses."""

from __future__ import annotations

import falcon

from fleet.api import bodies, identity
from fleet.api.conductor import Conductor
from fleet.api.policies import ALL_QUOTAS

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


class Limits:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @bodies.asks("tenant_id")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Those of the own project. :raises faults.Fault: another project's are the administrator's"""
        own = request.context.caller.project_id
        project_id = request.get_param("tenant_id") or own
        if project_id != own:
            identity.require(request, ALL_QUOTAS)
        found = self._conductor.ask(request, "show_quota", project_id=project_id)
        absolute = dict.fromkeys(_UNLIMITED, -1)
        for resource, (most, used) in _NAMES.items():
            absolute.update({most: found["limits"][resource], used: found["used"][resource]})
        response.media = {"limits": {"rate": [], "absolute": absolute}}
