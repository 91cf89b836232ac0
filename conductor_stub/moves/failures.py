# SPDX-License-Identifier: Apache-2.0
"""What becomes of a move that meets a no: the next alternate, the scheduler again, or the instance as it was."""

from __future__ import annotations

import datetime
from typing import Any

from conductor_stub.builds.failures import Failure
from conductor_stub.moves import claims
from conductor_stub.moves.claims import Move
from conductor_stub.steps import faults
from conductor_stub.steps.limits import Limits, step_deadline
from fleet import errors, failpoints, move_states, states
from fleet.db import moves, services
from fleet.db.engine import Transaction
from fleet.objects import Place

#: The first of a claimed resize; from here on the source may have switched the guest off.
_TO_BE_UNDONE = (move_states.PRE_MIGRATING, move_states.POST_MIGRATING)


class MoveTimeout(errors.FleetError):
    """The move did not end in time; the message names the status in which it was last seen."""

    code = 504
    template = "The move did not end within {timeout_s} s: it was {status}, on its way to {place}."


class MoveRefused(errors.FleetError):
    """No host took the instance, or its own could not let it go."""

    template = "{reason}"


@failpoints.commits("conductor.move_fail")
def fail(
    tx: Transaction,
    uuid: str,
    attempt: int,
    host: str | None,
    status: str,
    failure: Failure,
    limits: Limits,
    request_id: str | None,
    now: datetime.datetime,
) -> Move | None:
    """``host`` could not do its part of ``status``: what follows. None when the move has gone on without it."""
    move = claims.read(tx, uuid)
    record = move.record
    if (record.status, record.attempt) != (status, attempt) or not claims.is_moving(move):
        return None
    if host is not None and host not in (record.source_compute, record.dest_compute):
        return None
    return fail_locked(tx, move, host, failure, limits, request_id, now)


def fail_locked(
    tx: Transaction,
    move: Move,
    host: str | None,
    failure: Failure,
    limits: Limits,
    request_id: str | None,
    now: datetime.datetime,
) -> Move | None:
    """None: the host is asked again, since nobody else can do it."""
    record = move.record
    if record.status in (move_states.CONFIRMING, move_states.REVERTING):
        return None
    if record.status == move_states.RESUMING and record.deadline is not None and now < record.deadline:
        return None
    node = record.dest_node if host == record.dest_compute else record.source_node
    said = {"result": failure.code, "message": failure.message, "step": failure.step, "duration_s": failure.duration_s}
    claims.event(tx, move, record.migration_type, now, request_id, host=host, node=node, **said)
    why = {"error": failure.code, "message": failure.message, "details": {"host": host, "step": failure.step}}
    if record.status == move_states.RESUMING:
        # Nothing is left to be tried: the instance is here, and its guest is off.
        first = record.failure or why
        claims.set_instance(tx, move.instance, now, vm_state=states.ACTIVE, power_state=states.SHUTDOWN)
        return claims.set_status(tx, move, move_states.ERROR, limits, now, failure=first)
    if record.migration_type == move_states.RESIZE and record.status in _TO_BE_UNDONE:
        return claims.set_status(tx, move, move_states.REVERTING, limits, now, failure=why)
    return _next(tx, move, why, limits, now)


def _next(tx: Transaction, move: Move, why: dict[str, Any], limits: Limits, now: datetime.datetime) -> Move:
    """No destination yet, or one that failed to build an evacuated guest: give its claim back, try another."""
    record = move.record
    tried = [*record.plan.get("tried", ()), [record.dest_compute, record.dest_node]]
    if record.attempt >= limits.max_attempts or (record.deadline is not None and record.deadline <= now):
        reason = f"{why['message']} (after {record.attempt} attempts: {', '.join(str(host) for host, _node in tried)})"
        return end_unmoved(tx, move, {**why, "message": reason}, limits, now)
    left = [Place(**each) for each in record.plan.get("alternates", ())]
    takes = services.taking_builds(tx, {place.host for place in left}, now, limits.service_down_time_s)
    places = [place for place in left if place.host in takes and [place.host, place.nodename] not in tried]
    going = {"attempt": record.attempt + 1, **moves.NOTHING_HELD}
    moves.update(tx, record.uuid, now, plan={**record.plan, "tried": tried}, **going)
    if places:
        status, allowed_s = move_states.PREPARING, limits.placing_timeout_s
        plan = {"tried": tried, **claims.routed(places[0], places[1:])}
        moves.update(tx, record.uuid, now, dest_compute=places[0].host, dest_node=places[0].nodename, plan=plan)
    else:
        status, allowed_s = move_states.ACCEPTED, limits.retry_interval_s
    claims.set_instance(tx, move.instance, now, task_state=waiting_task(record))
    claims.refresh(tx, move, now)
    moves.update(tx, record.uuid, now, status=status, step_deadline=step_deadline(now, allowed_s, record.deadline))
    return claims.read(tx, record.uuid)


