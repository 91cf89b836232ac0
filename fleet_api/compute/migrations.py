# SPDX-License-Identifier: Apache-2.0
"""Moves of servers, the newest first.

Read only. Called by :mod:`fleet_api.application` and :mod:`fleet_api.servers.server_migrations`.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, NotRequired

import falcon
from typing_extensions import TypedDict

from fleet import move_states
from fleet.client import pages
from fleet.json_codec import JSONMapping, JSONObject
from fleet_api.requests import answers, bodies, guard, microversions, paging
from fleet_api.requests.conductor import Conductor

#: Parameters that the conductor filters by, and those that equal the field of a record of the same name.
_FILTERS, _FIELDS = ("instance_uuid", "host", "status", "project_id"), ("source_compute", "user_id")
_CHANGES = ("changes-since", "changes-before")
#: By parameter, the version that introduced it; before, it is ignored.
_SINCE = {"changes-since": (2, 59), "changes-before": (2, 66), "project_id": (2, 80), "user_id": (2, 80)}
#: Versions from which an answer has a field.
_TYPE, _UUID, _PROJECT = (2, 23), (2, 59), (2, 80)


class Places(TypedDict):
    """Fields that the moves of a list and the live migrations of a server share."""

    id: int
    status: str
    source_node: str | None
    dest_node: str | None
    source_compute: str | None
    dest_compute: str | None
    dest_host: None
    created_at: str | None
    updated_at: str | None
    uuid: NotRequired[Annotated[str, answers.since("2.59")]]
    project_id: NotRequired[Annotated[str | None, answers.since("2.80")]]
    user_id: NotRequired[Annotated[str | None, answers.since("2.80")]]


class MigrationShown(Places):
    instance_uuid: str
    old_instance_type_id: int | None
    new_instance_type_id: int | None
    migration_type: NotRequired[Annotated[str, answers.since("2.23")]]


class Migrations:
    """:param most: most migrations in one answer"""

    def __init__(self, conductor: Conductor, most: int) -> None:
        self._conductor = conductor
        self._most = most

    @guard.by("fleet:others")
    @answers.gives(answers.listed("migrations", MigrationShown))
    @bodies.asks("limit", "marker", *_FILTERS, *_FIELDS, *_CHANGES, "migration_type")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        filters, conditions = _given(request, _FILTERS), _conditions(request)
        found = pages.migrations(self._conductor.operator(request), filters)
        records = [each for each in found if all(fits(each) for fits in conditions)]
        part, more = paging.cut(request, records, [each["uuid"] for each in records], self._most)
        keys = {each.name: each.id for each in self._conductor.flavors(request)} if part else {}
        answer: JSONObject = {"migrations": [view(request, each, keys) for each in part]}
        if more and request.context.version >= _UUID:
            answer["migrations_links"] = paging.next_link(request, "/os-migrations", part[-1]["uuid"])
        response.media = answer


def _given(request: falcon.Request, names: Iterable[str]) -> dict[str, str]:
    """Return the parameters that have a value and that the version of the request knows."""
    known = [name for name in names if request.context.version >= _SINCE.get(name, microversions.COMPUTE.oldest)]
    return {name: value for name in known if (value := request.get_param(name))}


def _conditions(request: falcon.Request) -> list[Callable[[JSONMapping], bool]]:
    """Return the filters that the conductor does not have. :raises errors.InvalidInput:"""
    equal, changes = _given(request, _FIELDS), _given(request, _CHANGES)
    since, before = (bodies.moment(request, name) if name in changes else None for name in _CHANGES)
    wanted = request.get_param("migration_type")
    return [
        lambda record: wanted in (None, _type(record)),
        lambda record: all(record.get(name) == value for name, value in equal.items()),
        lambda record: since is None or since <= _changed_at(record),
        lambda record: before is None or _changed_at(record) <= before,
    ]


def _changed_at(record: JSONMapping) -> datetime.datetime:
    return datetime.datetime.fromisoformat(record["updated_at"] or record["created_at"]).replace(tzinfo=None)


def view(request: falcon.Request, record: JSONMapping, keys: Mapping[str, int | None]) -> MigrationShown:
    """Return a move as in a list. :param keys: the numbers of flavors by name; one that is gone has none"""
    shown: MigrationShown = {
        **places(request, record),
        "instance_uuid": record["instance_uuid"],
        "old_instance_type_id": keys.get(record["old_flavor"]),
        "new_instance_type_id": keys.get(record["new_flavor"]),
    }
    if request.context.version >= _TYPE:
        shown["migration_type"] = _type(record)
    return shown


def places(request: falcon.Request, record: JSONMapping) -> Places:
    """Return whence and whither a server moves, and since when."""
    version = request.context.version
    shown: Places = {
        "id": number(record),
        "status": record["status"],
        "source_node": record["source_node"],
        "dest_node": record["dest_node"],
        "source_compute": record["source_compute"],
        "dest_compute": record["dest_compute"],
        "dest_host": None,
        "created_at": _plain(record["created_at"]),
        "updated_at": _plain(record["updated_at"]),
    }
    if version >= _UUID:
        shown["uuid"] = record["uuid"]
    if version >= _PROJECT:
        shown["project_id"], shown["user_id"] = record.get("project_id"), record.get("user_id")
    return shown


def _plain(moment: str | None) -> str | None:
    """Return a time without a zone."""
    return moment.removesuffix("Z") if moment else None


def number(record: JSONMapping) -> int:
    """Return a number that is always the same for the same record, which has none."""
    return uuid.UUID(record["uuid"]).int >> 97


def _type(record: JSONMapping) -> str:
    return move_states.shown_type(record["migration_type"], record["resized"])
