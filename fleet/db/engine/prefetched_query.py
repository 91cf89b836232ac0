# SPDX-License-Identifier: Apache-2.0
"""A query that is sent before its rows are wanted, so that the caller works while the database runs it.

Only on PostgreSQL, with a connection of its own that psycopg2 does not block on. If anything goes wrong there are no rows:
the caller then runs the query in the usual way, which reports the error.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_log import log as logging

from fleet.db.connection.primary import Primary, Server
from fleet.db.engine.prepared_query import PreparedQuery

LOG = logging.getLogger(__name__)

#: Seconds after a failure in which nothing is sent, so that a database that is away does not slow down every request.
REST_S = 5.0
#: Seconds to wait for rows. Whoever waits for them keeps all other readers of the feed waiting.
TIMEOUT_S = 2.0


class PrefetchedQuery:
    """One query at a time. Not for use by several threads at once."""

    def __init__(
        self, engine: sa.Engine, primary: Primary | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """:param primary: where the engine connects, on PostgreSQL"""
        self._engine = engine
        self._primary = primary
        self._clock = clock
        self._rest_until = float("-inf") if engine.dialect.name == "postgresql" else float("inf")
        #: How many connections were lost so far.
        self.lost = 0
        self._connection: Any = None
        self._server: Server | None = None
        self._cursor: Any = None
        self._prepared: set[PreparedQuery] = set()
        #: The query that was sent last; None if its rows are not wanted any more.
        self._sent: tuple[PreparedQuery, int] | None = None

    def send(self, query: PreparedQuery, number: int) -> None:
        """Send the query and return at once."""
        if self._clock() < self._rest_until:
            return
        try:
            if self._connection is not None and self._newest() != self._server:
                self._close()
            if self._connection is None:
                self._connect()
            self._wait()  # for rows of a query that was discarded
            if query not in self._prepared:
                self._cursor.execute(query.preparation(self._engine.dialect))
                self._wait()
                self._prepared.add(query)
            self._cursor.execute(query.execution(number))
        except Exception as failure:
            # The driver may raise anything.
            self._give_up(failure)
        else:
            self._sent = query, number

    def discard(self) -> None:
        """The rows of the query that was sent are not wanted any more."""
        self._sent = None

    def rows(self, query: PreparedQuery, number: int) -> Sequence[Any] | None:
        """The rows, as :meth:`PreparedQuery.rows` returns them; None if another query was sent, or none, or it failed."""
        sent, self._sent = self._sent, None
        if sent != (query, number):
            return None
        try:
            self._wait()
            return query.fetched(self._cursor)
        except Exception as failure:
            # The driver may raise anything.
            self._give_up(failure)
            return None

    def _connect(self) -> None:
        dialect = self._engine.dialect
        arguments, options = dialect.create_connect_args(self._engine.url)
        self._server = self._newest()
        options = {**options, **(self._primary.address() if self._primary else {})}
        self._connection = dialect.loaded_dbapi.connect(*arguments, **options, async_=True)
        self._wait()
        self._cursor = self._connection.cursor()

    def _wait(self) -> None:
        """Wait until the database has run what was sent.

        :raises TimeoutError: it did not answer within TIMEOUT_S; and whatever psycopg2 raises
        """
        states = self._engine.dialect.loaded_dbapi.extensions
        while (state := self._connection.poll()) != states.POLL_OK:
            poller = select.poll()
            poller.register(self._connection.fileno(), select.POLLIN if state == states.POLL_READ else select.POLLOUT)
            if not poller.poll(TIMEOUT_S * 1000):
                raise TimeoutError(f"no answer within {TIMEOUT_S:g} s")

    def _give_up(self, failure: Exception) -> None:
        LOG.debug("No query is prefetched for %g s: %s", REST_S, failure)
        self._rest_until = self._clock() + REST_S
        self._close()

    def _newest(self) -> Server | None:
        """The server that is the primary: a session to another one shows old rows."""
        return self._primary.newest if self._primary else None

    def _close(self) -> None:
        connection, self._connection, self._cursor = self._connection, None, None
        self._prepared = set()
        if connection is not None:
            self.lost += 1
            connection.close()
