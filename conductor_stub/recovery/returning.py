# SPDX-License-Identifier: Apache-2.0
"""The guests that stay on a host that is back, although its recovery has begun: they were to run, and it was off.

Called by :mod:`conductor_stub.recovery.evacuation` and :mod:`conductor_stub.recovery.fencing`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from conductor_stub.power import machine
from conductor_stub.steps.limits import StepContext
from fleet import recovery_states, states
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.instances import instances
from fleet.db.operations import recoveries
from fleet.db.tables.operations.recovery import RecoveryGuestRow, RecoveryRow

#: The step in which guests are started.
STARTING = "starting"
_BUSY = "its host is back, and was off: it is started when its task has ended"


def leave(tx: Transaction, row: RecoveryRow, ctx: StepContext) -> None:
    """``waiting → stayed``, but for guests that are started when their task has ended."""
    waiting = [each for each in recoveries.guests(tx, row.uuid) if each.status == recovery_states.WAITING]
    busy = start(tx, row, waiting, ctx)
    recoveries.leave_waiting(tx, row.uuid, ctx.now, busy)
    for each in waiting:
        if each.instance_uuid in busy and each.problem != _BUSY:
            recoveries.update_guest(tx, each.id, ctx.now, problem=_BUSY)


def start(tx: Transaction, row: RecoveryRow, guests: Sequence[RecoveryGuestRow], ctx: StepContext) -> Collection[str]:
    """Start the guests of active instances, if the host was off. Return those that have another task.

    A guest that runs already is not disturbed, so its host need not have reported that it is off.
    """
    if not guests or not _was_off(tx, row):
        return set()
    found = instances.lock_all(tx, {each.instance_uuid for each in guests}).values()
    active = [each for each in found if each.vm_state == states.ACTIVE and each.host == row.host and not each.deleted]
    ready = [each for each in active if each.task_state is None]
    for each in ready:
        machine.begin_unasked(tx, each, states.POWERING_ON, ctx)
    if ready:
        message = f"{len(ready)} guests that are to run stay on the host, which was off"
        recoveries.add_step(tx, row.uuid, STARTING, message, ctx.now)
    return {each.uuid for each in active if each.task_state not in (None, states.DELETING)}


def _was_off(tx: Transaction, row: RecoveryRow) -> bool:
    """Return True if a fence command has run, and the life of the agent that was silent has ended.

    A fence that has failed may have switched the host off, too.
    """
    service = services.get(tx, row.host, services.COMPUTE)
    began = service.started_at if service is not None else None
    return row.attempt > 0 and began is not None and began > row.created_at
