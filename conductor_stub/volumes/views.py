# SPDX-License-Identifier: Apache-2.0
"""Volumes, snapshots and pools as users see them. All methods that answer with a volume make it."""

from __future__ import annotations

from fleet import volume_states
from fleet.clock import as_text
from fleet.db.tables.volumes import PoolRow, VolumeEventRow, VolumeRow
from fleet.db.volumes import pools, volumes
from fleet.db.volumes.attachments import PlacedAttachment
from fleet.objects import location
from fleet.objects.answers.volumes import (
    AttachmentView,
    PoolView,
    SnapshotView,
    StorageView,
    VolumeEventView,
    VolumeMigration,
    VolumeView,
)


def of_volume(row: VolumeRow, attachment: PlacedAttachment | None = None) -> VolumeView:
    """:param attachment: its row, with names and places, if the volume has one"""
    source = row.spec.get("source") or {}
    copied, is_of_snapshot = source.get("uuid"), source.get("is_snapshot")
    # Its snapshots go first.
    waits = row.spec.get(volumes.WITH_SNAPSHOTS) and not row.deleted
    return {
        **_of_storage(row),
        "status": volume_states.DELETING if waits else row.status,
        "step": row.step,
        "attempt": row.attempt,
        "volume_type": row.volume_type,
        "availability_zone": row.availability_zone,
        "description": row.spec.get("description", ""),
        "scheduler_hints": row.spec.get("scheduler_hints", {}),
        "tried": row.plan.get("tried", []),
        "source": None if is_of_snapshot else copied,
        "snapshot": copied if is_of_snapshot else None,
        "reference": row.spec.get("reference"),
        "image": (row.spec.get("image") or {}).get("name"),
        "bootable": is_bootable(row),
        "migrated": row.spec.get("migrated"),
        "migration": _migration(row),
        "attachments": [] if attachment is None else [of_attachment(attachment)],
    }


def _of_storage(row: VolumeRow) -> StorageView:
    return {
        "uuid": row.uuid,
        "name": row.name,
        "size_gb": row.size_gb,
        "status": row.status,
        "failure": row.failure or None,  # one that cannot be read is empty
        "project_id": row.project_id,
        "user_id": row.user_id,
        "request_id": row.request_id,
        "created_at": as_text(row.created_at),
        "updated_at": as_text(row.updated_at),
        "deadline": as_text(row.deadline),
        "metadata": row.spec.get("metadata", {}),
        "host": location.append_host(row.host, row.pool),
    }


def is_bootable(row: VolumeRow) -> bool:
    """Return the flag that a user has set; without one, True if the volume or snapshot began as an image."""
    return bool(row.spec.get("bootable", bool(row.spec.get("image"))))


def of_attachment(row: PlacedAttachment) -> AttachmentView:
    """:param row: from a query of ``fleet.db.volumes.attachments``. Where the data of the volume are is not shown."""
    return {
        "uuid": row.uuid,
        "instance": row.instance_uuid,
        "instance_name": row.instance_name,
        "volume": row.volume_uuid,
        "volume_name": row.volume_name,
        "size_gb": row.size_gb,
        "device": row.device,
        "status": row.status,
        "host": row.instance_host,
        "created_at": as_text(row.created_at),
    }


def _migration(row: VolumeRow) -> VolumeMigration | None:
    """The migration of the volume, or None. ``copied_percent`` is there once the backend has reported it."""
    if row.held_host is not None:
        under_way: VolumeMigration = {
            "step": row.step or row.status,
            "pool": location.append_host(row.held_host, row.held_pool),
        }
        if row.step == volume_states.COPYING and "copied" in row.plan:
            under_way["copied_percent"] = row.plan["copied"]
        return under_way
    return {"step": row.step, "pool": row.plan.get("to")} if row.status == volume_states.MIGRATING else None


def of_snapshot(row: VolumeRow) -> SnapshotView:
    return {**_of_storage(row), "volume": row.snapshot_of, "description": row.spec.get("description", "")}


def of_event(row: VolumeEventRow) -> VolumeEventView:
    return {
        "event": row.event,
        "attempt": row.attempt,
        "step": row.step,
        "result": row.result,
        "message": row.message,
        "duration_s": row.duration_s,
        "host": location.append_host(row.host, row.pool),
        "created_at": as_text(row.created_at),
    }


def of_pool(row: PoolRow, up: bool, disabled: bool) -> PoolView:
    return {
        "name": location.append_host(row.host, row.pool),
        "availability_zone": row.availability_zone,
        "volume_backend_name": row.volume_backend_name,
        "total_capacity_gb": row.total_capacity_gb,
        "free_capacity_gb": row.free_capacity_gb,
        "allocated_capacity_gb": row.allocated_capacity_gb,
        "provisioned_capacity_gb": row.provisioned_capacity_gb,
        "reserved_percentage": row.reserved_percentage,
        "thin_provisioning_support": row.thin_provisioning_support,
        "thick_provisioning_support": row.thick_provisioning_support,
        "total_volumes": row.total_volumes,
        "capabilities": row.capabilities,
        "max_over_subscription_ratio": row.max_over_subscription_ratio,
        "over_subscription": pools.space_of(row).over_subscription,
        "state": "up" if up else "down",
        "disabled": disabled,
        "updated_at": as_text(row.updated_at),
    }
