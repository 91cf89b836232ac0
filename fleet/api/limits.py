# SPDX-License-Identifier: Apache-2.0
"""Limits of a project. There are none yet (-1); what is used is counted over all hosts, or over the servers of a project."""

from __future__ import annotations

from typing import Any

import falcon

from fleet.api import identity
from fleet.api.conductor import Conductor

_UNLIMITED = (
    *("maxTotalInstances", "maxTotalCores", "maxTotalRAMSize", "maxTotalKeypairs"),
    *("maxServerGroups", "maxServerGroupMembers", "maxServerMeta"),
)
#: Instances in one answer of the conductor.
_BATCH = 1000


class Limits:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        used = self._of_all(request) if identity.sees_all(request) else self._of_project(request)
        response.media = {"limits": {"rate": [], "absolute": {**dict.fromkeys(_UNLIMITED, -1), **used}}}

    def _of_all(self, request: falcon.Request) -> dict[str, int]:
        hosts = self._conductor.ask(request, "list_hosts")
        return {
            "totalInstancesUsed": sum(each["running_vms"] or 0 for each in hosts),
            "totalCoresUsed": sum(each["vcpus_used"] or 0 for each in hosts),
            "totalRAMUsed": sum(each["memory_mb_used"] or 0 for each in hosts),
            "totalServerGroupsUsed": len(self._conductor.ask(request, "list_groups")),
        }

    def _of_project(self, request: falcon.Request) -> dict[str, int]:
        found: list[dict[str, Any]] = []
        filters = {"project_id": request.context.caller.project_id}
        while len(found) % _BATCH == 0:
            more = {"marker": found[-1]["uuid"]} if found else {}
            part = self._conductor.ask(request, "list_instances", filters=filters, limit=_BATCH, **more)
            if not part:
                break
            found += part
        return {
            "totalInstancesUsed": len(found),
            "totalCoresUsed": sum(each["flavor"]["vcpus"] for each in found),
            "totalRAMUsed": sum(each["flavor"]["memory_mb"] for each in found),
            "totalServerGroupsUsed": 0,
        }
