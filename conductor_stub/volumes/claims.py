# SPDX-License-Identifier: Apache-2.0
"""A volume claims space of a pool, or gives it back.

Called by the modules beside it and those of :mod:`conductor_stub.attachments`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes.machine import VolumeMachine
from fleet import failpoints, volume_states
from fleet.clock import seconds
from fleet.db.catalog import quotas
from fleet.db.engine.database import Transaction
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import pools, volumes
from fleet.json_codec import JSONObject
from fleet.objects import Place, VolumeType

_machine = VolumeMachine()
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


def take_gigabytes(tx: Transaction, project_id: str | None, size_gb: int, ctx: StepContext) -> None:
    """:raises errors.QuotaExceeded: the project may not have so many GiB more"""
    headroom = quotas.look(tx, quotas.STORAGE, [project_id], ctx.limits.default_quota).headroom
    headroom.take(project_id, gigabytes=size_gb)


def begun(status: str, step: str, ctx: StepContext) -> JSONObject:
    """Columns of a volume that something is begun with."""
    deadline = ctx.now + seconds(ctx.limits.volume_timeout_s)
    due = ctx.due(ctx.limits.placing_timeout_s, deadline)
    return {"status": status, "step": step, "deadline": deadline, "step_deadline": due}


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
