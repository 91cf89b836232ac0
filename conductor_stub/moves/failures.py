# SPDX-License-Identifier: Apache-2.0
"""A move that fails: the next alternate, the scheduler again, or the instance stays as it was.

Called by the modules beside it.
"""

from __future__ import annotations

from conductor_stub.moves import claims, live, machine, slots
from conductor_stub.moves.machine import Move, MoveMachine, MoveTimeout
from conductor_stub.steps.attempt import Attempt, Failure, usable
from conductor_stub.steps.limits import StepContext
from fleet import failpoints, move_states, states
from fleet.db.engine.database import Transaction
from fleet.db.instances import history, moves
from fleet.db.operations import arrivals, recoveries
from fleet.db.tables.moves import MigrationRow
from fleet.db.volumes import attachments
from fleet.objects import Place
from fleet.objects.plans import MovePlan, StoredFailure

#: Statuses of a claimed resize in which the source may have switched the guest off.
_TO_BE_UNDONE = (move_states.PRE_MIGRATING, move_states.POST_MIGRATING)
#: Kinds and statuses that only one host can end.
_ONE_HOST = (
    (move_states.RESIZE, move_states.CONFIRMING),
    (move_states.RESIZE, move_states.REVERTING),
    (move_states.RESIZE, move_states.RESUMING),
    (move_states.LIVE_MIGRATION, move_states.POST_MIGRATING),
    (move_states.LIVE_MIGRATION, move_states.CONFIRMING),
    (move_states.LIVE_MIGRATION, move_states.REVERTING),
)
#: Those of them that cannot be given up as long as the host lives.
_UNTIL_DONE = tuple(each for each in _ONE_HOST if each[1] != move_states.RESUMING)
#: Tasks of instances until a destination has claimed.
_WAITING = {move_states.EVACUATION: states.REBUILDING, move_states.LIVE_MIGRATION: states.MIGRATING_PREP}
_machine = MoveMachine()


@failpoints.commits("conductor.move_fail")
def fail(tx: Transaction, attempt: Attempt, status: str, failure: Failure, ctx: StepContext) -> Move | None:
    """The host could not do its part of ``status``. Return the move as it goes on; None if it has gone on already."""
    move = machine.read(tx, attempt.uuid)
    if not _machine.is_at(move, attempt.number, (status,)):
        return None
    # A host that is taken for dead must not end the step of the host that takes its instances.
    if attempt.host != move.actor:
        return None
    return _fail(tx, move, attempt.host, failure, ctx)


def _fail(tx: Transaction, move: Move, host: str | None, failure: Failure, ctx: StepContext) -> Move | None:
    """Record the failure of a step. Return None if the host has to repeat it, because no other host can do the step."""
    record = move.record
    if (record.migration_type, record.status) in _UNTIL_DONE:
        told = {"host": host, "attempt": move.attempt, "request_id": ctx.request_id, **failure.event()}
        history.add_outcome(tx, move.instance.uuid, record.migration_type, now=ctx.now, **told)
        return None
    if record.status == move_states.RESUMING and record.deadline is not None and ctx.now < record.deadline:
        return None
    why = _record_failure(tx, move, host, failure, ctx)
    if record.status == move_states.RESUMING:
        return _end_off(tx, move, why, ctx)
    if record.status == move_states.RUNNING:
        return live.failed(tx, move, why, ctx)
    if record.migration_type == move_states.RESIZE and record.status in _TO_BE_UNDONE:
        return machine.set_status(tx, move, move_states.REVERTING, ctx, failure=why)
    return _next_attempt(tx, move, why, ctx)


def _record_failure(tx: Transaction, move: Move, host: str | None, failure: Failure, ctx: StepContext) -> StoredFailure:
    """Write the event of a failed step; return what the record stores of it."""
    record = move.record
    node = record.dest_node if host == record.dest_compute else record.source_node
    machine.add_event(tx, move, record.migration_type, ctx, host, node, **failure.event())
    return {"error": failure.code, "message": failure.message, "details": {"host": host, "step": failure.step}}


def _end_off(tx: Transaction, move: Move, why: StoredFailure, ctx: StepContext) -> Move:
    """Nothing is left to try: the instance is on its source, and its guest is off."""
    machine.set_instance(tx, move.instance, ctx, vm_state=states.ACTIVE, power_state=states.SHUTDOWN)
    return machine.set_status(tx, move, move_states.ERROR, ctx, failure=move.record.failure or why)


