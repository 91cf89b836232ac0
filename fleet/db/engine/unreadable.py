# SPDX-License-Identifier: Apache-2.0
"""Finds the rows of which a JSON column cannot be read (:mod:`fleet.stored_json`).

``fleet-manage db audit`` and ``fleet doctor`` name the rows that it finds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import sqlalchemy as sa

from fleet import stored_json
from fleet.db.tables import models
from fleet.db.tables.base import Row
from fleet.db.tables.sql_types import Column

#: Rows that one statement reads.
_BATCH = 500
#: Rows that are named.
MOST = 100


class UnreadableRow(NamedTuple):
    """``key`` is the value of the primary key; ``name`` that of its instance or volume, or the host, if it has one."""

    table: str
    column: str
    key: str
    name: str
    problem: str


def find(connection: sa.Connection, within_s: float) -> tuple[list[UnreadableRow], bool]:
    """Return at most MOST of them, and whether all rows were read in ``within_s`` seconds."""
    found: list[UnreadableRow] = []
    until = time.monotonic() + within_s
    for table in models.METADATA.sorted_tables:
        columns = [column for column in table.columns if isinstance(column.type, sa.JSON)]
        for rows in _batches(connection, table, columns) if columns else ():
            found += (each for row in rows for each in _of_row(row, table, columns))
            if len(found) >= MOST or time.monotonic() > until:
                return found[:MOST], False
    return found, True


def _batches(connection: sa.Connection, table: sa.Table, columns: list[Column]) -> Iterator[Sequence[Row]]:
    """The rows in the order of their keys, with the texts of their columns."""
    key = next(iter(table.primary_key.columns))
    names = [table.c[name] for name in ("name", "host", "instance_uuid") if name in table.c][:1]
    texts = [sa.cast(column, sa.Text).label(column.name) for column in columns]
    query = sa.select(key.label("row_key"), *(each.label("row_name") for each in names), *texts)
    query = query.order_by(key).limit(_BATCH)
    rows = connection.execute(query).all()
    while rows:
        yield cast("Sequence[Row]", rows)
        rows = connection.execute(query.where(key > rows[-1].row_key)).all() if len(rows) == _BATCH else []


def _of_row(row: Row, table: sa.Table, columns: list[Column]) -> Iterator[UnreadableRow]:
    values = row._mapping
    for column in columns:
        text = values[column.name]
        problem = None if text is None else stored_json.fault(str(text))
        if problem is not None:
            name = str(values.get("row_name") or "")
            yield UnreadableRow(table.name, column.name, str(values["row_key"]), name, problem)
