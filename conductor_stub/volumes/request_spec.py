# SPDX-License-Identifier: Apache-2.0
"""Makes the scheduler's input: ``request_spec`` and ``filter_properties`` in cinder's form."""

from __future__ import annotations

from typing import Any

from fleet import volume_states
from fleet.objects import location

_OPERATION = {volume_states.CREATING: "create_volume", volume_states.MIGRATING: "migrate_volume_to_host"}


def build_request_spec(row: Any) -> dict[str, Any]:
    """:param row: the volume's row. A copy is made on the pool of its source."""
    source = row.spec.get("source") or {}
    is_new = row.status == volume_states.CREATING
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
            "host": location.append_host(row.host, row.pool),
        },
        "volume_type": row.spec.get("volume_type"),
        "source_volid": None if source.get("is_snapshot") else source.get("uuid"),
        "snapshot_id": source.get("uuid") if source.get("is_snapshot") else None,
        "resource_backend": source.get("host") if is_new else row.plan.get("to"),
        "operation": _OPERATION[row.status],
    }


def build_filter_properties(row: Any) -> dict[str, Any]:
    """Hints, and the pools that must not be chosen: those that were tried, and the one that the volume is on.

    Both names of the list have the same content.
    """
    tried = [each["backend"] for each in row.plan.get("tried", ())]
    attempts = len(tried) + 1
    if row.host is not None:
        tried.append(location.append_host(row.host, row.pool))
    return {
        "scheduler_hints": row.spec.get("scheduler_hints", {}),
        "retry": {"num_attempts": attempts, "hosts": tried, "backends": tried},
    }
