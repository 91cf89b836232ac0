# SPDX-License-Identifier: Apache-2.0
"""The steps of a volume that succeeds, each one transaction: space is claimed, and the backend does its part.

Called by the modules beside it and those of :mod:`conductor_stub.attachments`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from conductor_stub.steps.attempt import Attempt
from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes import conditions
from conductor_stub.volumes.machine import SETTLED, VolumeMachine
from fleet import errors, failpoints, volume_states
from fleet.clock import seconds
from fleet.db.catalog import quotas
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import pools, volumes
from fleet.json_codec import JSONObject
from fleet.objects import Place, VolumeType

_machine = VolumeMachine()
#: A report of a backend counts after its deadline, too: by status the one that the report is about.
_LATE: Mapping[str, Collection[str]] = {
    volume_states.ERROR_EXTENDING: (volume_states.EXTENDING,),
    volume_states.ERROR_DELETING: (volume_states.DELETING,),
    volume_states.ERROR_MANAGING: (volume_states.MANAGING, volume_states.UNMANAGING),
}
#: Statuses of volumes that have no pool until they are placed.
_NEW = (volume_states.CREATING, volume_states.MANAGING)


def request_of(row: VolumeRow, size_gb: int) -> pools.Request:
    """Return the volume's request to its pool for ``size_gb`` GiB."""
    volume_type = volumes.type_of(row)
    return pools.Request(size_gb, volume_type is None or volume_type.thin)


def _becomes_thick(row: VolumeRow) -> bool:
    former, wanted = row.spec.get("volume_type"), volumes.type_of(row)
    was_thin = former is None or VolumeType.from_wire(former).thin
    return was_thin and wanted is not None and not wanted.thin


def placed(row: VolumeRow) -> volumes.Claim:
    """Return the columns of the claim that placement sets: the own ones of a new volume, ``held_`` ones of a migration."""
    return volumes.OWN if row.status in _NEW else volumes.HELD


@failpoints.commits("conductor.volume_claim")
def claim(
    tx: Transaction, uuid: str, attempt: int, place: Place, alternates: Sequence[Place], ctx: StepContext
) -> VolumeRow | None:
    """``placing → working`` or ``→ copying``: the volume gets its pool, and the pool's row counts it.

    A volume that is retyped may stay where it is; one that becomes thick needs all its space there. None if it has gone on
    without us.

    :raises errors.PoolSpaceUnavailable: the pool has no room; nothing is written
    """
    row = volumes.lock(tx, uuid)
    if not _machine.is_at(row, attempt, (volume_states.PLACING,)):
        return None
    assert place.nodename is not None, "a volume is placed on a pool"
    if (place.host, place.nodename) == (row.host, row.pool):
        if _becomes_thick(row):
            pools.require_space(tx, place.host, place.nodename, row.size_gb)
        due = ctx.due(ctx.limits.placing_timeout_s, row.deadline)
        return volumes.write(tx, row, ctx.now, step=volume_states.WORKING, step_deadline=due)
    pools.claim(tx, place.host, place.nodename, request_of(row, row.size_gb), ctx.now)
    plan = {**row.plan, "alternates": [each.to_wire() for each in alternates]}
    is_new = row.status in _NEW
    plan.pop("copied", None)
    if not is_new:
        plan["copy_from"] = pools.location_info(tx, *volumes.place_of(row))
        plan["old_copy"] = volumes.may_have_left(row, place.host, place.nodename)
    return volumes.write(
        tx,
        row,
        ctx.now,
        **volumes.returns(row, place.host, place.nodename),
        **volumes.placed(placed(row), place.host, place.nodename, row.size_gb),
        step=volume_states.WORKING if is_new else volume_states.COPYING,
        step_deadline=ctx.due(ctx.limits.placing_timeout_s),
        plan=plan,
    )


def state_of(uuid: str) -> Callable[[Transaction], JSONObject]:
    """Return a reader of the status and the place of a volume, for the record of an act."""

    def read(tx: Transaction) -> JSONObject:
        row = volumes.get(tx, uuid)
        return {name: getattr(row, name) for name in ("status", "host", "pool", "deleted")}

    return read


def release(tx: Transaction, row: VolumeRow, of: volumes.Claim, ctx: StepContext) -> JSONObject:
    """Give back one claim of a locked volume, and return the columns to write into its row."""
    host, pool, size_gb = (getattr(row, name) for name in of)
    if host is not None:
        stays = row.status in volume_states.FOUND
        pools.release(tx, host, pool, size_gb, ctx.now, volumes=0 if row.snapshot_of else 1, stays=stays)
    return volumes.placed(of, None, None, 0)


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
    if not is_due_from(row, attempt, status):
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
    take_gigabytes(tx, row.project_id, size_gb, ctx)
    wanted = dataclasses.replace(request_of(row, size_gb), stored_gb=min(size_gb, stored_gb))
    pools.claim(tx, *volumes.place_of(row), wanted, ctx.now, volumes=0)
    due = ctx.due(ctx.limits.placing_timeout_s, row.deadline)
    return volumes.write(tx, row, ctx.now, size_gb=size_gb, claimed_gb=size_gb, step_deadline=due)


