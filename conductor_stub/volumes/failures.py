# SPDX-License-Identifier: Apache-2.0
"""A volume that cannot be made: the next alternate, the scheduler again, or error."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from conductor_stub.steps import faults
from conductor_stub.steps.attempt import Attempt, Failure, usable
from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes import claims
from conductor_stub.volumes.machine import SETTLED, VolumeMachine, VolumeTimeout, end_in_error
from fleet import errors, failpoints, states, volume_states
from fleet.db import pools, services, volumes
from fleet.db.engine import Transaction
from fleet.objects import Place, location

_machine = VolumeMachine()


@failpoints.commits("conductor.volume_fail")
def fail(tx: Transaction, attempt: Attempt, status: str, failure: Failure, ctx: StepContext) -> Any | None:
    """The backend could not do its part of ``status``, and has undone it. Return the volume as it goes on.

    None if it has gone on already, or if the backend must try again: only this backend can delete its volume.

    :raises errors.NotFound:
    """
    row = volumes.lock(tx, attempt.uuid)
    mine = _machine.is_at(row, attempt.number, (volume_states.WORKING,)) and row.host == attempt.host
    if not mine or row.status != status:
        return None
    if status == volume_states.EXTENDING:
        return _unextended(tx, row, failure, ctx)
    if status == volume_states.CREATING:
        return _next_attempt(tx, row, failure, ctx) if row.snapshot_of is None else _unmade(tx, row, failure, ctx)
    return None


def _unmade(tx: Transaction, row: Any, failure: Failure, ctx: StepContext) -> Any:
    """A snapshot can be nowhere else than its volume."""
    claims.release(tx, row, ctx)
    why = {"error": failure.code, "message": f"The snapshot was not made: {failure.message}", "details": {}}
    values = {"status": volume_states.ERROR, "failure": why, **volumes.NOTHING_CLAIMED}
    return volumes.write(tx, row, ctx.now, **values, **SETTLED)


def _unextended(tx: Transaction, row: Any, failure: Failure, ctx: StepContext) -> Any:
    """The volume stays as it was; the growth is released."""
    pools.release(tx, row.host, row.pool, row.claimed_gb - row.size_gb, ctx.now, volumes=0)
    why = {"error": failure.code, "message": f"The volume was not extended: {failure.message}", "details": {}}
    values = {"status": volume_states.AVAILABLE, "claimed_gb": row.size_gb, "failure": why}
    return volumes.write(tx, row, ctx.now, **values, **SETTLED)


def _next_attempt(tx: Transaction, row: Any, failure: Failure, ctx: StepContext) -> Any:
    """Release the claim, and try another pool."""
    claims.release(tx, row, ctx)
    if failure.step == states.CAST_STEP:
        return _elsewhere(tx, row, row.plan.get("tried", []), {(row.host, row.pool)}, 0, ctx)
    here = location.append_host(row.host, row.pool)
    this = {"backend": here, "attempt": row.attempt, "step": failure.step, "result": failure.code}
    tried = [*row.plan.get("tried", ()), {**this, "reason": failure.message}]
    late = row.deadline is not None and row.deadline <= ctx.now
    if row.attempt >= ctx.limits.max_attempts or late:
        error = retries_exceeded(row.uuid, tried)
        return end_in_error(tx, row, error, ctx, plan={"tried": tried}, **volumes.NOTHING_CLAIMED)
    return _elsewhere(tx, row, tried, {_place(each) for each in tried}, 1, ctx)


def _elsewhere(
    tx: Transaction,
    row: Any,
    tried: list[dict[str, Any]],
    avoided: Collection[tuple[str | None, str | None]],
    spent: int,
    ctx: StepContext,
) -> Any:
    """Go on to the first alternate that is not avoided, or to the scheduler. :param spent: attempts that the failure cost"""
    alternates = [Place(**each) for each in row.plan.get("alternates", ())]
    places = usable(tx, alternates, avoided, ctx, services.VOLUME)
    step, due = _machine.after_failure(row.deadline, places, ctx)
    plan = {**row.plan, "tried": tried, "alternates": [place.to_wire() for place in places]}
    following = {"attempt": row.attempt + spent, "step": step, "step_deadline": due, "plan": plan}
    return volumes.write(tx, row, ctx.now, **volumes.NOTHING_CLAIMED, **following)


def _place(tried: dict[str, Any]) -> tuple[str | None, str | None]:
    where = tried["backend"]
    return location.extract_host(where, "backend"), location.extract_host(where, "pool")


def retries_exceeded(uuid: str, tried: list[dict[str, Any]]) -> errors.MaxRetriesExceeded:
    """The error of a volume that failed on each pool."""
    listed = "; ".join(f"{each['backend']} in step {each['step']}: {each['reason']}" for each in tried)
    reason = f"Volume {uuid} was tried {len(tried)} times: {listed}"
    return errors.MaxRetriesExceeded(reason=reason, details={"attempts": tried})


@failpoints.commits("conductor.volume_overdue")
def overdue(tx: Transaction, seen: Any, silent: bool, ctx: StepContext) -> Any | None:
    """Go on with a volume that a backend works on too long; None if the backend is to repeat its step, or has reported.

    :param silent: the agent of the backend stopped sending heartbeats
    """
    row = volumes.lock(tx, seen.uuid)
    expected = (seen.status, seen.attempt, seen.host, seen.step_deadline)
    if (row.status, row.attempt, row.host, row.step_deadline) != expected or row.status != volume_states.CREATING:
        return None
    if silent and row.snapshot_of is None:
        lost = Failure(row.step, faults.AttemptLost.__name__, f"backend {row.host} stopped sending heartbeats")
        return _next_attempt(tx, row, lost, ctx)
    if row.deadline is not None and row.deadline <= ctx.now:
        # The backend is alive and may still make it: the claim stays until the volume is deleted there.
        return end_in_error(tx, row, VolumeTimeout.of(row, ctx), ctx)
    return None
