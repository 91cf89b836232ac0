# SPDX-License-Identifier: Apache-2.0
"""A question that is sent before its answer is wanted: who asks does other work while the database is at it.

On PostgreSQL, on a connection of its own that psycopg2 does not wait for. Whatever goes wrong is no answer: who wanted it
asks in the usual way, which finds out why.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_log import log as logging

from fleet.db.prepared import Prepared

LOG = logging.getLogger(__name__)

#: Seconds after a failure in which nothing is asked ahead: a database that is away costs each request enough.
REST_S = 5.0
#: An answer that takes longer is none: whoever waits for it keeps all others from asking.
PATIENCE_S = 2.0


class Ahead:
    """One question at a time. Not for use by several threads at once."""

    def __init__(self, engine: sa.Engine, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._clock = clock
        self._rest_until = float("-inf") if engine.dialect.name == "postgresql" else float("inf")
        self._connection: Any = None
        self._cursor: Any = None
        self._prepared: set[Prepared] = set()
        #: What was sent last; none if nobody wants the answer any more.
        self._asked: tuple[Prepared, int] | None = None

    def ask(self, question: Prepared, number: int) -> None:
        """Send it, and return."""
        if self._clock() < self._rest_until:
            return
        try:
            if self._connection is None:
                self._connect()
            self._wait()  # for an answer that nobody wanted
            if question not in self._prepared:
                self._cursor.execute(question.preparation(self._engine.dialect))
                self._wait()
                self._prepared.add(question)
            self._cursor.execute(question.execution(number))
        except Exception as failure:
            # Whatever the driver raises.
            self._give_up(failure)
        else:
            self._asked = question, number

    def forget(self) -> None:
        """What was asked is not wanted any more."""
        self._asked = None

    def answer(self, question: Prepared, number: int) -> Sequence[Any] | None:
        """The rows, as :meth:`Prepared.rows` gives them; None if it was not asked, or there is no answer."""
        asked, self._asked = self._asked, None
        if asked != (question, number):
            return None
        try:
            self._wait()
            return question.fetched(self._cursor)
        except Exception as failure:
            # Whatever the driver raises.
            self._give_up(failure)
            return None

    def _connect(self) -> None:
        dialect = self._engine.dialect
        arguments, options = dialect.create_connect_args(self._engine.url)
        self._connection = dialect.loaded_dbapi.connect(*arguments, **options, async_=True)
        self._wait()
        self._cursor = self._connection.cursor()

    def _wait(self) -> None:
        """Until the database has done what it was asked.

        :raises TimeoutError: it is silent; and whatever psycopg2 raises
        """
        states = self._engine.dialect.loaded_dbapi.extensions
        while (state := self._connection.poll()) != states.POLL_OK:
            poller = select.poll()
            poller.register(self._connection.fileno(), select.POLLIN if state == states.POLL_READ else select.POLLOUT)
            if not poller.poll(PATIENCE_S * 1000):
                raise TimeoutError(f"no answer within {PATIENCE_S:g} s")

    def _give_up(self, failure: Exception) -> None:
        LOG.debug("Nothing is asked ahead for %g s: %s", REST_S, failure)
        self._rest_until = self._clock() + REST_S
        connection, self._connection, self._cursor = self._connection, None, None
        self._prepared = set()
        if connection is not None:
            connection.close()
