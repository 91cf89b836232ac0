# SPDX-License-Identifier: Apache-2.0
"""Live volumes by text, state and order, in parts; for the page, which shows lists of any length.

:mod:`conductor_stub.operators.search` calls it.
"""

from __future__ import annotations

import datetime
from typing import Protocol, cast

import sqlalchemy as sa

from fleet.db.engine.list_search import Found, Search, Searched, read
from fleet.db.tables.sql_types import Values
from fleet.db.volumes import volumes

VOLUMES = volumes.VOLUMES
#: Columns of a row that is found.
_PLAIN = ("uuid", "name", "project_id", "host", "pool", "status", "step", "size_gb", "volume_type", "created_at")
_LIVE = sa.and_(sa.not_(VOLUMES.c.deleted), VOLUMES.c.snapshot_of.is_(None))
_SEARCHED = Searched(
    rows=sa.select(*(VOLUMES.c[name] for name in _PLAIN)),
    uuid=VOLUMES.c.uuid,
    state=VOLUMES.c.status,
    text={name: VOLUMES.c[name] for name in ("name", "uuid", "project_id", "host", "pool", "volume_type")},
    sort={
        **{name: VOLUMES.c[name] for name in ("created_at", "status", "size_gb")},
        # NULL is first in one database and last in another.
        **{name: sa.func.coalesce(VOLUMES.c[name], "") for name in ("name", "project_id", "host", "volume_type")},
    },
    of_places=frozenset({"host", "pool"}),
)
#: Columns that an argument may require to have a value.
FILTERS = ("host", "project_id")


class FoundVolume(Protocol):
    """A row that is found."""

    uuid: str
    name: str
    project_id: str | None
    host: str | None
    pool: str | None
    status: str
    step: str | None
    size_gb: int
    volume_type: str | None
    created_at: datetime.datetime


def find(connection: sa.Connection, search: Search, filters: Values, sees_places: bool) -> Found[FoundVolume]:
    """Return the live volumes that match.

    :param filters: of FILTERS; None does not filter
    :raises errors.InvalidInput: see :func:`fleet.db.engine.list_search.read`
    """
    where = [_LIVE, *(VOLUMES.c[name] == value for name, value in filters.items() if value is not None)]
    return cast("Found[FoundVolume]", read(connection, _SEARCHED, search, where, sees_places))
