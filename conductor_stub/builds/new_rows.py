# SPDX-License-Identifier: Apache-2.0
"""The rows of instances that a build request creates.

:mod:`conductor_stub.builds.intake` writes them in its transaction.
"""

from __future__ import annotations

import datetime

from oslo_utils import uuidutils

from conductor_stub.builds.acceptance import FIRST_ATTEMPT
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import states
from fleet.clock import seconds
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import BuildRequest, Flavor, Image, Zone, host_name


def instance_rows(
    context: RequestContext,
    request: BuildRequest,
    flavor: Flavor,
    stored: JSONObject,
    now: datetime.datetime,
    limits: StepLimits,
) -> list[JSONObject]:
    wait_s = stored["spec"].get("wait_for_capacity_s", 0)
    deadline = now + seconds(max(limits.build_timeout_s, wait_s))
    shared = {
        "reservation_id": stored["reservation_id"],
        "project_id": context.project_id,
        "user_id": context.user_id,
        "vm_state": states.BUILDING,
        "task_state": states.SCHEDULING,
        "attempt": FIRST_ATTEMPT,
        "deadline": deadline,
        # A message or a process may be lost: if no host has claimed by then, the sweeper hands the build out.
        "step_deadline": StepContext(limits, now).due(limits.placing_timeout_s, deadline),
        "availability_zone": Zone.parse(stored["spec"]["availability_zone"]).zone or None,
        "instance_type_id": flavor.id,
        "flavor_name": flavor.name,
        "os_type": _os_type(request.image),
        "vcpus": flavor.vcpus,
        "memory_mb": flavor.memory_mb,
        "root_gb": flavor.root_gb,
        "ephemeral_gb": flavor.ephemeral_gb,
        "swap_mb": flavor.swap,
        "request_id": context.request_id,
        "created_at": now,
    }
    uuids = [uuidutils.generate_uuid() for _ in range(request.num_instances)]
    return [
        {
            **shared,
            "uuid": uuid,
            "name": _name(request, uuid, index),
            "launch_index": index,
            **_own_details(request, index),
        }
        for index, uuid in enumerate(uuids)
    ]


def _os_type(image: Image) -> str | None:
    """Return the property as text of at most 255 characters: it may be any scalar, and statistics use it in a name."""
    named = image.properties.get("os_type")
    return None if named is None else str(named)[:255]


def _own_details(request: BuildRequest, index: int) -> JSONObject:
    """The columns of one of several instances that differs from the request."""
    if request.hostname is None or request.num_instances == 1:
        return {}
    return {"details": {"hostname": host_name.numbered(request.hostname, index)}}


def _name(request: BuildRequest, uuid: str, index: int) -> str:
    if not request.name:
        return f"instance-{uuid[:8]}"
    return request.name if request.num_instances == 1 else f"{request.name[:250]}-{index + 1}"
