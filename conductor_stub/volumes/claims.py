# SPDX-License-Identifier: Apache-2.0
"""The steps of a volume that succeeds, each one transaction: space is claimed, and the backend does its part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conductor_stub.steps.attempt import Attempt
from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes.machine import SETTLED, VolumeMachine
from fleet import errors, failpoints, volume_states
from fleet.db import pools, removal, volumes
from fleet.db.engine import Transaction
from fleet.objects import Place

_machine = VolumeMachine()


def request_of(row: Any, size_gb: int) -> pools.Request:
    """What the volume asks of its pool for ``size_gb`` GiB."""
    volume_type = volumes.type_of(row)
    return pools.Request(size_gb, volume_type is None or volume_type.thin)


@failpoints.commits("conductor.volume_claim")
def claim(
    tx: Transaction, uuid: str, attempt: int, place: Place, alternates: Sequence[Place], ctx: StepContext
) -> Any | None:
    """``placing → working``: the volume gets its pool, and the pool's row counts it. None if it has gone on without us.

    :raises errors.PoolSpaceUnavailable: the pool has no room; nothing is written
    """
    row = volumes.lock(tx, uuid)
    if not _machine.is_at(row, attempt, (volume_states.PLACING,)):
        return None
    assert place.nodename is not None, "a volume is placed on a pool"
    pools.claim(tx, place.host, place.nodename, request_of(row, row.size_gb), ctx.now)
    return volumes.write(
        tx,
        row,
        ctx.now,
        host=place.host,
        pool=place.nodename,
        claimed_gb=row.size_gb,
        step=volume_states.WORKING,
        step_deadline=ctx.due(ctx.limits.placing_timeout_s),
        plan={**row.plan, "alternates": [each.to_wire() for each in alternates]},
    )


def release(tx: Transaction, row: Any, ctx: StepContext) -> None:
    """Give back what a locked volume claims."""
    if row.host is not None:
        pools.release(tx, row.host, row.pool, row.claimed_gb, ctx.now, volumes=0 if row.snapshot_of else 1)


@failpoints.commits("conductor.volume_done")
def done(tx: Transaction, attempt: Attempt, status: str, ctx: StepContext) -> Any:
    """The backend has done its part of ``status``. A late or repeated report changes nothing.

    :raises errors.NotFound:
    """
    row = volumes.lock(tx, attempt.uuid)
    mine = _machine.is_at(row, attempt.number, (volume_states.WORKING,)) and row.host == attempt.host
    return _ENDS[status](tx, row, ctx) if mine and row.status == status else row


def _created(tx: Transaction, row: Any, ctx: StepContext) -> Any:
    return volumes.write(tx, row, ctx.now, status=volume_states.AVAILABLE, **SETTLED)


@failpoints.commits("conductor.volume_extend")
def extend(tx: Transaction, uuid: str, size_gb: int, ctx: StepContext) -> Any:
    """``available → extending``: the growth is claimed on the volume's own pool.

    :raises errors.NotFound: errors.Conflict: errors.InvalidInput:
    :raises errors.PoolSpaceUnavailable: the pool has no room for it
    """
    row = volumes.lock(tx, uuid)
    if (row.status, row.claimed_gb) == (volume_states.EXTENDING, size_gb):
        return row
    require_available(row)
    if size_gb <= row.size_gb:
        raise errors.InvalidInput(
            field="size", reason=f"must be more than the present {row.size_gb} GiB, got {size_gb}"
        )
    growth = request_of(row, size_gb - row.size_gb)
    pools.claim(tx, row.host, row.pool, growth, ctx.now, volumes=0)
    return volumes.write(
        tx,
        row,
        ctx.now,
        status=volume_states.EXTENDING,
        step=volume_states.WORKING,
        claimed_gb=size_gb,
        step_deadline=ctx.due(ctx.limits.placing_timeout_s),
        failure=None,
    )


def _extended(tx: Transaction, row: Any, ctx: StepContext) -> Any:
    return volumes.write(tx, row, ctx.now, status=volume_states.AVAILABLE, size_gb=row.claimed_gb, **SETTLED)


def require_available(row: Any) -> None:
    """:raises errors.Conflict: a volume or snapshot that nothing can be made of now"""
    if row.status != volume_states.AVAILABLE:
        kind = "Snapshot" if row.snapshot_of else "Volume"
        raise errors.Conflict(kind=kind, name=row.name, reason=f"is {row.status}, not available")


def lock_available(tx: Transaction, uuid: str) -> Any:
    """:raises errors.NotFound: errors.Conflict:"""
    row = volumes.lock(tx, uuid)
    require_available(row)
    return row


@failpoints.commits("conductor.volume_delete")
def begin_deletion(tx: Transaction, uuid: str, ctx: StepContext) -> Any:
    """``→ deleting``, or ``→ deleted`` at once if no backend has anything of the volume or snapshot.

    :raises errors.NotFound: errors.Conflict: the volume has snapshots
    """
    row = volumes.lock(tx, uuid)
    if row.deleted:
        return row
    _require_no_snapshots(tx, row)
    if row.host is None:
        return delete(tx, row, ctx)
    due = ctx.due(ctx.limits.placing_timeout_s)
    going = {"status": volume_states.DELETING, "step": volume_states.WORKING, "deadline": None, "step_deadline": due}
    return volumes.write(tx, row, ctx.now, **going)


def _require_no_snapshots(tx: Transaction, row: Any) -> None:
    names = volumes.snapshots_of(tx, row.uuid)
    if names:
        reason = f"has {removal.few(names, 'snapshot')}; delete them first"
        raise errors.Conflict(kind="Volume", name=row.name, reason=reason)


def delete(tx: Transaction, row: Any, ctx: StepContext) -> Any:
    """The locked volume is nowhere any more."""
    release(tx, row, ctx)
    gone = {"deleted": True, "deleted_at": ctx.now, "status": volume_states.DELETED, "claimed_gb": 0}
    return volumes.write(tx, row, ctx.now, **gone, **SETTLED)


_ENDS: Mapping[str, Callable[[Transaction, Any, StepContext], Any]] = {
    volume_states.CREATING: _created,
    volume_states.EXTENDING: _extended,
    volume_states.DELETING: delete,
}
