# SPDX-License-Identifier: Apache-2.0
"""Queries that PostgreSQL plans once a connection: to plan a short one takes longer than to answer it.

They go past SQLAlchemy, too, which would take as long again. Other databases are asked as usual; so is PostgreSQL where what
was prepared is not there when it is wanted, as behind a pooler that lends each session to many.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

_NUMBER = "number"
#: Left on a connection that lets nothing be prepared.
_REFUSES = "fleet_refuses"
#: By itself PostgreSQL would go on planning anew where a plan for any number looks dearer than one for this number.
_ALWAYS = "SET plan_cache_mode = force_generic_plan"


class Prepared:
    """One query with one whole number in it, for connections without a transaction around their statements.

    :param name: of the prepared statement
    :param make: gives the query, with the number as it is to stand in it
    """

    def __init__(self, name: str, make: Callable[[sa.ColumnElement], sa.Select]) -> None:
        self._name = f"fleet_{name}"
        self._query = make(sa.bindparam(_NUMBER, type_=sa.BigInteger))
        self._numbered = make(sa.literal_column("$1", sa.BigInteger))
        self._row: Callable[..., Any] | None = None

    def rows(self, connection: sa.Connection, number: int) -> Sequence[Any]:
        """With the query's columns as attributes."""
        if connection.dialect.name == "postgresql" and _REFUSES not in connection.info:
            try:
                return self._ask(connection, number)
            except connection.dialect.loaded_dbapi.Error:
                # SQLAlchemy finds out whether it is the connection that is lost.
                connection.info[_REFUSES] = True
        return connection.execute(self._query, {_NUMBER: number}).all()

    def _ask(self, connection: sa.Connection, number: int) -> Sequence[Any]:
        with connection.connection.cursor() as cursor:
            if self._name not in connection.info:
                cursor.execute(self.preparation(connection.dialect))
                connection.info[self._name] = True
            cursor.execute(self.execution(number))
            return self.fetched(cursor)

    # for who has a connection of the driver's

    def preparation(self, dialect: sa.Dialect) -> str:
        """What is to be said once, of PostgreSQL's."""
        text = self._numbered.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
        return f"{_ALWAYS}; PREPARE {self._name}(bigint) AS {text}"

    def execution(self, number: int) -> str:
        return f"EXECUTE {self._name}({number:d})"

    def fetched(self, cursor: Any) -> list[Any]:
        """What the execution has found, with the query's columns as attributes."""
        if self._row is None:
            self._row = collections.namedtuple("Row", [column.name for column in cursor.description])._make
        return list(map(self._row, cursor.fetchall()))
