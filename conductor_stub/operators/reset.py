# SPDX-License-Identifier: Apache-2.0
"""Administrators set the state of an instance, where the ledger is wrong about its guest.

``fleet server reset-state`` calls it.
"""

from __future__ import annotations

import functools
from typing import Literal

from conductor_stub.operators.views import instance_view
from conductor_stub.steps import faults
from conductor_stub.steps.acts import Acts
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import errors, states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Database, Transaction
from fleet.db.hosts import hosts
from fleet.db.instances import history, instances, moves
from fleet.db.tables.instances import RequestedInstance
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.answers.instances import InstanceView
from fleet.rpc.endpoint import endpoint, served

#: Tasks that leave the guest as it is, or was.
_SWITCHES = tuple(task for task in states.POWER_TASKS if task not in states.DISK_TASKS)
#: The event of a state that was set.
EVENT = "reset-state"


class StateReset(errors.FleetError):
    """An administrator has set the instance to ERROR. Its guest may be well: set it to ACTIVE, or delete it."""

    template = "An administrator has set the state of the instance to ERROR."


class ResetManager:
    """The RPC surface of the namespace ``operator`` for states that administrators set."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, limits: StepLimits, clock: Clock = utcnow) -> None:
        self._database = database
        self._limits = limits
        self._clock = clock
        self._acts = Acts(database, clock)

    @endpoint
    def reset_state(
        self, context: RequestContext, name: fields.Name, state: Literal["active", "error"]
    ) -> InstanceView:
        """Set ``vm_state``, end a power task, and return the instance. Nothing is done to the guest.

        :raises errors.NotFound: errors.Conflict: a build, a move or a deletion is under way, which ends by itself; or it is
            on no host and cannot be ACTIVE
        """
        found = self._database.read(instances.find, name)
        ctx = StepContext(self._limits, self._clock(), context.request_id)
        subject, shown = f"{found.name} ({found.uuid})", functools.partial(_shown, uuid=found.uuid)
        row = self._acts.write(context, "server.reset_state", subject, shown, reset, found.uuid, state, ctx)
        return instance_view(row)


def _shown(tx: Transaction, uuid: str) -> JSONObject:
    row = instances.get(tx, uuid)
    return {name: getattr(row, name) for name in ("vm_state", "task_state")}


def reset(tx: Transaction, uuid: str, state: str, ctx: StepContext) -> RequestedInstance:
    """:raises errors.NotFound: errors.Conflict:"""
    row = instances.lock(tx, uuid)
    if row.deleted:
        raise errors.NotFound(kind="Instance", name=row.name)
    _require(tx, row, state)
    if (row.vm_state, row.task_state) == (state, None):
        return row
    values = {"vm_state": state, "task_state": None, "step_deadline": None, "updated_at": ctx.now}
    tx.update(instances.INSTANCES, uuid, values)
    tx.touch(instances.INSTANCES, uuid)
    if row.host is not None:
        hosts.refresh_usage(tx, *instances.place_of(row), ctx.now)
    if state == states.ERROR:
        faults.write(tx, uuid, StateReset(), row.host, ctx)
    where = {"host": row.host, "node": row.node, "attempt": row.attempt, "request_id": ctx.request_id}
    history.add_event(tx, uuid, EVENT, now=ctx.now, message=state, **where)
    return instances.moved(row, values)


def _require(tx: Transaction, row: RequestedInstance, state: str) -> None:
    """Refuse a reset of a row that a state machine drives: a row that is taken from it would leave claims behind.

    :raises errors.Conflict:
    """
    reason = ""
    if row.vm_state == states.BUILDING or row.task_state not in (None, *_SWITCHES):
        reason = "wait until it has ended; if its host fails, `fleet trace` tells why"
    elif moves.of_instance(tx, row.uuid) is not None:
        reason = "confirm or revert its move first"
    elif row.shelved:
        reason = "unshelve it, or delete it"
    elif state == states.ACTIVE and row.host is None:
        reason = "it is on no host, so it cannot be ACTIVE; delete it"
    if reason:
        now = f"is {row.vm_state.upper()}" + (f" ({row.task_state})" if row.task_state else "")
        raise errors.Conflict(kind="Instance", name=row.name, reason=f"{now}: {reason}")
