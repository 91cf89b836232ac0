# SPDX-License-Identifier: Apache-2.0
"""One connection kept for one reader, which asks before every decision: to take one out of the pool, have it tried and put
it back costs more than the question.

A connection that was lost meanwhile is noticed by the question itself, which is then asked once more through a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exception

from fleet.db import failures

Result = TypeVar("Result")


class Reader:
    """Not for use by several threads at once.

    :param in_transaction: whether the statements of a reading are one transaction (what that is, the engine says), or each
        is one of its own
    """

    def __init__(self, engine: sa.Engine, in_transaction: bool = True) -> None:
        self._engine = engine
        self._in_transaction = in_transaction
        self._connection: sa.Connection | None = None
        self._caught = failures.caught(engine)

    def read(self, work: Callable[..., Result], *args: Any) -> Result:
        """Run ``work(connection, …)``. :raises errors.DatabaseError:"""
        try:
            return self._read(work, *args)
        except self._caught as failure:
            typed = failures.typed(failure, self._engine.url)
        raise typed

    def _read(self, work: Callable[..., Result], *args: Any) -> Result:
        if self._connection is not None:
            try:
                return self._run(self._connection, work, *args)
            except db_exception.DBConnectionError:
                pass
        self._connection = self._engine.connect()
        return self._run(self._connection, work, *args)

    def _run(self, connection: sa.Connection, work: Callable[..., Result], *args: Any) -> Result:
        try:
            if self._in_transaction:
                with connection.begin():
                    return work(connection, *args)
            result = work(connection, *args)
            if connection.in_transaction():  # SQLAlchemy's idea of one, which begins by itself
                connection.commit()
            return result
        except BaseException:
            # Whatever state it is in: the next read begins anew.
            self._connection = None
            connection.close()
            raise
