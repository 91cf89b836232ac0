# SPDX-License-Identifier: Apache-2.0
"""A shelved instance gives its host back: its disk goes to a place that other hosts reach, and its guest is destroyed.

Called by :mod:`conductor_stub.power.machine`. Volumes and addresses stay: a volume is reserved for it meanwhile. One that
was still being attached is available again. Its quota counts on.
"""

from __future__ import annotations

from conductor_stub.steps.limits import StepContext
from fleet import errors, states, volume_states
from fleet.db.engine.database import Transaction
from fleet.db.hosts import hosts
from fleet.db.instances import instances
from fleet.db.tables.instances import RequestedInstance
from fleet.db.volumes import attachments
from fleet.json_codec import JSONMapping
from fleet.objects import host_report

#: Failure of a volume whose attachment had not ended.
_NOT_ATTACHED: JSONMapping = {
    "error": "failed",
    "message": "The instance was shelved and has left its host: the volume is not attached",
    "details": {},
}


def shelf_of(tx: Transaction, row: RequestedInstance) -> str:
    """The place where the host of an instance keeps disks of shelved guests; empty if there is none."""
    return hosts.stat_of(tx, row.host, row.node, host_report.SHELF) or ""


def require(tx: Transaction, row: RequestedInstance) -> None:
    """:raises errors.Conflict: the instance cannot leave its host now"""
    reason = ""
    if not shelf_of(tx, row):
        reason = "cannot leave its host, which has no place that other hosts reach for its disk"
    for each in attachments.of_instances(tx, [row.uuid]):
        if each.status != volume_states.ATTACHED:
            reason = f"has volume {each.volume_name}, which is {each.status}: wait until that has ended"
    if reason:
        raise errors.Conflict(kind="Instance", name=row.name, reason=reason)


def leave(tx: Transaction, row: RequestedInstance, ctx: StepContext) -> None:
    """``shelved → shelved_offloaded``: the host has kept the disk and destroyed the guest of a locked row."""
    shelved = {"attempt": row.attempt, "shelf": shelf_of(tx, row)}
    attachments.reserve(tx, row.uuid, _NOT_ATTACHED, ctx.now)
    values = {
        "vm_state": states.SHELVED_OFFLOADED,
        "task_state": None,
        "step_deadline": None,
        "power_state": states.NOSTATE,
        "shelved": shelved,
    }
    instances.leave_host(tx, row, values, ctx.now)
