# SPDX-License-Identifier: Apache-2.0
"""Reads rows by many values of a column.

The queries of nova's and placement's databases call it, since a statement takes a limited number of values.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from fleet.db.tables.sql_types import AnyRow, Select

#: Values of one statement.
_AT_ONCE = 500


def rows(
    connection: sa.Connection, query: Select, column: sa.ColumnClause[object], wanted: Collection[object]
) -> list[AnyRow]:
    """Return the rows of ``query`` whose ``column`` has one of these values."""
    values = list(wanted)
    found: list[AnyRow] = []
    for start in range(0, len(values), _AT_ONCE):
        found += connection.execute(query.where(column.in_(values[start : start + _AT_ONCE]))).all()
    return found
