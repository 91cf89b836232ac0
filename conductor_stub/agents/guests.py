# SPDX-License-Identifier: Apache-2.0
"""Power states that agents find: stored in the instance's row with an event, while nothing is done with the instance.

Called by the modules beside it.
"""

from __future__ import annotations

import dataclasses

from conductor_stub.steps import faults
from conductor_stub.steps.limits import StepContext
from fleet import errors, failpoints, states
from fleet.db.engine.database import Transaction
from fleet.db.instances import history, instances
from fleet.db.tables.instances import RequestedInstance
from fleet.objects import fields

#: Event: the guest has stopped, or runs again.
POWER = "power"


class GuestDown(errors.FleetError):
    """The guest of an active instance does not run, and ``lost_guest_action`` is ``error``. The host keeps its resources.

    Delete the instance, or inspect the host first: the rest of the guest is still there.
    """

    template = "The guest on host {host} does not run: {found}."
    host: str
    found: str


@dataclasses.dataclass(frozen=True)
class Observation:
    """A power state that an agent found.

    :param expected: state of the row when the agent compared
    :param failed: whether the instance becomes ERROR
    """

    instance_uuid: fields.Uuid
    host: fields.Name
    power_state: int
    expected: int
    failed: bool = False


@failpoints.commits("conductor.guest")
def record(tx: Transaction, seen: Observation, ctx: StepContext) -> bool:
    """Return whether the row shows the state now. False: the instance has moved, is being worked on, or has changed."""
    row = instances.lock(tx, seen.instance_uuid)
    settled = not row.deleted and row.task_state is None and row.vm_state in states.WATCHED
    if not settled or row.host != seen.host:
        return False
    if seen.failed:
        return fail(tx, row, seen, ctx)
    if row.power_state == seen.power_state:
        # The answer to an earlier try was lost.
        return True
    if row.power_state != seen.expected:
        return False
    tx.update(instances.INSTANCES, row.uuid, {"power_state": seen.power_state, "updated_at": ctx.now})
    name = states.POWER_NAMES[seen.power_state]
    history.add_event(
        tx,
        row.uuid,
        POWER,
        now=ctx.now,
        attempt=row.attempt,
        host=row.host,
        node=row.node,
        result=name if seen.power_state in states.DOWN else history.SUCCESS,
        message=states.DOWN.get(seen.power_state, f"the guest is {name}"),
        request_id=ctx.request_id,
    )
    return True


def fail(tx: Transaction, row: RequestedInstance, seen: Observation, ctx: StepContext, more: str = "") -> bool:
    """``active → error``. The instance stays on its host, with all that it holds. :param more: of the fault's message"""
    if row.vm_state == states.ERROR:
        return True
    if row.vm_state != states.ACTIVE or row.power_state != seen.power_state:
        return False
    tx.update(instances.INSTANCES, row.uuid, {"vm_state": states.ERROR, "updated_at": ctx.now})
    tx.touch(instances.INSTANCES, row.uuid)
    error = GuestDown(host=row.host, found=states.DOWN.get(seen.power_state, "it is not there") + more)
    faults.write(tx, row.uuid, error, row.host, ctx)
    return True
