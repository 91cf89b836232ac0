# SPDX-License-Identifier: Apache-2.0
"""Conditions of acts on a volume. A refusal names the act that is needed first.

Called by the modules beside it and those of :mod:`conductor_stub.attachments`.
"""

from __future__ import annotations

from fleet import errors, volume_states
from fleet.db.engine.database import Transaction
from fleet.db.tables.volumes import VolumeRow
from fleet.db.upkeep import removal
from fleet.db.volumes import volumes


def require_available(row: VolumeRow) -> None:
    """:raises errors.Conflict: nothing can be made of the volume or snapshot now"""
    require_no_guest(row)
    if row.spec.get(volumes.WITH_SNAPSHOTS):
        raise errors.Conflict(kind="Volume", name=row.name, reason="is being deleted, after its snapshots")
    if row.status != volume_states.AVAILABLE:
        kind = "Snapshot" if row.snapshot_of else "Volume"
        raise errors.Conflict(kind=kind, name=row.name, reason=f"is {row.status}, not available")


def require_no_guest(row: VolumeRow) -> None:
    """:raises errors.Conflict: a guest has the volume, or is to get or lose it"""
    if row.status in volume_states.WITH_A_GUEST:
        advice = "an instance is being built with it"
        if row.status != volume_states.RESERVED:
            advice = "detach it from its instance first"
        reason = f"is {row.status}, not available: {advice}"
        raise errors.Conflict(kind="Volume", name=row.name, reason=reason)


def require_not_copied(tx: Transaction, row: VolumeRow) -> None:
    """:raises errors.Conflict: a locked volume is being copied; a guest would write to it, or its data would go elsewhere"""
    if volumes.being_copied_to(tx, row):
        reason = "is being copied to a snapshot or to another volume: wait until that has ended"
        raise errors.Conflict(kind="Volume", name=row.name, reason=reason)


def require_settled(row: VolumeRow) -> None:
    """:raises errors.Conflict: the volume is not available, or holds space of a second pool"""
    require_available(row)
    if row.step is not None:
        removing = "is still being removed from"
        found = errors.Conflict(kind="Volume", name=row.name, reason=f"{removing} {row.held_host}#{row.held_pool}")
        raise found.hiding(reason=f"{removing} the pool where it was")


def require_unchanged(row: VolumeRow, seen: VolumeRow) -> None:
    """:raises errors.Conflict: the volume has moved since its agent returned the place of its data"""
    if (seen.host, seen.pool, seen.attempt) != (row.host, row.pool, row.attempt):
        raise errors.Conflict(kind="Volume", name=row.name, reason="has changed meanwhile: try again")


def require_no_snapshots(tx: Transaction, row: VolumeRow) -> None:
    """:raises errors.Conflict:"""
    names = volumes.snapshots_of(tx, row.uuid)
    if names:
        reason = f"has {removal.few(names, 'snapshot')}; delete them first"
        raise errors.Conflict(kind="Volume", name=row.name, reason=reason)
