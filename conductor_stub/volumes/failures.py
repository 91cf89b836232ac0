# SPDX-License-Identifier: Apache-2.0
"""A backend that cannot do its part: the next alternate, the scheduler again, or the end.

Called by the modules beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from conductor_stub.steps import faults
from conductor_stub.steps.attempt import Attempt, Failure, usable
from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes import claims, ends, extension
from conductor_stub.volumes.machine import SETTLED, VolumeMachine, VolumeTimeout, give_up, listed
from fleet import errors, failpoints, states, volume_states
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import volumes
from fleet.json_codec import JSONObject
from fleet.objects import Place, location
from fleet.objects.plans import TriedPool

_machine = VolumeMachine()
#: Migration policy of a volume that may get another type only where it is.
NEVER = "never"
#: Statuses of volumes that are placed: if a backend cannot do its part, another may.
_PLACED = (volume_states.CREATING, volume_states.MIGRATING, volume_states.RETYPING)


@failpoints.commits("conductor.volume_fail")
def fail(tx: Transaction, attempt: Attempt, status: str, failure: Failure, ctx: StepContext) -> VolumeRow | None:
    """The backend could not do its part of ``status``, and has undone it. Return the volume as it goes on.

    None if it has gone on already, or if the backend must try again: only this backend can remove its volume.

    :raises errors.NotFound:
    """
    row = volumes.lock(tx, attempt.uuid)
    if not ends.is_due_from(row, attempt, status) or row.step == volume_states.REMOVING:
        return None
    if status == volume_states.EXTENDING:
        return extension.unextended(tx, row, failure, ctx)
    if status == volume_states.MANAGING:
        return _not_managed(tx, row, failure, ctx)
    if status == volume_states.UNMANAGING:
        return _kept(tx, row, failure, ctx)
    if row.snapshot_of is not None:
        return _unmade(tx, row, failure, ctx) if status == volume_states.CREATING else None
    return _next_attempt(tx, row, failure, ctx) if status in _PLACED else None


def _unmade(tx: Transaction, row: VolumeRow, failure: Failure, ctx: StepContext) -> VolumeRow:
    """A snapshot can be nowhere else than its volume."""
    released = {**claims.release(tx, row, volumes.OWN, ctx), **_left(row, failure)}
    why = {"error": failure.code, "message": f"The snapshot was not made: {failure.message}", "details": {}}
    return volumes.write(tx, row, ctx.now, **released, status=volume_states.ERROR, failure=why, **SETTLED)


def _kept(tx: Transaction, row: VolumeRow, failure: Failure, ctx: StepContext) -> VolumeRow:
    """The volume stays one: its backend cannot let its data go."""
    why = {"error": failure.code, "message": f"The volume was not unmanaged: {failure.message}", "details": {}}
    return volumes.write(tx, row, ctx.now, status=volume_states.AVAILABLE, failure=why, **SETTLED)


def _not_managed(tx: Transaction, row: VolumeRow, failure: Failure, ctx: StepContext) -> VolumeRow:
    """End a volume whose data could not be managed, as ERROR_MANAGING. The data are unchanged."""
    tried = _tried(row, row.host, row.pool, failure)
    released = claims.release(tx, row, volumes.OWN, ctx)
    # This error begins in the same way.
    named = failure.code == errors.InvalidReference.__name__
    message = failure.message if named else f"The volume was not managed: {failure.message}"
    why = {"error": failure.code, "message": message, "details": {}}
    values = {"status": volume_states.ERROR_MANAGING, "failure": why, "plan": {**row.plan, "tried": [tried]}}
    return volumes.write(tx, row, ctx.now, **values, **released, **SETTLED)


def _next_attempt(tx: Transaction, row: VolumeRow, failure: Failure, ctx: StepContext) -> VolumeRow:
    """Release the claim, and try another pool."""
    host, pool = volumes.acting_place(row)
    released = claims.release(tx, row, claims.placed(row), ctx)
    released.update(_left(row, failure))
    # A late report of this attempt is not about the next one, which may be on the same pool.
    another = {**released, "attempt": row.attempt + 1}
    tried = row.plan.get("tried", [])
    if failure.step == states.CAST_STEP:
        return _elsewhere(tx, row, tried, {(host, pool)}, another, ctx)
    tried = [*tried, _tried(row, host, pool, failure)]
    late = row.deadline is not None and row.deadline <= ctx.now
    must_stay = row.status == volume_states.RETYPING and row.spec["retype"]["migration_policy"] == NEVER
    # The image is the same for every backend.
    is_hopeless = must_stay or failure.code == errors.ImageUnacceptable.__name__
    if len(tried) >= ctx.limits.max_attempts or late or is_hopeless:
        return give_up(tx, row, retries_exceeded(row, tried), ctx, plan={"tried": tried}, **released)
    return _elsewhere(tx, row, tried, {_place(each) for each in tried}, another, ctx)


def _left(row: VolumeRow, failure: Failure) -> JSONObject:
    """Columns of a volume that may have left data where an attempt has failed."""
    # It stays where it is.
    is_adapted = row.step == volume_states.WORKING and row.status != volume_states.CREATING
    return {} if is_adapted or not failure.leaves else dict(volumes.leaves(row, *volumes.acting_place(row)))


@failpoints.commits("conductor.volume_unfit")
def unfit(
    tx: Transaction, uuid: str, attempt: int, refusal: errors.PoolSpaceUnavailable, ctx: StepContext
) -> VolumeRow | None:
    """The pool of a volume has no room for its new type: another pool, or its old type. None if it has gone on."""
    row = volumes.lock(tx, uuid)
    if not _machine.is_at(row, attempt, (volume_states.PLACING,)):
        return None
    refused = Failure(states.CLAIM_STEP, type(refusal).__name__, refusal.message)
    tried = [*row.plan.get("tried", []), _tried(row, row.host, row.pool, refused)]
    if row.spec["retype"]["migration_policy"] == NEVER or len(tried) >= ctx.limits.max_attempts:
        return give_up(tx, row, retries_exceeded(row, tried), ctx, plan={"tried": tried})
    return _elsewhere(tx, row, tried, {_place(each) for each in tried}, {"attempt": row.attempt + 1}, ctx)


def _tried(row: VolumeRow, host: str | None, pool: str | None, failure: Failure) -> TriedPool:
    return {
        "backend": location.append_host(host, pool),
        "attempt": row.attempt,
        "step": failure.step,
        "result": failure.code,
        "reason": failure.message,
    }


def _elsewhere(
    tx: Transaction,
    row: VolumeRow,
    tried: list[TriedPool],
    avoided: Collection[tuple[str | None, str | None]],
    values: Mapping[str, object],
    ctx: StepContext,
) -> VolumeRow:
    """Go on to the first alternate that is not avoided, or to the scheduler."""
    alternates = [Place(**each) for each in row.plan.get("alternates", ())]
    places = usable(tx, alternates, avoided, ctx, services.VOLUME)
    step, due = _machine.after_failure(row.deadline, places, ctx)
    plan = {**row.plan, "tried": tried, "alternates": [place.to_wire() for place in places]}
    return volumes.write(tx, row, ctx.now, **values, step=step, step_deadline=due, plan=plan)


def _place(tried: TriedPool) -> tuple[str | None, str | None]:
    where = tried["backend"]
    return location.extract_host(where, "backend"), location.extract_host(where, "pool")


def retries_exceeded(row: VolumeRow, tried: list[TriedPool]) -> errors.MaxRetriesExceeded:
    """The error of a volume that failed on each pool."""
    times = f"{len(tried)} time{'s' * (len(tried) > 1)}"
    reason = f"Volume {row.uuid} was tried {times}: {listed(tried)}"
    return errors.MaxRetriesExceeded(reason=reason, details={"attempts": tried})


@failpoints.commits("conductor.volume_overdue")
def overdue(tx: Transaction, seen: VolumeRow, silent: bool, ctx: StepContext) -> VolumeRow | None:
    """Go on with a volume that a backend works on too long; None if the backend is to repeat its step, or has reported.

    :param silent: the agent of the backend stopped sending heartbeats
    """
    row = volumes.lock(tx, seen.uuid)
    expected = (seen.status, seen.attempt, seen.step, seen.step_deadline)
    if (row.status, row.attempt, row.step, row.step_deadline) != expected:
        return None
    if silent and claims.is_replaceable(row):
        reason = f"backend {volumes.acting_host(row)} stopped sending heartbeats"
        assert row.step is not None, "the volume is in a step"
        lost = Failure(row.step, faults.AttemptLost.__name__, reason, leaves=True)
        return _next_attempt(tx, row, lost, ctx)
    if row.deadline is None or row.deadline > ctx.now:
        return None
    # The backend may still do its part: what is claimed there stays claimed until it has removed what it has.
    remains = claims.leaving(ctx) if row.step == volume_states.COPYING else {}
    return give_up(tx, row, VolumeTimeout.of(row, ctx), ctx, **remains)
