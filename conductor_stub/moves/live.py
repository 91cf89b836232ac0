# SPDX-License-Identifier: Apache-2.0
"""Live migrations: their steps after the claim, and how they are aborted.

Called by the modules beside it. ``ways`` says which guests can move.

The guest runs on the source until the source reports that it runs on the destination. A source that cannot report leaves the
record in ``running``: it continues when it is back. After the deadline, or if the source is off for certain, the destination
looks whether the guest has arrived. Either host reads in the failure of the record that the other one is down for certain,
with its part of the guest's memory.
"""

from __future__ import annotations

from conductor_stub.moves import machine, swap
from conductor_stub.moves.machine import Move, MoveTimeout
from conductor_stub.steps import faults
from conductor_stub.steps.attempt import Attempt
from conductor_stub.steps.limits import StepContext
from fleet import errors, failpoints, move_states, states
from fleet.db.engine.database import Transaction
from fleet.db.instances import instances, moves
from fleet.db.operations import recoveries
from fleet.db.tables.moves import MigrationRow
from fleet.objects.plans import StoredFailure

_AFTER = {
    move_states.PRE_MIGRATING: move_states.RUNNING,
    move_states.POST_MIGRATING: move_states.CONFIRMING,
}


@failpoints.commits("conductor.move_abort")
def abort(tx: Transaction, instance_uuid: str, ctx: StepContext, uuid: str | None = None) -> Move:
    """End a live migration; one that runs is ended by its source, and may still complete.

    :param uuid: of the record, if it must be this one
    :raises errors.Conflict: errors.NotFound:
    """
    row = instances.lock(tx, instance_uuid)
    record = moves.of_instance(tx, instance_uuid)
    is_live = record is not None and record.migration_type == move_states.LIVE_MIGRATION
    if not is_live or record is None or uuid not in (None, record.uuid) or row.task_state == states.DELETING:
        raise errors.Conflict(kind="Instance", name=row.name, reason="has no such live migration under way")
    if record.status not in move_states.ABORTABLE:
        reason = f"has a live migration that is {record.status}: it cannot be aborted any more"
        raise errors.Conflict(kind="Instance", name=row.name, reason=reason)
    move = machine.read(tx, record.uuid)
    why: StoredFailure = {"error": move_states.ABORTED, "message": "The live migration was aborted.", "details": {}}
    if record.status == move_states.RUNNING:
        return _tell(tx, move, record.failure or why, ctx)
    if record.status == move_states.PRE_MIGRATING:
        return machine.set_status(tx, move, move_states.REVERTING, ctx, failure=why)
    return _end(tx, move, why, ctx)


def _tell(tx: Transaction, move: Move, why: StoredFailure, ctx: StepContext) -> Move:
    """Write the failure: the host that acts reads it. A source aborts."""
    due = ctx.due(ctx.limits.placing_timeout_s)
    moves.update(tx, move.uuid, ctx.now, failure=why, step_deadline=due)
    return machine.read(tx, move.uuid)


def _has_lost_destination(tx: Transaction, record: MigrationRow, silent: frozenset[str]) -> bool:
    """Return True if the source sends heartbeats, its destination is off for certain, and the record does not say so yet."""
    told = move_states.failed_with(record.failure, move_states.DESTINATION_LOST)
    return not told and record.source_compute not in silent and _is_off(tx, record.dest_compute, silent)


def _is_off(tx: Transaction, host: str | None, silent: frozenset[str]) -> bool:
    return host is not None and host in silent and recoveries.is_off(tx, host)


def lose_source(tx: Transaction, move: Move, silent: frozenset[str], ctx: StepContext) -> Move | None:
    """Write into the record of a locked move that its source is off for certain; None: it is not, or the record has it.

    A destination with a part of the guest's memory then ends it: the guest cannot continue on any host.
    """
    record = move.record
    is_undone = (record.migration_type, record.status) == (move_states.LIVE_MIGRATION, move_states.REVERTING)
    if not is_undone or record.failure is None or move_states.has_lost_source(record.failure):
        return None
    if record.dest_compute in silent or not _is_off(tx, record.source_compute, silent):
        return None
    return _tell(tx, move, _with_source_off(record.failure), ctx)


