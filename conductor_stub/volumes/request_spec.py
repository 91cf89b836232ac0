# SPDX-License-Identifier: Apache-2.0
"""Makes the scheduler's input: ``request_spec`` and ``filter_properties`` in cinder's form."""

from __future__ import annotations

from typing import Any

CREATE = "create_volume"


def build_request_spec(row: Any, operation: str = CREATE) -> dict[str, Any]:
    """:param row: the volume's row. A copy is made on the pool of its source."""
    source = row.spec.get("source") or {}
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
            "host": row.host,
        },
        "volume_type": row.spec.get("volume_type"),
        "source_volid": None if source.get("is_snapshot") else source.get("uuid"),
        "snapshot_id": source.get("uuid") if source.get("is_snapshot") else None,
        "resource_backend": source.get("host"),
        "operation": operation,
    }


def build_filter_properties(row: Any) -> dict[str, Any]:
    """Hints, and the pools that were tried. Both names of the list have the same content."""
    tried = [each["backend"] for each in row.plan.get("tried", ())]
    return {
        "scheduler_hints": row.spec.get("scheduler_hints", {}),
        "retry": {"num_attempts": row.attempt, "hosts": tried, "backends": tried},
    }