def waiting_task(record: Any) -> str:
    """The instance's task until a destination has claimed."""
    return states.REBUILDING if record.migration_type == move_states.EVACUATION else states.RESIZE_PREP


@failpoints.commits("conductor.move_refuse")
def refuse(
    tx: Transaction,
    uuid: str,
    attempt: int,
    error: Exception,
    limits: Limits,
    request_id: str | None,
    now: datetime.datetime,
) -> Move | None:
    """There is no host for it: the instance stays as it was. None when the move has gone on."""
    move = claims.read(tx, uuid)
    record = move.record
    if record.status not in move_states.UNCLAIMED or record.attempt != attempt or not claims.is_moving(move):
        return None
    return refuse_locked(tx, move, error, limits, request_id, now)


def refuse_locked(
    tx: Transaction, move: Move, error: Exception, limits: Limits, request_id: str | None, now: datetime.datetime
) -> Move:
    name, _code, message, details = faults.describe(error)
    kind = move.record.migration_type
    claims.event(tx, move, kind, now, request_id, host=None, node=None, result=name, message=message, step="schedule")
    return end_unmoved(tx, move, {"error": name, "message": message, "details": details}, limits, now)


def end_unmoved(tx: Transaction, move: Move, failure: dict[str, Any], limits: Limits, now: datetime.datetime) -> Move:
    return claims.set_status(tx, move, move_states.ERROR, limits, now, failure=failure, **moves.NOTHING_HELD)


@failpoints.commits("conductor.move_overdue")
def overdue(
    tx: Transaction,
    uuid: str,
    attempt: int,
    status: str,
    down: frozenset[str],
    limits: Limits,
    request_id: str | None,
    now: datetime.datetime,
) -> Move | None:
    """The sweeper's verdict on a step that takes long: what follows; None to ask the same again.

    :param down: the hosts among source and destination that are
    """
    move = claims.read(tx, uuid)
    record = move.record
    if (record.status, record.attempt) != (status, attempt) or record.step_deadline > now or not claims.is_moving(move):
        return None
    actor = move_states.actor(record.migration_type, status, record.source_compute, record.dest_compute)
    late = record.deadline is not None and record.deadline <= now
    timeout = MoveTimeout(
        timeout_s=f"{limits.move_timeout_s:.0f}", status=status, place=record.dest_compute or "no host"
    )
    if status in (move_states.CONFIRMING, move_states.REVERTING, move_states.RESUMING):
        # A host that is down finds out when it comes back; nobody waits for it.
        return claims.step_done(tx, move, limits, request_id, now) if actor in down else None
    if status in move_states.UNCLAIMED:
        return refuse_locked(tx, move, timeout, limits, request_id, now) if late else None
    if actor in down:
        lost = Failure(status, faults.AttemptLost.__name__, f"host {actor} stopped sending heartbeats")
        return fail_locked(tx, move, actor, lost, limits, request_id, now)
    if late:
        return fail_locked(
            tx, move, actor, Failure(status, type(timeout).__name__, timeout.message), limits, request_id, now
        )
    return None


def abandon(tx: Transaction, instance_uuid: str, now: datetime.datetime) -> str | None:
    """The instance is being deleted, and its move with it; returns the host on which the record still holds something."""
    record = moves.of_instance(tx, instance_uuid)
    if record is None:
        return None
    if record.status in move_states.IN_PROGRESS:
        failure = {"error": "Deleted", "message": "The instance was deleted.", "details": {}}
        moves.update(tx, record.uuid, now, status=move_states.ERROR, failure=failure, step_deadline=None)
    return record.held_host
