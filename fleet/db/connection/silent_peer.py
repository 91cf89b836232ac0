# SPDX-License-Identifier: Apache-2.0
"""Cuts sessions that wait for a PostgreSQL server which hangs, or which is not the primary any more.

Called by :mod:`fleet.db.engine.database`. The kernel of a machine whose server hangs still answers for it, so
keepalives find nothing, and libpq has no time limit for an answer. A thread looks at the sessions once a second. If
one has waited for its answer for half of ``limit_s``, the thread opens new connections, to all servers of the URL::

    none can be opened              the server hangs or is away: the session is cut
    the primary is another server   another one was promoted: the session is cut
    the primary is the same server  the statement takes long: the server's own time limit decides

If the URL names several servers, it looks for the primary now and then in any case. A session of an older time line is cut
at once: see :mod:`.primary`. A transaction whose session is cut fails like one that has lost its connection, and runs again.
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

from fleet.db.connection.primary import Primary, Server

LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 1.0
#: libpq: a command is in progress.
_ACTIVE = 1


class SilentPeer:
    """Watches the sessions of an engine, from the first one on. ``_lock`` guards ``_sessions`` and ``_waiting_since``.

    :param primary: opens the sessions of the engine
    :param limit_s: seconds of waiting after which a session is cut
    :param clock: as ``time.monotonic``
    """

    def __init__(
        self, engine: sa.Engine, primary: Primary, limit_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._primary = primary
        #: The other half is for looking.
        self._limit_s = limit_s / 2
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: weakref.WeakKeyDictionary[Any, Server] = weakref.WeakKeyDictionary()
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

    def _connected(self, session: object, _record: object) -> None:
        server = self._primary.opened(session)
        with self._lock:
            self._sessions[session] = server
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
                LOG.exception("Checking the sessions of the database failed; it is repeated")

    def look(self) -> None:
        """Look at each session once, and cut those that wait in vain."""
        late = self._late()
        if late or self._primary.may_be_another(self._limit_s):
            answers, reason = self._ask()
            for session, server in late.items():
                if server != answers:
                    self._cut(session, f"no answer for {self._limit_s:g} s, and {reason}")
                else:
                    self._waits_from_now(session)
        for session in self._old():
            self._cut(session, "its server is not the primary any more")

    def _late(self) -> dict[Any, Server]:
        """Return the sessions that have waited for too long."""
        now, late = self._clock(), {}
        with self._lock:
            for session, server in list(self._sessions.items()):
                if session.closed or session.info.transaction_status != _ACTIVE:
                    self._waiting_since.pop(session, None)
                elif now - self._waiting_since.setdefault(session, now) >= self._limit_s:
                    late[session] = server
        return late

    def _waits_from_now(self, session: object) -> None:
        with self._lock:
            self._waiting_since[session] = self._clock()

    def _old(self) -> list[Any]:
        newest = self._primary.newest
        with self._lock:
            return [session for session, server in self._sessions.items() if server.is_older_than(newest)]

    def _ask(self) -> tuple[Server | None, str]:
        """Open new connections within their time limits; return the primary, or None, and what was found."""
        try:
            session, server = self._primary.find()
        except self._engine.dialect.loaded_dbapi.Error as refused:
            return None, (str(refused).strip().splitlines() or ["no reason"])[0][:200]
        session.close()
        return server, "another server answers"

    def _cut(self, session: Any, reason: str) -> None:
        """End both directions of the session's socket: a thread that waits for it gets an error."""
        LOG.warning("A session of the database is cut: %s", reason)
        with self._lock:
            self._waiting_since.pop(session, None)
            self._sessions.pop(session, None)
            if session.closed:
                return
            with contextlib.suppress(OSError, self._engine.dialect.loaded_dbapi.Error):
                copy = socket.socket(fileno=os.dup(session.fileno()))
                with copy:
                    copy.shutdown(socket.SHUT_RDWR)