def copied(tx: Transaction, host: str, percents: Mapping[str, int]) -> None:
    """Keep how much of these volumes is copied to a backend. Others, which it does not copy now, are left out."""
    for row in volumes.lock_all(tx, percents):
        if (row.step, row.held_host) == (volume_states.COPYING, host):
            volumes.note(tx, row, plan={**row.plan, "copied": percents[row.uuid]})


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
    take_gigabytes(tx, row.project_id, size_gb - max(row.size_gb, row.claimed_gb), ctx)
    growth = request_of(row, size_gb - row.claimed_gb)
    pools.claim(tx, *volumes.place_of(row), growth, ctx.now, volumes=0)
    return volumes.write(
        tx,
        row,
        ctx.now,
        **begun(volume_states.EXTENDING, volume_states.WORKING, ctx),
        # A late report of an earlier extension is not about this one.
        attempt=row.attempt + 1,
        claimed_gb=size_gb,
        failure=None,
    )


def take_gigabytes(tx: Transaction, project_id: str | None, size_gb: int, ctx: StepContext) -> None:
    """:raises errors.QuotaExceeded: the project may not have so many GiB more"""
    headroom = quotas.look(tx, quotas.STORAGE, [project_id], ctx.limits.default_quota).headroom
    headroom.take(project_id, gigabytes=size_gb)


def begun(status: str, step: str, ctx: StepContext) -> JSONObject:
    """Columns of a volume that something is begun with."""
    deadline = ctx.now + seconds(ctx.limits.volume_timeout_s)
    due = ctx.due(ctx.limits.placing_timeout_s, deadline)
    return {"status": status, "step": step, "deadline": deadline, "step_deadline": due}


def _extended(tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
    changed = {"status": volume_states.AVAILABLE, "size_gb": row.claimed_gb, "failure": None}
    return volumes.write(tx, row, ctx.now, **changed, **SETTLED)


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
    return volumes.write(tx, row, ctx.now, **where, **leaving(ctx), attempt=row.attempt + 1, plan={}, failure=None)


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


def is_replaceable(row: VolumeRow) -> bool:
    """Return True if the backend that must act was only chosen, so that another may take its place."""
    return row.snapshot_of is None and (row.status == volume_states.CREATING or row.step == volume_states.COPYING)


def leaving(ctx: StepContext) -> JSONObject:
    """Columns of an available volume that holds space of a pool which must remove its data.

    It has no deadline: the volume can be used, and its data elsewhere take space as long as they are there.
    """
    due = ctx.due(ctx.limits.placing_timeout_s)
    step = {"step": volume_states.REMOVING, "deadline": None, "step_deadline": due}
    return {"status": volume_states.AVAILABLE, **step}


def _removed(tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
    """The held pool has nothing of the volume any more."""
    released = release(tx, row, volumes.HELD, ctx)
    if row.status != volume_states.DELETING:
        return volumes.write(tx, row, ctx.now, **released, **SETTLED)
    going = {"step": volume_states.WORKING, "step_deadline": ctx.due(ctx.limits.placing_timeout_s)}
    # A repeated report is not about the step that follows.
    following = volumes.write(tx, row, ctx.now, **released, **going, attempt=row.attempt + 1)
    is_given_up = row.spec.get(volumes.FORCED) and row.host is not None and _is_gone(tx, row.host, row.pool, ctx)
    return _deleted(tx, following, ctx) if is_given_up else following


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
    if force and row.held_host is not None and _is_gone(tx, row.held_host, row.held_pool, ctx):
        # A late report is not about what follows.
        row = volumes.write(tx, row, ctx.now, **release(tx, row, volumes.HELD, ctx), attempt=row.attempt + 1)
    if row.host is None or (force and row.held_host is None and _is_gone(tx, row.host, row.pool, ctx)):
        return _deleted(tx, row, ctx)
    step = volume_states.WORKING if row.held_host is None else volume_states.REMOVING
    # The other backend of a migration removes its part first: then this one is not waited for, either.
    spec = _keep_force(row, force)
    return volumes.write(tx, row, ctx.now, **begun(volume_states.DELETING, step, ctx), spec=spec)


def _keep_force(row: VolumeRow, force: bool) -> JSONObject:
    """Return the spec of a volume with whether its deletion is forced."""
    spec = {name: value for name, value in row.spec.items() if name != volumes.FORCED}
    return {**spec, volumes.FORCED: True} if force else spec


def _is_gone(tx: Transaction, host: str, pool: str | None, ctx: StepContext) -> bool:
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
        return _deleted(tx, row, ctx)
    begins = begun(volume_states.UNMANAGING, volume_states.WORKING, ctx)
    # A late report of what was begun before is not about this.
    return volumes.write(tx, row, ctx.now, **begins, attempt=row.attempt + 1)


def _deleted(tx: Transaction, row: VolumeRow, ctx: StepContext) -> VolumeRow:
    released = release(tx, row, volumes.OWN, ctx)
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


_ENDS: Mapping[str, Callable[[Transaction, VolumeRow, StepContext], VolumeRow]] = {
    volume_states.CREATING: _created,
    volume_states.EXTENDING: _extended,
    volume_states.MIGRATING: _copied,
    volume_states.RETYPING: _retyped,
    volume_states.MANAGING: _managed,
    volume_states.UNMANAGING: _deleted,
    volume_states.DELETING: _deleted,
}
