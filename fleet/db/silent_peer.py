# SPDX-License-Identifier: Apache-2.0
"""Cuts sessions that wait for a PostgreSQL server which hangs, or which is not the primary any more.

The kernel of a machine whose server hangs still answers for it, so keepalives find nothing, and libpq has no time limit for
an answer. A thread looks at the sessions once a second. If one has waited for its answer for ``limit_s``, the thread opens a
new connection, as a transaction would::

    it cannot be opened          the server hangs or is away: the session is cut
    it leads to another server   another one was promoted: the session is cut
    it leads to the same server  the statement takes long: the server's own time limit decides

A transaction whose session is cut fails like one that has lost its connection, and runs again.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from oslo_log import log as logging

LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 1.0
#: The start of a server and its address tell it from all others.
_WHO = "SELECT pg_postmaster_start_time()::text, inet_server_addr()::text, inet_server_port()"
#: libpq: a command is in progress.
_ACTIVE = 1
Who = tuple[Any, ...]


class SilentPeer:
    """Watches the sessions of an engine, from the first one on. ``_lock`` guards ``_sessions`` and ``_waiting_since``.

    :param limit_s: seconds of waiting after which a session is looked at
    :param clock: as ``time.monotonic``
    """

    def __init__(self, engine: sa.Engine, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._limit_s = limit_s
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: weakref.WeakKeyDictionary[Any, Who] = weakref.WeakKeyDictionary()
        self._waiting_since: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        sa.event.listen(engine, "connect", self._connected)
        sa.event.listen(engine, "engine_disposed", lambda _engine: self.stop())

    def stop(self) -> None:
        """End the thread. It begins again with the next session."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopped.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _connected(self, session: Any, _record: object) -> None:
        who = _who(session)
        with self._lock:
            self._sessions[session] = who
            if self._thread is None:
                self._stopped = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._stopped,), name="database-sessions", daemon=True
                )
                self._thread.start()

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.wait(_LOOK_EVERY_S):
            try:
                self.look()
            except Exception:
                LOG.exception("Sessions of the database are looked at again")

    def look(self) -> None:
        """Look at each session once, and cut those that wait in vain."""
        late = self._late()
        if not late:
            return
        try:
            who, reason = self._ask(), "another server answers"
        except self._engine.dialect.loaded_dbapi.Error as refused:
            who, reason = None, str(refused).strip().splitlines()[0][:200]
        for session, of_session in late.items():
            if who is None or who != of_session:
                LOG.warning("A session of the database is cut: no answer for %g s, and %s", self._limit_s, reason)
                self._cut(session)

    def _late(self) -> dict[Any, Who]:
        """Return the sessions that have waited for too long."""
        now, late = self._clock(), {}
        with self._lock:
            for session, who in list(self._sessions.items()):
                if session.closed or session.info.transaction_status != _ACTIVE:
                    self._waiting_since.pop(session, None)
                elif now - self._waiting_since.setdefault(session, now) >= self._limit_s:
                    late[session] = who
        return late

    def _ask(self) -> Who:
        """Open a connection and ask who the server is. :raises Exception: the driver's, within its time limits"""
        dialect = self._engine.dialect
        arguments, options = dialect.create_connect_args(self._engine.url)
        with contextlib.closing(dialect.loaded_dbapi.connect(*arguments, **options)) as session:
            return _who(session)

    def _cut(self, session: Any) -> None:
        """End both directions of the session's socket: whoever waits for it gets an error."""
        with self._lock:
            self._waiting_since.pop(session, None)
            if session.closed:
                return
            with contextlib.suppress(OSError, self._engine.dialect.loaded_dbapi.Error):
                copy = socket.socket(fileno=os.dup(session.fileno()))
                with copy:
                    copy.shutdown(socket.SHUT_RDWR)


def _who(session: Any) -> Who:
    with session.cursor() as cursor:
        cursor.execute(_WHO)
        found: Who = tuple(cursor.fetchone())
    session.rollback()
    return found