def _with_source_off(why: StoredFailure) -> StoredFailure:
    return {**why, "details": {**why["details"], move_states.SOURCE_IS_OFF: True}}


def is_found(move: Move, attempt: Attempt, done: str) -> bool:
    """Return True if the destination reports, where it was to undo its part, that the guest runs there."""
    record = move.record
    expected = (move_states.LIVE_MIGRATION, move_states.REVERTING, attempt.number, attempt.host)
    here = (record.migration_type, record.status, move.attempt, move.actor)
    return here == expected and done == move_states.RUNNING and move.under_way


def complete_step(tx: Transaction, move: Move, ctx: StepContext, arrived: bool = False) -> Move:
    """The present step of a locked live migration is done. :param arrived: the guest runs on the destination"""
    record = move.record
    if arrived or record.status == move_states.RUNNING:
        now = {"launched_on": record.dest_compute, "power_state": states.RUNNING}
        swap.swap(tx, move, record.new_spec, ctx, **now)
        machine.add_event(tx, move, move_states.LIVE_MIGRATION, ctx, record.dest_compute, record.dest_node)
        move = machine.read(tx, move.uuid)
        return machine.set_status(tx, move, move_states.POST_MIGRATING, ctx, failure=None)
    if record.status == move_states.REVERTING:
        assert record.failure is not None, "a live migration is undone for a reason"
        return _end(tx, move, record.failure, ctx)
    if record.status == move_states.CONFIRMING:
        return machine.set_status(tx, move, move_states.COMPLETED, ctx, **moves.NOTHING_HELD)
    return machine.set_status(tx, move, _AFTER[record.status], ctx)


def _end(tx: Transaction, move: Move, why: StoredFailure, ctx: StepContext) -> Move:
    """The guest is where it was."""
    aborted = why["error"] == move_states.ABORTED
    status = move_states.CANCELLED if aborted else move_states.ERROR
    return machine.set_status(tx, move, status, ctx, failure=why, **moves.NOTHING_HELD)


def failed(tx: Transaction, move: Move, why: StoredFailure, ctx: StepContext) -> Move:
    """The guest has not left the source: the destination must undo its part."""
    return machine.set_status(tx, move, move_states.REVERTING, ctx, failure=move.record.failure or why)


def overdue(tx: Transaction, move: Move, silent: frozenset[str], ctx: StepContext) -> Move | None:
    """Decide about a locked move whose source should have moved the guest; None: the source is to repeat its step."""
    record = move.record
    if _has_lost_destination(tx, record, silent):
        message = f"host {record.dest_compute} is down for certain, with what it has of the guest's memory"
        return _tell(tx, move, _of_host(record.dest_compute, move_states.DESTINATION_LOST, message), ctx)
    is_lost = _is_off(tx, record.source_compute, silent)
    if not is_lost and (record.deadline is None or record.deadline > ctx.now):
        return None
    if record.source_compute in silent:
        message = f"host {record.source_compute} {'is off for certain' if is_lost else 'stopped sending heartbeats'}"
        machine.add_event(
            tx, move, record.migration_type, ctx, record.source_compute, result=faults.AttemptLost.__name__
        )
        lost = _of_host(record.source_compute, move_states.LOST, message)
        lost = _with_source_off(lost) if is_lost else lost
        return machine.set_status(tx, move, move_states.REVERTING, ctx, failure=lost)
    if record.failure is not None:
        return None
    timeout = MoveTimeout.of(record, ctx)
    why = _of_host(record.source_compute, type(timeout).__name__, timeout.message)
    return _tell(tx, move, why, ctx)


def _of_host(host: str | None, error: str, message: str) -> StoredFailure:
    return {"error": error, "message": message, "details": {"host": host}}


def may_be_there(record: MigrationRow) -> bool:
    """Return True if only the destination can report where the guest runs."""
    is_live = record.migration_type == move_states.LIVE_MIGRATION
    return is_live and move_states.failed_with(record.failure, move_states.LOST)
