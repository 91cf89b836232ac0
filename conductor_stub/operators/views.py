# SPDX-License-Identifier: Apache-2.0
"""Rows as operators see them: plain data, times as ISO 8601 text in UTC.

Called by the modules beside it.
"""

from __future__ import annotations

import datetime
import types
from collections.abc import Mapping, Sequence
from typing import Any, cast

from fleet import errors, states
from fleet.clock import as_text
from fleet.db.engine.database import Connection
from fleet.db.instances import instance_values
from fleet.db.instances.waiting import queued_builds
from fleet.db.instances.waiting.room_queue import ListedBuild
from fleet.db.tables.base import Row
from fleet.db.tables.instances import EventRow, FaultRow, RequestedInstance
from fleet.db.tables.queue import QueuedRow
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Zone, fields, host_name
from fleet.objects.answers.catalog import FlavorView
from fleet.objects.answers.instances import (
    EventView,
    FaultView,
    InstanceImage,
    InstanceView,
    QueuedView,
    WaitingView,
)

#: Types of the values of filters; all others are texts.
_TYPES_OF_FILTERS: Mapping[str, Any] = {"uuids": list[fields.Uuid] | None, "deleted": fields.Flag | None}


def plain(values: JSONMapping) -> JSONObject:
    """Return the values with times as text."""
    return {name: as_text(value) if isinstance(value, datetime.datetime) else value for name, value in values.items()}


def fault_view(row: FaultRow) -> FaultView:
    return {
        "code": row.code,
        "error": row.error,
        "message": row.message,
        "details": row.details,
        "host": row.host,
        "request_id": row.request_id,
        "created_at": as_text(row.created_at),
    }


def event_view(row: EventRow) -> EventView:
    return {
        "event": row.event,
        "attempt": row.attempt,
        "host": row.host,
        "node": row.node,
        "step": row.step,
        "result": row.result,
        "message": row.message,
        "duration_s": row.duration_s,
        "request_id": row.request_id,
        "created_at": as_text(row.created_at),
    }


def instance_view(row: RequestedInstance) -> InstanceView:
    """:param row: from a query of ``fleet.db.instances.instances``, or from ``instances.moved``"""
    return _view(vars(row) if isinstance(row, types.SimpleNamespace) else cast("Row", row)._asdict())


def instance_views(rows: Sequence[RequestedInstance]) -> list[InstanceView]:
    """:func:`instance_view` of each, for many."""
    # Attributes of a row are slow to read.
    read = cast("Sequence[Row]", rows)
    names = read[0]._fields if read else ()
    return [_view(dict(zip(names, row, strict=True))) for row in read]


def _view(stored: JSONMapping) -> InstanceView:
    request = stored["spec"]
    spec = instance_values.changed_spec(request, stored["resized_spec"], stored["details"])
    flavor, image = instance_values.parts(stored, spec)
    zone = Zone.parse(request.get("availability_zone") or "")
    vm_state, shelved = stored["vm_state"], stored["shelved"]
    return {
        "uuid": stored["uuid"],
        "name": stored["name"],
        "project_id": stored["project_id"],
        "user_id": stored["user_id"],
        "reservation_id": stored["reservation_id"],
        "vm_state": vm_state,
        "task_state": stored["task_state"],
        "power_state": stored["power_state"],
        "attempt": stored["attempt"],
        "host": stored["host"],
        "node": stored["node"],
        "availability_zone": stored["availability_zone"],
        "claimed_memory_mb": stored["claimed_memory_mb"],
        "claimed_disk_gb": stored["claimed_disk_gb"],
        "claimed_vcpus": stored["claimed_vcpus"],
        # None, if they cannot be read.
        "claimed_numa_topology": stored["claimed_numa_topology"] or None,
        "claimed_pci_devices": stored["claimed_pci_devices"] or None,
        "interfaces": stored["interfaces"] or None,
        "created_at": as_text(stored["created_at"]),
        "launched_at": as_text(stored["launched_at"]),
        "flavor": cast("FlavorView", flavor),
        "image": cast("InstanceImage", image),
        "metadata": spec["metadata"],
        "numa_topology": spec.get("numa_topology"),
        "pci_requests": spec.get("pci_requests"),
        "shelved_attempt": instance_values.shelved_attempt(vm_state, shelved),
        "task_deadline": instance_values.task_deadline(stored["task_state"], stored["deadline"]),
        "updated_at": as_text(stored["updated_at"]),
        "terminated_at": as_text(stored["terminated_at"]),
        "deadline": as_text(stored["deadline"]),
        "request_id": stored["request_id"],
        "deleted": stored["deleted"],
        "group_uuid": stored["group_uuid"],
        "locked_by": stored["locked_by"],
        "locked_reason": stored["locked_reason"],
        "is_unshelved": vm_state == states.BUILDING and bool(shelved),
        "description": spec.get("description", ""),
        "tags": spec.get("tags", []),
        "access_ip_v4": spec.get("access_ip_v4") or "",
        "access_ip_v6": spec.get("access_ip_v6") or "",
        "hostname": spec.get("hostname") or host_name.of(stored["name"]),
        "disk_config": spec.get("disk_config"),
        "scheduler_hints": request["scheduler_hints"],
        "key_name": spec.get("key_name"),
        "forced_host": zone.host or None,
        "forced_node": zone.node or None,
    }


def waiting_view(row: ListedBuild, kept_host: str | None) -> WaitingView:
    return {
        **_queued(row),
        "uuid": row.uuid,
        "name": row.name,
        "project_id": row.project_id,
        "place": row.place,
        "flavor": row.flavor_name,
        "kept_host": kept_host,
    }


def queued_view(connection: Connection, row: RequestedInstance) -> QueuedView | None:
    """Return the reason for which the build waits for room, and the times of its wait; None if it does not wait."""
    queued = queued_builds.find(connection, row.uuid) if row.task_state == states.QUEUED else None
    return None if queued is None else _queued(queued)


def _queued(row: QueuedRow | ListedBuild) -> QueuedView:
    return {
        "reason": row.reason,
        "message": row.message,
        "lacks": row.lacks,
        "queued_at": as_text(row.queued_at),
        "wait_until": as_text(row.wait_until),
    }


def require_filters(filters: Mapping[str, object], known: Sequence[str]) -> None:
    """:raises errors.InvalidInput: a filter that is not known, or has a value of another type than its column"""
    for name, value in filters.items():
        if name not in known:
            raise errors.InvalidInput(field=f"filters.{name}", reason=f"is not one of {', '.join(known)}")
        fields.parse(_TYPES_OF_FILTERS.get(name, fields.Text | None), value, f"filters.{name}")
