# SPDX-License-Identifier: Apache-2.0
"""Live instances by text, state and order, in parts; for the page, which shows lists of any length.

:mod:`conductor_stub.operators.search` calls it.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Protocol, cast

import sqlalchemy as sa

from fleet.db.engine.list_search import Found, Search, Searched, read
from fleet.db.instances import instance_values, instances
from fleet.json_codec import JSONMapping, JSONObject

INSTANCES, REQUESTS = instances.INSTANCES, instances.REQUESTS
#: Columns of a row that is found, as they stand.
_PLAIN = (
    *("uuid", "name", "project_id", "host", "vm_state", "task_state", "power_state", "attempt", "created_at"),
    *("flavor_name", "vcpus", "memory_mb"),
)
_DISK_GB = (INSTANCES.c.root_gb + INSTANCES.c.ephemeral_gb).label("disk_gb")
_LIVE = sa.not_(INSTANCES.c.deleted)
_ROWS = sa.select(*(INSTANCES.c[name] for name in _PLAIN), _DISK_GB, REQUESTS.c.group_uuid).join_from(
    INSTANCES, REQUESTS
)
_SEARCHED = Searched(
    rows=_ROWS,
    uuid=INSTANCES.c.uuid,
    state=INSTANCES.c.vm_state,
    text={name: INSTANCES.c[name] for name in ("name", "uuid", "project_id", "host", "flavor_name")},
    sort={
        **{name: INSTANCES.c[name] for name in ("created_at", "vm_state", "vcpus", "memory_mb", "attempt")},
        # NULL is first in one database and last in another.
        **{name: sa.func.coalesce(INSTANCES.c[name], "") for name in ("name", "project_id", "host", "flavor_name")},
        "disk_gb": INSTANCES.c.root_gb + INSTANCES.c.ephemeral_gb,
    },
    of_places=frozenset({"host"}),
)
#: Columns that an argument may require to have a value.
FILTERS = ("host", "project_id")


class FoundInstance(Protocol):
    """A row that is found. One that was found with a label has ``spec`` and ``details``, too."""

    uuid: str
    name: str
    project_id: str | None
    host: str | None
    vm_state: str
    task_state: str | None
    power_state: int
    attempt: int
    created_at: datetime.datetime
    flavor_name: str | None
    vcpus: int
    memory_mb: int
    disk_gb: int
    group_uuid: str | None
    spec: JSONObject
    details: JSONObject | None


def find(
    connection: sa.Connection, search: Search, filters: JSONMapping, label: str | None, sees_places: bool
) -> Found[FoundInstance]:
    """Return the live instances that match.

    :param filters: of FILTERS; None does not filter
    :param label: a key of the metadata, whose value each row then has as ``spec`` and ``details``: see :func:`label_of`
    :raises errors.InvalidInput: see :func:`fleet.db.engine.list_search.read`
    """
    where = [_LIVE, *(INSTANCES.c[name] == value for name, value in filters.items() if value is not None)]
    searched = _SEARCHED
    if label is not None:
        searched = dataclasses.replace(searched, rows=_ROWS.add_columns(REQUESTS.c.spec, INSTANCES.c.details))
    return cast("Found[FoundInstance]", read(connection, searched, search, where, sees_places))


def label_of(row: FoundInstance, label: str) -> str | None:
    """Return the value of this key of the metadata of a row that was found with a label."""
    found = instance_values.changed_spec(row.spec, None, row.details).get("metadata")
    return found.get(label) if isinstance(found, dict) else None
