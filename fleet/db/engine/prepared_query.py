# SPDX-License-Identifier: Apache-2.0
"""Queries that PostgreSQL plans once per connection.

Called by :mod:`fleet.db.feed.feed_queries`. Planning a short query takes longer than running it.

They bypass SQLAlchemy, which would take as long again. On other databases the query runs as usual. So it does on PostgreSQL
if the prepared statement is missing, as behind a pooler that shares one session among many clients.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

import sqlalchemy as sa

from fleet.db.tables.sql_types import Element, Select

RowT = TypeVar("RowT")

_NUMBER = "number"
#: Marks a connection on which prepared statements fail.
_REFUSES = "fleet_refuses"
#: Otherwise PostgreSQL plans again whenever a plan for the given number looks cheaper than the generic one.
_ALWAYS = "SET plan_cache_mode = force_generic_plan"


class PreparedQuery(Generic[RowT]):
    """A query with one integer parameter, for connections in autocommit mode.

    :param name: of the prepared statement
    :param make: returns the query for the expression of its parameter
    """

    def __init__(self, name: str, make: Callable[[Element], Select]) -> None:
        self._name = f"fleet_{name}"
        self._query = make(sa.bindparam(_NUMBER, type_=sa.BigInteger))
        self._numbered = make(sa.literal_column("$1", sa.BigInteger))
        self._row: Callable[..., RowT] | None = None

    def rows(self, connection: sa.Connection, number: int) -> Sequence[RowT]:
        """Rows with the columns of the query as attributes."""
        if connection.dialect.name == "postgresql" and _REFUSES not in connection.info:
            try:
                return self._ask(connection, number)
            except connection.dialect.loaded_dbapi.Error:
                # The query below shows whether the connection is lost.
                connection.info[_REFUSES] = True
        return cast("Sequence[RowT]", connection.execute(self._query, {_NUMBER: number}).all())

    def _ask(self, connection: sa.Connection, number: int) -> Sequence[RowT]:
        cursor: Any
        with contextlib.closing(connection.connection.cursor()) as cursor:
            if self._name not in connection.info:
                cursor.execute(self.preparation(connection.dialect))
                connection.info[self._name] = True
            cursor.execute(self.execution(number))
            return self.fetched(cursor)

    # For callers that use a connection of the driver

    def preparation(self, dialect: sa.Dialect) -> str:
        """SQL that prepares the statement, once per connection."""
        text = self._numbered.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
        return f"{_ALWAYS}; PREPARE {self._name}(bigint) AS {text}"

    def execution(self, number: int) -> str:
        return f"EXECUTE {self._name}({number:d})"

    def fetched(self, cursor: Any) -> list[RowT]:
        """Rows of the execution, with the columns of the query as attributes."""
        if self._row is None:
            namedtuple: Any = collections.namedtuple
            self._row = namedtuple("Row", [column.name for column in cursor.description])._make
        return list(map(self._row, cursor.fetchall()))
