# SPDX-License-Identifier: Apache-2.0
"""The steps of a recovery whose host is fenced: its guests are evacuated, a bounded number at a time.

Called by :mod:`conductor_stub.recovery.keeper`.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from conductor_stub.moves import acceptance, failures
from conductor_stub.moves.machine import Move
from conductor_stub.power.machine import PowerMachine
from conductor_stub.recovery import fencing, order, returning
from conductor_stub.steps.limits import StepContext
from fleet import errors, failpoints, move_states, recovery_states, states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.instances import instances, moves
from fleet.db.operations import arrivals, recoveries, silence
from fleet.db.operations.recoveries import Whereabouts
from fleet.db.tables.moves import MigrationRow
from fleet.db.tables.operations.recovery import RecoveryGuestRow, RecoveryRow

#: Seconds until a guest is tried again, doubled with each try.
_AGAIN_AFTER_S, _AT_MOST_S = 10, 600


#: The end of sentences about what waits for a host.
_BY_HAND = "off for certain: switch it off, and say so with 'fleet service force-down {host}'"
#: The step of a recovery that has looked for a plan.
PLANNED = "planned"


@dataclasses.dataclass(frozen=True)
class State:
    """The work that is left in a recovery.

    :param waiting: guests that may be moved now, in their order
    :param unplanned: none of its guests was tried yet, and there was no plan yet
    """

    status: str
    waiting: Sequence[RecoveryGuestRow] = ()
    unplanned: bool = False


@failpoints.commits("conductor.recovery_settle")
def settle(
    tx: Transaction, uuid: str, parallel: int, ctx: StepContext, tried_since: datetime.datetime | None = None
) -> State:
    """Record the ends of moves, and whether the host is back. End the recovery if no step is left.

    :param parallel: the most guests that recoveries move at a time
    :param tried_since: guests that were last tried before need not wait any longer
    """
    row = recoveries.lock(tx, uuid)
    if row.status != recovery_states.MOVING or row.paused:
        return State(row.status)
    of_guests = [each for each in recoveries.guests(tx, uuid) if _is_open(each)]
    there = recoveries.whereabouts(tx, {each.instance_uuid for each in of_guests})
    for each in of_guests:
        _settle_guest(tx, row, each, there.get(each.instance_uuid), ctx)
    if _reports_despite_fence(tx, row):
        fencing.hold(tx, row, fencing.LIED, ctx.now)
        return State(recovery_states.HELD)
    is_back = _is_back(tx, row, ctx)
    if is_back:
        returning.leave(tx, row, ctx)
    guests = recoveries.guests(tx, uuid)
    if any(map(_is_open, guests)):
        if is_back:
            return State(row.status)
        waiting = [
            each for each in guests if each.status == recovery_states.WAITING and _is_due(each, tried_since, ctx.now)
        ]
        # They have been tried in their turn, and hold up no others.
        busy = [each for each in waiting if each.problem is not None and _has_task(there.get(each.instance_uuid))]
        ready = [each for each in waiting if each not in busy]
        free = max(0, parallel - _under_way(tx, ctx))
        untried = all(each.status == recovery_states.WAITING and not each.tries for each in guests)
        unplanned = untried and not recoveries.has_step(tx, uuid, PLANNED)
        return State(row.status, [*ready[:free], *busy] if free else (), unplanned)
    known = {each.instance_uuid for each in guests}
    more = [each for each in order.in_order(recoveries.guests_on(tx, row.host)) if each not in known]
    if more and not is_back:
        # A move to the host was under way, and has been undone since.
        recoveries.add_guests(tx, uuid, more, len(guests), ctx.now)
        return State(row.status)
    if not is_back and _awaits_arrivals(tx, row, ctx):
        return State(row.status)
    return _ended(tx, row, recovery_states.RETURNED if is_back else recovery_states.DONE, guests, ctx)


@failpoints.commits("conductor.recovery_plan")
def take_plan(tx: Transaction, uuid: str, plan: Mapping[str, str], message: str, now: datetime.datetime) -> None:
    """Give guests the hosts that a plan has for them. :param plan: by uuid; empty without a plan"""
    row = recoveries.lock(tx, uuid)
    if row.status != recovery_states.MOVING or recoveries.has_step(tx, uuid, PLANNED):
        return
    for each in recoveries.guests(tx, uuid):
        if each.instance_uuid in plan and each.status == recovery_states.WAITING:
            recoveries.update_guest(tx, each.id, now, destination=plan[each.instance_uuid])
    recoveries.add_step(tx, uuid, PLANNED, message, now)


@failpoints.commits("conductor.recovery_move")
def begin_move(
    tx: Transaction, recovery: str, guest: int, migration: str, parallel: int, ctx: StepContext
) -> Move | None:
    """Accept the evacuation of a guest. Return None if it cannot begin now.

    :param migration: uuid of its record, so that a repeated transaction finds it
    """
    fleet = silence.lock_fleet(tx, ctx.now)
    row = recoveries.lock(tx, recovery)
    each = recoveries.guest(tx, guest)
    if each is not None and each.migration_uuid == migration:
        return Move(*moves.lock(tx, migration))
    may = row.status == recovery_states.MOVING and recoveries.may_go_on(fleet, row)
    if each is None or each.status != recovery_states.WAITING or not may or _under_way(tx, ctx) >= parallel:
        return None
    kind = move_states.EVACUATION
    # A task of the host that is off would hold the guest there until its deadline.
    PowerMachine().time_out(tx, each.instance_uuid, ctx)
    try:
        move = acceptance.accept(tx, migration, each.instance_uuid, kind, None, ctx, preferred=each.destination)
    except errors.DatabaseError:
        raise
    except errors.FleetError as refused:
        if not _has_task(recoveries.whereabouts(tx, [each.instance_uuid]).get(each.instance_uuid)):
            _try_again(tx, each, refused.message, each.tries + 1, ctx.now)
        elif each.problem != refused.message:
            recoveries.update_guest(tx, each.id, ctx.now, problem=refused.message)
        return None
    moving = {"status": recovery_states.MOVING, "migration_uuid": migration, "tries": each.tries + 1}
    recoveries.update_guest(tx, each.id, ctx.now, **moving)
    return move


def _under_way(tx: Transaction, ctx: StepContext) -> int:
    return recoveries.under_way(tx, ctx.now, ctx.limits.service_down_time_s)


def _awaits_arrivals(tx: Transaction, row: RecoveryRow, ctx: StepContext) -> bool:
    """Return True if guests that were moving to the host have not been given up there, and write for what they wait."""
    coming = arrivals.numbers(tx, [row.host]).get(row.host)
    problem = None
    if coming and not recoveries.is_off(tx, row.host):
        problem = f"guests ({', '.join(coming.told())}) wait until it is {_BY_HAND.format(host=row.host)}"
    if problem != row.problem:
        recoveries.update(tx, row.uuid, ctx.now, problem=problem)
    return coming is not None


def _waits_for(tx: Transaction, record: MigrationRow, ctx: StepContext) -> str | None:
    """Return why a move does not go on; None if it does: its destination is silent, and the guest may run there."""
    host = record.dest_compute
    if host is None or not arrivals.is_one(record):
        return None
    is_silent = services.silent(tx, [host], ctx.now, ctx.limits.service_down_time_s)
    waiting = [Move(each, record) for each in instances.of_uuids(tx, [record.instance_uuid])]
    if not is_silent or recoveries.is_off(tx, host) or not any(failures.may_write_there(tx, each) for each in waiting):
        return None
    return (
        f"it may run on {host}, which is silent: it waits until {host} is fenced, back, or {_BY_HAND.format(host=host)}"
    )


def _is_open(each: RecoveryGuestRow) -> bool:
    return each.status in (recovery_states.WAITING, recovery_states.MOVING)


def _is_due(each: RecoveryGuestRow, tried_since: datetime.datetime | None, now: datetime.datetime) -> bool:
    if each.due_at <= now:
        return True
    return tried_since is not None and each.updated_at is not None and each.updated_at < tried_since


def _has_task(there: Whereabouts | None) -> bool:
    """Return True if a task or a move of the guest is under way. It ends by itself: each look tries the guest again."""
    return there is not None and there.task_state is not None


def _settle_guest(
    tx: Transaction, row: RecoveryRow, each: RecoveryGuestRow, there: Whereabouts | None, ctx: StepContext
) -> None:
    """Record the present status of a guest. :param there: where it is; None: its row is gone"""
    is_gone = there is None or there.deleted or there.task_state == states.DELETING
    status, problem = each.status, None
    if status == recovery_states.MOVING:
        record = moves.find(tx, each.migration_uuid or "")
        if record is not None and record.status in (move_states.DONE, move_states.COMPLETED):
            status = recovery_states.MOVED
            if each.destination not in (None, record.dest_compute):
                # The host of its plan has failed.
                recoveries.update_guest(tx, each.id, ctx.now, destination=None)
        elif is_gone:
            status = recovery_states.GONE
        elif record is None or record.status not in move_states.IN_PROGRESS:
            failure = record.failure if record is not None else None
            problem = failure["message"] if failure else "its evacuation was not begun"
            if each.destination is not None and record is not None and not record.plan.get("tried"):
                # Only the host of its plan was asked for.
                _wait_again(tx, each, problem, each.tries, ctx.now, ctx.now)
            else:
                _try_again(tx, each, problem, each.tries, ctx.now)
            return
        else:
            problem = _waits_for(tx, record, ctx)
    elif is_gone or (there is not None and there.host != row.host):
        status = recovery_states.GONE
    if status != each.status or (status == recovery_states.MOVING and problem != each.problem):
        recoveries.update_guest(tx, each.id, ctx.now, status=status, problem=problem)


def _try_again(tx: Transaction, each: RecoveryGuestRow, problem: str, tries: int, now: datetime.datetime) -> None:
    """:param tries: so far, with the one that has failed"""
    wait_s = min(_AGAIN_AFTER_S * 2 ** min(tries - 1, 10), _AT_MOST_S)
    _wait_again(tx, each, problem, tries, now + seconds(wait_s), now)


def _wait_again(
    tx: Transaction, each: RecoveryGuestRow, problem: str, tries: int, due_at: datetime.datetime, now: datetime.datetime
) -> None:
    """Next time the scheduler chooses among all hosts: the plan of the beginning does not hold any more."""
    waiting = {"status": recovery_states.WAITING, "migration_uuid": None, "destination": None}
    recoveries.update_guest(tx, each.id, now, **waiting, problem=problem, tries=tries, due_at=due_at)


def _reports_despite_fence(tx: Transaction, row: RecoveryRow) -> bool:
    """Return True if the life of the agent that was silent goes on.

    A host that was started again has an agent of a new life.
    """
    service = services.get(tx, row.host, services.COMPUTE)
    if service is None or row.fenced_at is None or service.last_seen_up is None:
        return False
    began = service.started_at or row.fenced_at
    return service.last_seen_up > row.fenced_at and began <= row.fenced_at


def _is_back(tx: Transaction, row: RecoveryRow, ctx: StepContext) -> bool:
    service = services.get(tx, row.host, services.COMPUTE)
    if service is None or row.fenced_at is None or service.last_seen_up is None:
        return False
    return service.last_seen_up > row.fenced_at and services.is_up(service, ctx.now, ctx.limits.service_down_time_s)


def _ended(
    tx: Transaction, row: RecoveryRow, status: str, guests: Sequence[RecoveryGuestRow], ctx: StepContext
) -> State:
    counts = collections.Counter(each.status for each in guests)
    told = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
    took_s = (ctx.now - row.created_at).total_seconds()
    fencing.end(tx, row, status, f"guests: {told or 'none'}; {took_s:.0f} s after the recovery began", ctx.now)
    return State(status)
