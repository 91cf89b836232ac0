# SPDX-License-Identifier: Apache-2.0
"""Moves of servers, the newest first. Read only."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import falcon

from fleet.api import bodies, paging
from fleet.api.conductor import Conductor

#: Parameters that the conductor filters by.
_FILTERS = ("instance_uuid", "host", "status")
#: Versions from which an answer has a field.
_TYPE, _UUID, _PROJECT = (2, 23), (2, 59), (2, 80)


class Migrations:
    """:param most: most migrations in one answer"""

    def __init__(self, conductor: Conductor, most: int) -> None:
        self._conductor = conductor
        self._most = most

    @bodies.asks("limit", "marker", *_FILTERS, "migration_type")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        filters = {name: value for name in _FILTERS if (value := request.get_param(name))}
        found = self._conductor.ask(request, "list_migrations", filters=filters)
        wanted = request.get_param("migration_type")
        records = [each for each in found if wanted in (None, _type(each))]
        part, more = paging.cut(request, records, [each["uuid"] for each in records], self._most)
        answer: dict[str, Any] = {"migrations": [view(request, each) for each in part]}
        if more and request.context.version >= _UUID:
            answer["migrations_links"] = paging.next_link(request, "/os-migrations", part[-1]["uuid"])
        response.media = answer


def view(request: falcon.Request, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a move as in a list."""
    version = request.context.version
    shown = {name: record[name] for name in ("instance_uuid", "status", "source_node", "dest_node")}
    shown.update({name: record[name] for name in ("source_compute", "dest_compute")})
    shown.update({name: (record[name] or "").removesuffix("Z") or None for name in ("created_at", "updated_at")})
    shown.update(id=number(record), dest_host=None)
    shown.update(old_instance_type_id=record["old_flavor"], new_instance_type_id=record["new_flavor"])
    if version >= _TYPE:
        shown["migration_type"] = _type(record)
    if version >= _UUID:
        shown["uuid"] = record["uuid"]
    if version >= _PROJECT:
        shown.update(project_id=None, user_id=None)
    return shown


def number(record: Mapping[str, Any]) -> int:
    """Return a number that is always the same for the same record, which has none."""
    return uuid.UUID(record["uuid"]).int >> 97


def _type(record: Mapping[str, Any]) -> str:
    if record["migration_type"] == "resize" and not record["resized"]:
        return "migration"
    return str(record["migration_type"])
