# SPDX-License-Identifier: Apache-2.0
"""A volume or snapshot goes: deleted with its data, or only its row. Called by the modules beside it."""

from __future__ import annotations

from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes import claims, conditions
from conductor_stub.volumes.machine import SETTLED
from fleet import failpoints, volume_states
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import pools, volumes
from fleet.json_codec import JSONObject


@failpoints.commits("conductor.volume_delete")
def begin_deletion(
    tx: Transaction, uuid: str, ctx: StepContext, with_snapshots: bool = False, force: bool = False
) -> VolumeRow:
    """``→ deleting``, or ``→ deleted`` at once if no backend has anything of the volume or snapshot.

    :param with_snapshots: delete the snapshots of the volume first. It follows when the last of them is gone; if one of them
        cannot be deleted in time, the volume stays as it is
    :param force: do not wait for a backend that is down or removed, or has the pool no longer: the agent removes the data if
        the backend or the pool comes back
    :raises errors.NotFound: errors.Conflict: the volume has snapshots
    """
    row = volumes.lock(tx, uuid)
    if row.deleted or row.status == volume_states.UNMANAGING:
        return row
    if row.status == volume_states.DELETING and not force:
        return row
    if row.status in volume_states.FOUND:
        return _unmanage(tx, row, ctx)
    conditions.require_no_guest(row)
    if with_snapshots:
        for snapshot in volumes.snapshot_uuids(tx, uuid):
            begin_deletion(tx, snapshot, ctx, force=force)
        row = volumes.lock(tx, uuid)
        if row.deleted:
            # It waited for the last of them.
            return row
        if volumes.snapshot_uuids(tx, uuid):
            return volumes.note(tx, row, spec={**_keep_force(row, force), volumes.WITH_SNAPSHOTS: True})
    conditions.require_no_snapshots(tx, row)
    if force and row.held_host is not None and is_gone(tx, row.held_host, row.held_pool, ctx):
        # A late report is not about what follows.
        row = volumes.write(tx, row, ctx.now, **claims.release(tx, row, volumes.HELD, ctx), attempt=row.attempt + 1)
    if row.host is None or (force and row.held_host is None and is_gone(tx, row.host, row.pool, ctx)):
        return deleted(tx, row, ctx)
    step = volume_states.WORKING if row.held_host is None else volume_states.REMOVING
    # The other backend of a migration removes its part first: then this one is not waited for, either.
    spec = _keep_force(row, force)
    return volumes.write(tx, row, ctx.now, **claims.begun(volume_states.DELETING, step, ctx), spec=spec)


def _keep_force(row: VolumeRow, force: bool) -> JSONObject:
    """Return the spec of a volume with whether its deletion is forced."""
    spec = {name: value for name, value in row.spec.items() if name != volumes.FORCED}
    return {**spec, volumes.FORCED: True} if force else spec


def is_gone(tx: Transaction, host: str, pool: str | None, ctx: StepContext) -> bool:
    """Return True if no agent removes anything from a pool now: its backend is down, or does not have the pool any more."""
    if pool is not None and not pools.is_reported(tx, host, pool):
        return True
    agent = services.get(tx, host, services.VOLUME)
    return agent is None or agent.deleted or not services.is_up(agent, ctx.now, ctx.limits.service_down_time_s)


@failpoints.commits("conductor.volume_unmanage")
def begin_unmanaging(tx: Transaction, uuid: str, ctx: StepContext) -> VolumeRow:
    """``→ unmanaging``: the row goes, the data stay. :raises errors.NotFound: errors.Conflict: it cannot go now"""
    row = volumes.lock(tx, uuid)
    if row.deleted or row.status == volume_states.UNMANAGING:
        return row
    if row.status not in volume_states.FOUND:
        conditions.require_settled(row)
        conditions.require_no_snapshots(tx, row)
    return _unmanage(tx, row, ctx)


def _unmanage(tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
    if row.host is None:
        return deleted(tx, row, ctx)
    begins = claims.begun(volume_states.UNMANAGING, volume_states.WORKING, ctx)
    # A late report of what was begun before is not about this.
    return volumes.write(tx, row, ctx.now, **begins, attempt=row.attempt + 1)


def deleted(tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
    released = claims.release(tx, row, volumes.OWN, ctx)
    # The last place stays in the row of a deleted volume.
    gone = {"deleted": True, "deleted_at": ctx.now, "status": volume_states.DELETED}
    if row.status in volume_states.FOUND:
        gone["spec"] = {**row.spec, volumes.KEPT: True}
    deleted = volumes.write(tx, row, ctx.now, **gone, claimed_gb=released["claimed_gb"], **SETTLED)
    if row.snapshot_of is not None:
        _follow(tx, row.snapshot_of, ctx)
    return deleted


def _follow(tx: Transaction, uuid: str, ctx: StepContext) -> None:
    """Delete a volume that waits for its snapshots, if this was the last. Its row may have been removed by hand."""
    for volume in volumes.lock_all(tx, [uuid]):
        if volume.spec.get(volumes.WITH_SNAPSHOTS) and not volumes.snapshot_uuids(tx, uuid):
            begin_deletion(tx, uuid, ctx, force=bool(volume.spec.get(volumes.FORCED)))
