# SPDX-License-Identifier: Apache-2.0
"""Rows as operators see them: plain data, times as ISO 8601 text in UTC.

Called by the modules beside it, and by the managers of maintenance, balancing and recovery.
"""

from __future__ import annotations

import datetime
import types
from collections.abc import Mapping, Sequence
from typing import Any, cast

from fleet import errors, states
from fleet.db.engine.database import Connection
from fleet.db.instances import instance_values
from fleet.db.instances.waiting import queued_builds
from fleet.db.instances.waiting.room_queue import ListedBuild
from fleet.db.tables.base import Row
from fleet.db.tables.instances import RequestedInstance
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Zone, fields, host_name

#: Types of the values of filters; all others are texts.
_TYPES_OF_FILTERS: Mapping[str, Any] = {"uuids": list[fields.Uuid] | None, "deleted": fields.Flag | None}


def plain(value: object) -> Any:
    return value.isoformat(timespec="milliseconds") + "Z" if isinstance(value, datetime.datetime) else value


def shown(row: Row) -> JSONObject:
    """A fault or an event of an instance."""
    return {name: plain(value) for name, value in row._mapping.items() if name not in ("id", "instance_uuid")}


def instance_view(row: RequestedInstance) -> JSONObject:
    """:param row: from a query of ``fleet.db.instances.instances``, or from ``instances.moved``"""
    return _view(vars(row) if isinstance(row, types.SimpleNamespace) else cast("Row", row)._asdict())


def instance_views(rows: Sequence[RequestedInstance]) -> list[JSONObject]:
    """:func:`instance_view` of each, for many."""
    # Attributes of a row are slow to read.
    read = cast("Sequence[Row]", rows)
    names = read[0]._fields if read else ()
    return [_view(dict(zip(names, row, strict=True))) for row in read]


def _view(stored: JSONMapping) -> JSONObject:
    request = stored["spec"]
    spec = instance_values.changed_spec(request, stored["resized_spec"], stored["details"])
    zone = Zone.parse(request.get("availability_zone") or "")
    return {
        **instance_values.to_wire(stored, spec),
        **{name: plain(stored[name]) for name in ("updated_at", "terminated_at", "deadline")},
        **{name: stored[name] for name in ("request_id", "deleted", "group_uuid", "locked_by", "locked_reason")},
        "is_unshelved": stored["vm_state"] == states.BUILDING and bool(stored["shelved"]),
        "description": spec.get("description", ""),
        "tags": spec.get("tags", []),
        **{name: spec.get(name) or "" for name in ("access_ip_v4", "access_ip_v6")},
        "hostname": spec.get("hostname") or host_name.of(stored["name"]),
        "disk_config": spec.get("disk_config"),
        "scheduler_hints": request["scheduler_hints"],
        "key_name": spec.get("key_name"),
        "forced_host": zone.host or None,
        "forced_node": zone.node or None,
    }


def waiting_view(row: ListedBuild, kept_host: str | None) -> JSONObject:
    names = ("uuid", "name", "project_id", "reason", "message", "lacks", "queued_at", "wait_until")
    view = {name: plain(getattr(row, name)) for name in names}
    return {**view, "place": row.place, "flavor": row.flavor_name, "kept_host": kept_host}


def queued_view(connection: Connection, row: RequestedInstance) -> JSONObject | None:
    """Return the reason for which the build waits for room, and the times of its wait; None if it does not wait."""
    queued = queued_builds.find(connection, row.uuid) if row.task_state == states.QUEUED else None
    if queued is None:
        return None
    times = {name: plain(getattr(queued, name)) for name in ("queued_at", "wait_until")}
    return {"reason": queued.reason, "message": queued.message, "lacks": queued.lacks, **times}


def require_filters(filters: Mapping[str, object], known: Sequence[str]) -> None:
    """:raises errors.InvalidInput: a filter that is not known, or has a value of another type than its column"""
    for name, value in filters.items():
        if name not in known:
            raise errors.InvalidInput(field=f"filters.{name}", reason=f"is not one of {', '.join(known)}")
        fields.parse(_TYPES_OF_FILTERS.get(name, fields.Text | None), value, f"filters.{name}")