def _next_attempt(tx: Transaction, move: Move, why: StoredFailure, ctx: StepContext) -> Move:
    """Release the claim, if there is one, and try another destination."""
    record = move.record
    tried = [*record.plan.get("tried", ()), [record.dest_compute, record.dest_node]]
    late = record.deadline is not None and record.deadline <= ctx.now
    if it_stays := machine.why_it_stays(tx, record, ctx):
        return machine.end_unmoved(tx, move, {**why, "message": f"{why['message']}; {it_stays}"}, ctx)
    if record.attempt >= ctx.limits.max_attempts or late:
        names = ", ".join(str(host) for host, _node in tried)
        reason = f"{why['message']} (after {record.attempt} attempts: {names})"
        return machine.end_unmoved(tx, move, {**why, "message": reason}, ctx)
    alternates = [Place(**each) for each in record.plan.get("alternates", ())]
    # An alternate may have no slot left: the scheduler then chooses again, and the choice asks for one.
    places = [] if slots.are_limited(record, ctx) else usable(tx, alternates, {(one, node) for one, node in tried}, ctx)
    change: MovePlan = {"tried": tried, "why": why["message"]}
    moves.change_plan(tx, record, ctx.now, change, attempt=record.attempt + 1, **moves.NOTHING_HELD)
    if places:
        claims.choose(tx, machine.read(tx, move.uuid).record, places[0], places[1:], ctx)
    machine.set_instance(tx, move.instance, ctx, task_state=waiting_task(record))
    machine.refresh_usage(tx, move, ctx)
    status, due = _machine.after_failure(record.deadline, places, ctx)
    moves.update(tx, move.uuid, ctx.now, status=status, step_deadline=due)
    return machine.read(tx, move.uuid)


def may_write_there(tx: Transaction, move: Move) -> bool:
    """Return True if a destination may run a guest with addresses, or which writes to volumes, or to disks that its hosts
    share: no other guest may have them.
    """
    record = move.record
    if (record.migration_type, record.status) not in arrivals.STARTED_THERE:
        return False
    if move.instance.interfaces:
        return True
    return bool(attachments.that_follow(tx, [record.instance_uuid])) or machine.shares_disks(tx, record)


def waiting_task(record: MigrationRow) -> str:
    """The instance's task until a destination has claimed."""
    return _WAITING.get(record.migration_type, states.RESIZE_PREP)


@failpoints.commits("conductor.move_overdue")
def overdue(tx: Transaction, seen: Move, silent: frozenset[str], ctx: StepContext) -> Move | None:
    """Go on with a claimed move whose step is overdue; None if the host is to repeat its step, or the move has gone on.

    :param silent: those of source and destination that stopped sending heartbeats
    """
    move = machine.read(tx, seen.uuid)
    record, actor = move.record, move.actor
    is_due = record.step_deadline is not None and record.step_deadline <= ctx.now
    if not _machine.is_at(move, seen.attempt, (seen.record.status,)) or not is_due:
        return None
    if record.status == move_states.RUNNING:
        return live.overdue(tx, move, silent, ctx)
    if told := live.lose_source(tx, move, silent, ctx):
        return told
    is_off = actor is not None and actor in silent and recoveries.is_off(tx, actor)
    lost = Failure(record.status, move_states.LOST, f"host {actor} stopped sending heartbeats")
    if is_off and (record.migration_type, record.status) in arrivals.STARTED_THERE:
        # No guest is left there, and arrivals counts none.
        lost = Failure(record.status, move_states.DESTINATION_LOST, f"host {actor} is off for certain")
    # A resize that fails asks its destination to remove the guest; an evacuation leaves a destination without that.
    is_left = actor in silent or record.migration_type == move_states.EVACUATION
    may_run_there = is_left and not is_off and may_write_there(tx, move)
    if (record.migration_type, record.status) in _ONE_HOST:
        # A host that is down finds out when it comes back; the move does not wait for it.
        gives_up = actor in silent and not may_run_there and not live.may_be_there(record)
        if not (gives_up or is_off):
            return None
        if record.status == move_states.RESUMING:
            return _end_off(tx, move, _record_failure(tx, move, actor, lost, ctx), ctx)
        if not is_off and (record.migration_type, record.status) in arrivals.STARTED_THERE:
            # Its guest may run on. A host that was given up is found by this event.
            _record_failure(tx, move, actor, lost, ctx)
        return claims.complete_step(tx, move, ctx)
    if may_run_there:
        return None
    if actor in silent:
        return _fail(tx, move, actor, lost, ctx)
    if record.deadline is not None and record.deadline <= ctx.now:
        timeout = MoveTimeout.of(record, ctx)
        return _fail(tx, move, actor, Failure(record.status, type(timeout).__name__, timeout.message), ctx)
    return None
