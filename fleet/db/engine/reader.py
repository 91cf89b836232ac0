# SPDX-License-Identifier: Apache-2.0
"""A connection that one reader keeps. The feed reads before every decision, and taking a connection from the pool, pinging
it and returning it would cost more than the query.

If the connection was lost, the query fails and runs once more on a new one. Called by :mod:`fleet.db.engine.database`,
and for the databases of nova by :mod:`fleet.db.nova.database`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exception

from fleet.db.engine import failures

Result = TypeVar("Result")


class Reader:
    """Not for use by several threads at once.

    :param in_transaction: whether the statements of a read are one transaction, at the isolation level of the engine, or
        each is one of its own
    """

    def __init__(self, engine: sa.Engine, in_transaction: bool = True) -> None:
        self._engine = engine
        self._in_transaction = in_transaction
        self._connection: sa.Connection | None = None
        self._caught = failures.caught(engine)
        #: How many connections were lost so far.
        self.lost = 0

    def read(self, work: Callable[..., Result], *args: object) -> Result:
        """Run ``work(connection, …)``. :raises errors.DatabaseError:"""
        try:
            return self._read(work, *args)
        except self._caught as failure:
            typed = failures.typed(failure, self._engine.url)
        raise typed

    def close(self) -> None:
        """Close the connection. The next read opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, work: Callable[..., Result], *args: object) -> Result:
        if self._connection is not None:
            try:
                return self._run(self._connection, work, *args)
            except db_exception.DBConnectionError:
                pass
        self._connection = self._engine.connect()
        return self._run(self._connection, work, *args)

    def _run(self, connection: sa.Connection, work: Callable[..., Result], *args: object) -> Result:
        try:
            if self._in_transaction:
                with connection.begin():
                    return work(connection, *args)
            result = work(connection, *args)
            if connection.in_transaction():  # SQLAlchemy begins one by itself
                connection.commit()
            return result
        except BaseException:
            # Its state is unknown: the next read opens a new connection.
            self.lost += 1
            self._connection = None
            connection.close()
            raise
