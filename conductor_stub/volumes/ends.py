# SPDX-License-Identifier: Apache-2.0
"""A backend has done its part of what a volume does. Called by the modules beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping

from conductor_stub.steps.attempt import Attempt
from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes import claims, deletion, extension
from conductor_stub.volumes.machine import SETTLED
from fleet import failpoints, volume_states
from fleet.db.engine.database import Transaction
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import pools, volumes
from fleet.json_codec import JSONObject

#: A report of a backend counts after its deadline, too: by status the one that the report is about.
_LATE: Mapping[str, Collection[str]] = {
    volume_states.ERROR_EXTENDING: (volume_states.EXTENDING,),
    volume_states.ERROR_DELETING: (volume_states.DELETING,),
    volume_states.ERROR_MANAGING: (volume_states.MANAGING, volume_states.UNMANAGING),
}


def is_due_from(row: VolumeRow, attempt: Attempt, status: str) -> bool:
    """Return True if the volume waits for this report of a backend."""
    if row.deleted or row.attempt != attempt.number:
        return False
    if row.step is None and row.held_host is None:
        return status in _LATE.get(row.status, ()) and row.host == attempt.host
    return (row.status, volumes.acting_host(row)) == (status, attempt.host)


@failpoints.commits("conductor.volume_done")
def done(tx: Transaction, attempt: Attempt, status: str, ctx: StepContext) -> VolumeRow:
    """The backend has done its part of ``status``. A late or repeated report changes nothing.

    :raises errors.NotFound:
    """
    row = volumes.lock(tx, attempt.uuid)
    if not is_due_from(row, attempt, status) and not extension.is_extended_after_all(row, attempt, status):
        return row
    return _removed(tx, row, ctx) if row.step == volume_states.REMOVING else _ENDS[status](tx, row, ctx)


def _created(tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
    return volumes.write(tx, row, ctx.now, status=volume_states.AVAILABLE, **SETTLED)


def _managed(tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
    if not row.claimed_gb:
        # Nothing is taken over before its space is claimed.
        return row
    return volumes.write(tx, row, ctx.now, status=volume_states.AVAILABLE, failure=None, **SETTLED)


@failpoints.commits("conductor.volume_measure")
def measured(tx: Transaction, attempt: Attempt, size_gb: int, stored_gb: int, ctx: StepContext) -> VolumeRow:
    """Claim the space of a volume that is being managed, whose size its backend has read. A repeated report does nothing.

    :param stored_gb: so much of it lies on the pool already
    :raises errors.NotFound:
    :raises errors.PoolSpaceUnavailable: the pool has promised too much to others
    :raises errors.QuotaExceeded:
    """
    row = volumes.lock(tx, attempt.uuid)
    if row.step is None or row.claimed_gb or not is_due_from(row, attempt, volume_states.MANAGING):
        return row
    claims.take_gigabytes(tx, row.project_id, size_gb, ctx)
    wanted = dataclasses.replace(claims.request_of(row, size_gb), stored_gb=min(size_gb, stored_gb))
    pools.claim(tx, *volumes.place_of(row), wanted, ctx.now, volumes=0)
    due = ctx.due(ctx.limits.placing_timeout_s, row.deadline)
    return volumes.write(tx, row, ctx.now, size_gb=size_gb, claimed_gb=size_gb, step_deadline=due)


def copied(tx: Transaction, host: str, percents: Mapping[str, int]) -> None:
    """Keep how much of these volumes is copied to a backend. Others, which it does not copy now, are left out."""
    for row in volumes.lock_all(tx, percents):
        if (row.step, row.held_host) == (volume_states.COPYING, host):
            volumes.note(tx, row, plan={**row.plan, "copied": percents[row.uuid]})


def _copied(tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
    """Both claims change places: the volume is on its destination, and holds the space of its source.

    A volume with a zone has that of its destination from now on. One without a zone stays without.
    """
    changed = _with_new_type(row)
    assert row.held_host is not None
    assert row.held_pool is not None
    zone = row.availability_zone and pools.zone_of(tx, row.held_host, row.held_pool)
    where = {
        **changed,
        "availability_zone": zone,
        "spec": {**changed.get("spec", row.spec), "migrated": True},
        **volumes.placed(volumes.OWN, *(getattr(row, name) for name in volumes.HELD)),
        **volumes.placed(volumes.HELD, *(getattr(row, name) for name in volumes.OWN)),
    }
    return volumes.write(
        tx, row, ctx.now, **where, **claims.leaving(ctx), attempt=row.attempt + 1, plan={}, failure=None
    )


def _retyped(tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
    if row.step == volume_states.COPYING:
        return _copied(tx, row, ctx)
    changed = {**_with_new_type(row), "status": volume_states.AVAILABLE, "failure": None, "plan": {}}
    return volumes.write(tx, row, ctx.now, **changed, **SETTLED)


def _with_new_type(row: VolumeRow) -> JSONObject:
    if row.status != volume_states.RETYPING:
        return {}
    wanted = row.spec["retype"]["volume_type"]
    spec = {name: value for name, value in row.spec.items() if name != "retype"}
    return {"volume_type": wanted["name"], "spec": {**spec, "volume_type": wanted}}


def _removed(tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
    """The held pool has nothing of the volume any more."""
    released = claims.release(tx, row, volumes.HELD, ctx)
    if row.status != volume_states.DELETING:
        return volumes.write(tx, row, ctx.now, **released, **SETTLED)
    going = {"step": volume_states.WORKING, "step_deadline": ctx.due(ctx.limits.placing_timeout_s)}
    # A repeated report is not about the step that follows.
    following = volumes.write(tx, row, ctx.now, **released, **going, attempt=row.attempt + 1)
    is_given_up = (
        row.spec.get(volumes.FORCED) and row.host is not None and deletion.is_gone(tx, row.host, row.pool, ctx)
    )
    return deletion.deleted(tx, following, ctx) if is_given_up else following


_ENDS: Mapping[str, Callable[[Transaction, VolumeRow, StepContext], VolumeRow]] = {
    volume_states.CREATING: _created,
    volume_states.EXTENDING: extension.extended,
    volume_states.MIGRATING: _copied,
    volume_states.RETYPING: _retyped,
    volume_states.MANAGING: _managed,
    volume_states.UNMANAGING: deletion.deleted,
    volume_states.DELETING: deletion.deleted,
}
