# SPDX-License-Identifier: Apache-2.0
"""Volumes, snapshots and pools as users see them. All methods that answer with a volume make it."""

from __future__ import annotations

from typing import Any

from fleet import volume_states
from fleet.db.tables.volumes import PoolRow, VolumeEventRow, VolumeRow
from fleet.db.volumes import pools, volumes
from fleet.db.volumes.attachments import PlacedAttachment
from fleet.json_codec import JSONObject
from fleet.objects import location

_VOLUME = ("uuid", "name", "size_gb", "status", "step", "attempt", "volume_type", "availability_zone", "failure")
_POOL = (
    *("availability_zone", "volume_backend_name", "total_capacity_gb", "free_capacity_gb", "allocated_capacity_gb"),
    *("provisioned_capacity_gb", "reserved_percentage", "thin_provisioning_support", "thick_provisioning_support"),
    *("total_volumes", "capabilities"),
)
_MOMENTS = ("created_at", "updated_at", "deadline")


def of_volume(row: VolumeRow, attachment: PlacedAttachment | None = None) -> JSONObject:
    """Times are ISO 8601 text in UTC. ``host`` is ``machine@backend#pool``.

    :param attachment: its row, with names and places, if the volume has one
    """
    moments = {name: _plain(getattr(row, name)) for name in _MOMENTS}
    names = (*_VOLUME, "project_id", "user_id", "request_id")
    shown = {**{name: getattr(row, name) for name in names}, **moments}
    shown["failure"] = row.failure or None  # one that cannot be read is empty
    if row.spec.get(volumes.WITH_SNAPSHOTS) and not row.deleted:
        # Its snapshots go first.
        shown["status"] = volume_states.DELETING
    spec = {
        "description": row.spec.get("description", ""),
        "metadata": row.spec.get("metadata", {}),
        "scheduler_hints": row.spec.get("scheduler_hints", {}),
    }
    where = {"host": location.append_host(row.host, row.pool), "tried": row.plan.get("tried", [])}
    source = row.spec.get("source") or {}
    copied = {"source": source.get("uuid"), "snapshot": None}
    if source.get("is_snapshot"):
        copied = {"source": None, "snapshot": source["uuid"]}
    copied["reference"] = row.spec.get("reference")
    copied["image"] = (row.spec.get("image") or {}).get("name")
    copied["bootable"] = is_bootable(row)
    copied["migrated"] = row.spec.get("migrated")
    return {**shown, **spec, **where, **copied, "migration": _migration(row), "attachments": _attachments(attachment)}


def is_bootable(row: VolumeRow) -> bool:
    """Return the flag that a user has set; without one, True if the volume or snapshot began as an image."""
    return bool(row.spec.get("bootable", bool(row.spec.get("image"))))


def _attachments(row: PlacedAttachment | None) -> list[JSONObject]:
    return [] if row is None else [of_attachment(row)]


def of_attachment(row: PlacedAttachment) -> JSONObject:
    """:param row: from a query of ``fleet.db.volumes.attachments``. Where the data of the volume are is not shown."""
    names = ("uuid", "instance_name", "volume_name", "size_gb", "device", "status")
    shown = {name: getattr(row, name) for name in names}
    where = {"instance": row.instance_uuid, "volume": row.volume_uuid, "host": row.instance_host}
    return {**shown, **where, "created_at": _plain(row.created_at)}


def _migration(row: VolumeRow) -> JSONObject | None:
    """The step of a migration, and the pool that it leads to, or leaves; None if there is none.

    ``copied_percent`` is there once the backend has reported it.
    """
    if row.held_host is not None:
        under_way = {"step": row.step or row.status, "pool": location.append_host(row.held_host, row.held_pool)}
        known = row.step == volume_states.COPYING and "copied" in row.plan
        return {**under_way, "copied_percent": row.plan["copied"]} if known else under_way
    return {"step": row.step, "pool": row.plan.get("to")} if row.status == volume_states.MIGRATING else None


def of_snapshot(row: VolumeRow) -> JSONObject:
    """Return the view of a snapshot, in the form of :func:`of_volume`; ``volume`` is the uuid of its volume."""
    moments = {name: _plain(getattr(row, name)) for name in _MOMENTS}
    names = ("uuid", "name", "size_gb", "status", "failure", "project_id", "user_id", "request_id")
    shown = {**{name: getattr(row, name) for name in names}, "volume": row.snapshot_of, **moments}
    shown["failure"] = row.failure or None  # one that cannot be read is empty
    said = {"description": row.spec.get("description", ""), "metadata": row.spec.get("metadata", {})}
    return {**shown, **said, "host": location.append_host(row.host, row.pool)}


def of_event(row: VolumeEventRow) -> JSONObject:
    """An event of the history of a volume. ``host`` is ``machine@backend#pool``."""
    shown = {name: getattr(row, name) for name in ("event", "attempt", "step", "result", "message", "duration_s")}
    return {**shown, "host": location.append_host(row.host, row.pool), "created_at": _plain(row.created_at)}


def of_pool(row: PoolRow, up: bool, disabled: bool) -> JSONObject:
    """``name`` is ``machine@backend#pool``. ``over_subscription`` is the ratio that applies."""
    shown = {name: getattr(row, name) for name in _POOL}
    space = pools.space_of(row)
    ratio = {
        "max_over_subscription_ratio": row.max_over_subscription_ratio,
        "over_subscription": space.over_subscription,
    }
    state = {"state": "up" if up else "down", "disabled": disabled, "updated_at": _plain(row.updated_at)}
    return {"name": location.append_host(row.host, row.pool), **shown, **ratio, **state}


def _plain(moment: Any) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds") + "Z"
