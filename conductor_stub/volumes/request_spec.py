# SPDX-License-Identifier: Apache-2.0
"""Makes the scheduler's input: ``request_spec`` and ``filter_properties`` in cinder's form.

Called by :mod:`conductor_stub.volumes.placement`.
"""

from __future__ import annotations

from fleet import volume_states
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import volumes
from fleet.json_codec import JSONObject
from fleet.objects import location

RETYPE = "retype_volume"
MANAGE = "manage_existing"
_OPERATION = {
    volume_states.CREATING: "create_volume",
    volume_states.MIGRATING: "migrate_volume_to_host",
    volume_states.RETYPING: RETYPE,
    volume_states.MANAGING: MANAGE,
}


def build_request_spec(row: VolumeRow) -> JSONObject:
    """:param row: the volume's row. A copy is made on the pool of its source."""
    source = row.spec.get("source") or {}
    is_new = row.status == volume_states.CREATING
    volume_type = volumes.type_of(row)
    return {
        "volume_id": row.uuid,
        "volume_properties": {
            "size": row.size_gb,
            "availability_zone": row.availability_zone,
            "project_id": row.project_id,
            "user_id": row.user_id,
            "display_name": row.name,
            "metadata": row.spec.get("metadata", {}),
            "status": row.status,
            "host": row.plan["to"]
            if row.status == volume_states.MANAGING
            else location.append_host(row.host, row.pool),
        },
        "volume_type": volume_type and volume_type.to_wire(),
        "source_volid": None if source.get("is_snapshot") else source.get("uuid"),
        "image_id": (row.spec.get("image") or {}).get("uuid"),
        "snapshot_id": source.get("uuid") if source.get("is_snapshot") else None,
        "resource_backend": source.get("host") if is_new else row.plan.get("to"),
        "operation": _OPERATION[row.status],
        "migration_policy": row.spec["retype"]["migration_policy"] if _OPERATION[row.status] == RETYPE else None,
    }


def build_filter_properties(row: VolumeRow) -> JSONObject:
    """Hints, and the pools that must not be chosen: those that were tried, and the one that the volume migrates from.

    Both names of the list have the same content.
    """
    tried: list[str | None] = [each["backend"] for each in row.plan.get("tried", ())]
    attempts = len(tried) + 1
    if row.status == volume_states.MIGRATING:
        tried.append(location.append_host(row.host, row.pool))
    return {
        "scheduler_hints": row.spec.get("scheduler_hints", {}),
        "retry": {"num_attempts": attempts, "hosts": tried, "backends": tried},
    }
