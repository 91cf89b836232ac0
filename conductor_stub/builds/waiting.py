# SPDX-License-Identifier: Apache-2.0
"""Decides whether a build waits for room, for how long and for which resource, and how a wait in vain ends.

The intake and the placement of builds ask it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping

from conductor_stub.steps import request_spec
from fleet import capacity, errors
from fleet.clock import durations, seconds
from fleet.db.instances import instance_values
from fleet.db.instances.waiting.queued_builds import Why
from fleet.db.tables.instances import RequestedInstance
from fleet.db.tables.queue import QueuedRow
from fleet.json_codec import JSONMapping
from fleet.reasons import Reason

#: Refusals that a change of hosts, instances, aggregates or promises may end. A host for NEVER_FITS does not exist, and no
#: change corrects a request.
_MAY_END = frozenset({Reason.CAPACITY, Reason.HOSTS_DOWN, Reason.POLICY, Reason.TOLERANCE})
#: Filters that test what a node's row shows. Room that another filter tests counts as enough.
_TESTS: Mapping[str, str] = {
    "CoreFilter": "vcpus",
    "ExactCoreFilter": "vcpus",
    "RamFilter": "memory_mb",
    "ExactRamFilter": "memory_mb",
    "DiskFilter": "disk_gb",
    "ExactDiskFilter": "disk_gb",
}
#: Hints about other instances: one that goes may help although no room was lacking.
_ABOUT_NEIGHBOURS = frozenset({"group", "same_host", "different_host"})
#: Properties of an instance that differ between builds of one shape: no filter or weigher decides by them.
_OWN = ("uuid", "user_id", "reservation_id")


def wait_until(row: RequestedInstance) -> datetime.datetime | None:
    """Return the time at which the build stops waiting for room; None if it never waits."""
    wait_s = instance_values.spec_of(row).get("wait_for_capacity_s")
    return row.created_at + seconds(wait_s) if wait_s else None


def waits(row: RequestedInstance, refusal: Exception, now: datetime.datetime) -> bool:
    """Return True if the build is queued after this refusal of the scheduler."""
    if not isinstance(refusal, errors.NoValidHost) or refusal.reason_code not in _MAY_END:
        return False
    until = wait_until(row)
    return until is not None and now < until


def why(row: RequestedInstance, refusal: errors.NoValidHost, together: bool) -> Why:
    """Return the resource that a build waits for.

    :param together: whether it must be placed with the other queued builds of its request
    """
    spec, details = instance_values.spec_of(row), refusal.details
    size = {
        "vcpus": row.vcpus,
        "memory_mb": row.memory_mb,
        "disk_gb": capacity.claimed_disk_gb(row.root_gb, row.ephemeral_gb),
    }
    tested = {_TESTS[each["name"]] for each in details.get("filters", ()) if each["name"] in _TESTS}
    needs = {name: size[name] if name in tested else 0 for name in size}
    # A host had room: what other hosts lack is not what a promise needs, and no host is kept for that.
    had_room = refusal.reason_code is Reason.TOLERANCE
    return Why(
        reason=refusal.reason_code.value,
        message=refusal.reason,
        lacks=None if had_room else _lacks(details),
        nearest=None if had_room else _nearest(details),
        by_room=refusal.reason_code is not Reason.POLICY or bool(_ABOUT_NEIGHBOURS & spec["scheduler_hints"].keys()),
        need_vcpus=needs["vcpus"],
        need_memory_mb=needs["memory_mb"],
        need_disk_gb=needs["disk_gb"],
        shape=shape(row, together),
        together=together,
        refused_generation=(details.get("state") or {}).get("generation", 0),
    )


def _lacks(details: JSONMapping) -> str | None:
    """Return the amount that the nearest host lacks; None if no filter has reported one."""
    for miss in details.get("nearest", ()):
        said = [
            f"{capacity.shown(each['lacks'])} {each['unit']} of {each['resource']}"
            if each["unit"]
            else f"{capacity.shown(each['lacks'])} {each['resource']}"
            for each in miss.get("shortfalls", ())
            if each.get("lacks")
        ]
        if said:
            return ", ".join(said)
    return None


def _nearest(details: JSONMapping) -> str | None:
    """The host that lacks the least, and would take the build if it were emptier."""
    for miss in details.get("nearest", ()):
        lacks = miss.get("shortfalls", ())
        if miss.get("reason_code") == Reason.CAPACITY and lacks and not any(each.get("never_fits") for each in lacks):
            return str(miss["host"])
    return None


def shape(row: RequestedInstance, together: bool) -> str:
    """Return a hash of the parts of a request by which the scheduler decides. It answers alike for builds of one shape.

    The parts are those that the scheduler receives, so that none is forgotten here.
    """
    asked = request_spec.build_request_spec([instance_values.to_instance(row)])
    image, spec = asked["image"], instance_values.spec_of(row)
    parts = {
        "instance": {name: value for name, value in asked["instance_properties"].items() if name not in _OWN},
        "flavor": asked["instance_type"],
        "image": [image["id"], image["properties"]],
        "filter_properties": request_spec.build_filter_properties(spec),
        "group": row.group_uuid,
        "request": row.reservation_id if together else None,
        "attempt": max(row.attempt, 1),
    }
    if spec.get("block_device_mapping"):
        parts["volumes"] = spec["block_device_mapping"]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def beside(refusal: errors.NoValidHost, kept_host: str) -> errors.NoValidHost:
    """The refusal of a build that had to leave a host to one that has waited longest for room.

    The scheduler sees that the host is excluded by name, and not why. So it reports POLICY if there is no other host, and
    NEVER_FITS if no other host is large enough.
    """
    details = dict(refusal.details)
    of_no_host = details.get("considered") == 0 and refusal.reason_code is Reason.POLICY
    if of_no_host or refusal.reason_code is Reason.NEVER_FITS:
        details["reason_code"] = Reason.CAPACITY.value
    reason = f"{refusal.reason} Host {kept_host} is kept for a build that has waited longest for room."
    return type(refusal)(reason=reason, details=details)


def in_vain(row: RequestedInstance, queued: QueuedRow) -> errors.NoValidHost:
    """The error of a build that has waited as long as it may.

    :param queued: from :func:`fleet.db.instances.waiting.queued_builds.find`
    """
    waited = durations.shown((queued.wait_until - row.created_at).total_seconds())
    reason = f"No host had room within {waited}. The last refusal: {queued.message}"
    return errors.NoValidHost(reason=reason, details={"reason_code": queued.reason})
