# SPDX-License-Identifier: Apache-2.0
"""A volume grows on its own pool, or keeps the size of its data. Called by the modules beside it."""

from __future__ import annotations

from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes import claims, conditions
from conductor_stub.volumes.machine import SETTLED
from fleet import errors, failpoints, volume_states
from fleet.db.engine.database import Transaction
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import pools, volumes


@failpoints.commits("conductor.volume_extend")
def extend(tx: Transaction, uuid: str, size_gb: int, ctx: StepContext) -> VolumeRow:
    """``available → extending``: the growth is claimed on the volume's own pool.

    :raises errors.NotFound: errors.Conflict: errors.InvalidInput:
    :raises errors.PoolSpaceUnavailable: the pool has no room for it
    :raises errors.QuotaExceeded:
    """
    row = volumes.lock(tx, uuid)
    if (row.status, row.claimed_gb) == (volume_states.EXTENDING, size_gb):
        return row
    if row.status != volume_states.ERROR_EXTENDING:
        conditions.require_settled(row)
    elif size_gb < row.claimed_gb:
        # Its backend may have extended it.
        raise errors.InvalidInput(field="size", reason=f"must be at least {row.claimed_gb} GiB, got {size_gb}")
    if size_gb <= row.size_gb:
        raise errors.InvalidInput(
            field="size", reason=f"must be more than the present {row.size_gb} GiB, got {size_gb}"
        )
    claims.take_gigabytes(tx, row.project_id, size_gb - max(row.size_gb, row.claimed_gb), ctx)
    growth = claims.request_of(row, size_gb - row.claimed_gb)
    pools.claim(tx, *volumes.place_of(row), growth, ctx.now, volumes=0)
    return volumes.write(
        tx,
        row,
        ctx.now,
        **claims.begun(volume_states.EXTENDING, volume_states.WORKING, ctx),
        # A late report of an earlier extension is not about this one.
        attempt=row.attempt + 1,
        claimed_gb=size_gb,
        failure=None,
        plan={},
    )


def is_extended_after_all(row: VolumeRow, attempt: Attempt, status: str) -> bool:
    """Return True for the success of an extension of which a former life of the agent has reported a failure."""
    is_same = (row.attempt, row.host, row.deleted) == (attempt.number, attempt.host, False)
    is_settled = (row.status, row.step, row.held_host) == (volume_states.AVAILABLE, None, None)
    return is_same and is_settled and status == volume_states.EXTENDING and "unextended_gb" in row.plan


def extended(tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
    size_gb = row.plan.get("unextended_gb", row.claimed_gb)
    # What was given back too early is taken again without a question: the data have it.
    pools.release(tx, *volumes.place_of(row), row.claimed_gb - size_gb, ctx.now, volumes=0)
    changed = {
        "status": volume_states.AVAILABLE,
        "size_gb": size_gb,
        "claimed_gb": size_gb,
        "failure": None,
        "plan": {},
    }
    return volumes.write(tx, row, ctx.now, **changed, **SETTLED)


def unextended(tx: Transaction, row: VolumeRow, failure: Failure, ctx: StepContext) -> VolumeRow:
    """The volume has the size of its data: what it had, or what an earlier extension left. The rest is released."""
    size_gb = min(max(row.size_gb, failure.size_gb or 0), row.claimed_gb)
    pools.release(tx, *volumes.place_of(row), row.claimed_gb - size_gb, ctx.now, volumes=0)
    why = {"error": failure.code, "message": f"The volume was not extended: {failure.message}", "details": {}}
    values = {"status": volume_states.AVAILABLE, "size_gb": size_gb, "claimed_gb": size_gb, "failure": why}
    # It may be late: the agent that reports it has died, and the next one does the work.
    return volumes.write(tx, row, ctx.now, **values, **SETTLED, plan={"unextended_gb": row.claimed_gb})
