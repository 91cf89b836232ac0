# SPDX-License-Identifier: Apache-2.0
"""Limits of a project, and its use of them: in the compute API and in that of volumes.

Called by :mod:`fleet_api.application` and :mod:`fleet_api.block_storage.routes`.
"""

from __future__ import annotations

import falcon
from typing_extensions import TypedDict

from fleet.objects.quota import UNLIMITED
from fleet_api.access import identity
from fleet_api.access.rules import ALL_QUOTAS
from fleet_api.compute import quotas
from fleet_api.compute.quota_names import Face
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor


class LimitsShown(TypedDict):
    """``absolute`` has a number for each limit, and one for each use; -1 is no limit."""

    rate: list[str]
    absolute: dict[str, int]


class Limits:
    """:param face: of which service"""

    def __init__(self, conductor: Conductor, face: Face) -> None:
        self._conductor = conductor
        self._face = face

    @guard.by("compute:limits:get")
    @answers.gives(answers.Answer({"limits": LimitsShown}))
    @bodies.asks("tenant_id", "project_id", "reserved")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show the limits of the own project. :raises faults.Fault: another project's are the administrator's"""
        own = request.context.caller.project_id
        project_id = request.get_param("tenant_id") or request.get_param("project_id") or own
        if project_id != own:
            identity.require(request, ALL_QUOTAS)
        found = self._conductor.operator(request).show_quota(project_id=project_id)
        limits, used = found["limits"], dict(found["used"])
        used = quotas.uses(self._conductor, request, self._face, project_id, used)
        absolute = self._face.constants(request.context.version)
        for resource, (limit_name, use_name) in self._face.absolute.items():
            absolute.update({limit_name: limits.get(resource, UNLIMITED), use_name: used.get(resource, 0)})
        shown: LimitsShown = {"rate": [], "absolute": absolute}
        response.media = {"limits": shown}
