# SPDX-License-Identifier: Apache-2.0
"""Limits of a project. There are none yet (-1); what is used is counted over all hosts."""

from __future__ import annotations

import falcon

from fleet.api.conductor import Conductor

_UNLIMITED = (
    *("maxTotalInstances", "maxTotalCores", "maxTotalRAMSize", "maxTotalKeypairs"),
    *("maxServerGroups", "maxServerGroupMembers", "maxServerMeta"),
)


class Limits:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        hosts = self._conductor.ask(request, "list_hosts")
        used = {
            "totalInstancesUsed": sum(each["running_vms"] or 0 for each in hosts),
            "totalCoresUsed": sum(each["vcpus_used"] or 0 for each in hosts),
            "totalRAMUsed": sum(each["memory_mb_used"] or 0 for each in hosts),
            "totalServerGroupsUsed": len(self._conductor.ask(request, "list_groups")),
        }
        response.media = {"limits": {"rate": [], "absolute": {**dict.fromkeys(_UNLIMITED, -1), **used}}}
