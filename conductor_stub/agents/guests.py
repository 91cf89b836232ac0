# SPDX-License-Identifier: Apache-2.0
"""What an agent observes of a guest that is not being built, moved or destroyed: kept in its row, with an event."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from conductor_stub.steps import faults
from fleet import errors, failpoints, states
from fleet.db import history, instances
from fleet.db.engine import Transaction
from fleet.objects import fields

#: The event of an instance whose guest has stopped, or runs again.
POWER = "power"


class GuestDown(errors.FleetError):
    """The guest of an active instance does not run, and ``lost_guest_action`` is ``error``. Its host keeps what it holds.

    Delete the instance, or look at the host first: what is left of the guest is still there.
    """

    template = "The guest on host {host} does not run: {found}."
    host: str
    found: str


@dataclasses.dataclass(frozen=True)
class Observation:
    """``expected``: the power state by which the agent found a difference; ``failed``: the instance is to be in ERROR."""

    instance_uuid: fields.Uuid
    host: fields.Name
    power_state: int
    expected: int
    failed: bool = False


@failpoints.commits("conductor.guest")
def record(tx: Transaction, seen: Observation, request_id: str | None, now: datetime.datetime) -> bool:
    """Whether the row shows it now. False: the instance is elsewhere, deleted or being worked on, or has changed."""
    row = instances.lock(tx, seen.instance_uuid)
    settled = not row.deleted and row.task_state is None and row.vm_state in states.WATCHED
    if not settled or row.host != seen.host:
        return False
    if seen.failed:
        return _fail(tx, row, seen, request_id, now)
    if row.power_state == seen.power_state:
        # The answer to an earlier try was lost.
        return True
    if row.power_state != seen.expected:
        return False
    tx.update(instances.INSTANCES, row.uuid, {"power_state": seen.power_state, "updated_at": now})
    name = states.POWER_NAMES[seen.power_state]
    down = seen.power_state in states.DOWN
    history.add_event(
        tx,
        row.uuid,
        POWER,
        now=now,
        attempt=row.attempt,
        host=row.host,
        node=row.node,
        result=name if down else history.SUCCESS,
        message=states.DOWN.get(seen.power_state, f"the guest is {name}"),
        request_id=request_id,
    )
    return True


def _fail(tx: Transaction, row: Any, seen: Observation, request_id: str | None, now: datetime.datetime) -> bool:
    """``active → error``, on its host and with all that it holds."""
    if row.vm_state == states.ERROR:
        return True
    if row.vm_state != states.ACTIVE or row.power_state != seen.power_state:
        return False
    error = GuestDown(host=row.host, found=states.DOWN.get(seen.power_state, "it is not there"))
    name, code, message, details = faults.describe(error)
    tx.update(instances.INSTANCES, row.uuid, {"vm_state": states.ERROR, "updated_at": now})
    tx.touch(instances.INSTANCES, row.uuid)
    history.add_fault(
        tx,
        row.uuid,
        error=name,
        code=code,
        message=message,
        details=details,
        host=row.host,
        request_id=request_id,
        now=now,
    )
    return True
