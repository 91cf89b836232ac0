# SPDX-License-Identifier: Apache-2.0
"""Connects to the primary among several PostgreSQL servers, and to no primary that was replaced.

A URL may name several servers with ``target_session_attrs=read-write``. libpq tries them in their order, so a server that
hangs costs each connection its time limit. It also stays with a primary that was replaced while it hung and has come back:
this server still accepts statements, its rows are old, and its commits wait for standbys for ever.

So this process notes which server had the newest time line, which a promotion makes newer, and begins with it. A session on
an older time line of the same database system is refused. Two servers of different systems cannot be compared.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import weakref
from collections.abc import Mapping
from concurrent import futures
from typing import Any

import sqlalchemy as sa
from oslo_log import log as logging

LOG = logging.getLogger(__name__)
#: The start time and the address of a server identify it.
_WHO = "SELECT pg_postmaster_start_time()::text, inet_server_addr()::text, inet_server_port()"
#: A time line is known on a primary only.
_WHICH = f"""{_WHO},
  (SELECT system_identifier FROM pg_control_system()),
  CASE WHEN NOT pg_is_in_recovery() THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END"""


@dataclasses.dataclass(frozen=True)
class Server:
    """The properties of a database server that a session has read."""

    started_at: str
    address: str | None
    port: int | None
    system: int | None = None
    time_line: int | None = None

    def is_older_than(self, other: Server | None) -> bool:
        """Return True if ``other`` has replaced this server as the primary."""
        if other is None or self.system != other.system or self.time_line is None or other.time_line is None:
            return False
        return self.time_line < other.time_line


class Primary:
    """Opens sessions for an engine. ``_lock`` guards ``_newest`` and ``_place``."""

    def __init__(self, engine: sa.Engine) -> None:
        self._driver: Any = engine.dialect.loaded_dbapi
        arguments, self._options = engine.dialect.create_connect_args(engine.url)
        self._arguments = tuple(arguments)
        self._lock = threading.Lock()
        self._newest: Server | None = None
        #: Host and port of the newest, as the URL has them.
        self._place: tuple[str, str] | None = None
        self._places = _places(self._options)
        #: Of sessions that are being opened for the pool.
        self._opened: weakref.WeakKeyDictionary[Any, Server] = weakref.WeakKeyDictionary()
        self._found_at = time.monotonic()
        sa.event.listen(engine, "do_connect", lambda _dialect, _record, _arguments, _options: self.connect()[0])

    @property
    def newest(self) -> Server | None:
        """The primary with the newest time line that this process has found."""
        return self._newest

    def opened(self, session: object) -> Server:
        """The server of a session that this has opened."""
        return self._opened[session]

    def may_be_another(self, after_s: float) -> bool:
        """Return True if the primary may be another server: there are several, and none was looked for lately."""
        return len(self._places) > 1 and time.monotonic() - self._found_at >= after_s

    def connect(self) -> tuple[Any, Server]:
        """Open a session, first at the server that was the primary last. :raises Exception: the driver's"""
        place = self._place
        if place is not None and len(self._places) > 1:
            with contextlib.suppress(self._driver.Error):
                return self._open(place)
            return self.find()
        return self._open()

    def find(self) -> tuple[Any, Server]:
        """Open sessions on all servers at once, and return the one with the newest time line.

        :raises Exception: the driver's, if no server accepts a session
        """
        self._found_at = time.monotonic()
        if len(self._places) < 2:
            return self._open()
        with futures.ThreadPoolExecutor(len(self._places)) as threads:
            attempts = [threads.submit(self._open, place) for place in self._places]
        found = [attempt.result() for attempt in attempts if attempt.exception() is None]
        if not found:
            raise next(failure for attempt in attempts if (failure := attempt.exception()) is not None)
        found.sort(key=lambda each: each[1].time_line or 0)
        for session, _server in found[:-1]:
            session.close()
        return found[-1]

    def _open(self, place: tuple[str, str] | None = None) -> tuple[Any, Server]:
        options = {**self._options, **({"host": place[0], "port": place[1]} if place else {})}
        session = self._driver.connect(*self._arguments, **options)
        try:
            server = _who(session, self._driver)
            self._note(server, (session.info.host, str(session.info.port)))
        except BaseException:
            session.close()
            raise
        self._opened[session] = server
        return session, server

    def _note(self, server: Server, place: tuple[str, str]) -> None:
        """:raises OperationalError: the server is not the primary any more"""
        with self._lock:
            if self._newest is not None and server.is_older_than(self._newest):
                problem = (
                    f"{place[0]}, port {place[1]} is not the primary any more: its time line is {server.time_line}"
                )
                raise self._driver.OperationalError(f"{problem}, another server had {self._newest.time_line}")
            if self._newest is not None and self._newest.is_older_than(server):
                LOG.warning("The database has another primary: %s, port %s", *place)
            self._newest, self._place = server, place


def _places(options: Mapping[str, object]) -> list[tuple[str, str]]:
    """Hosts and ports of a URL, as libpq reads them."""
    hosts = str(options.get("host") or "").split(",")
    ports = str(options.get("port") or "").split(",")
    return list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True))


def _who(session: Any, driver: Any) -> Server:
    try:
        return Server(*_row(session, _WHICH))
    except driver.OperationalError:
        raise
    except driver.DatabaseError:
        # A service that is compatible with PostgreSQL may refuse these functions.
        session.rollback()
        return Server(*_row(session, _WHO))


def _row(session: Any, statement: str) -> Any:
    with session.cursor() as cursor:
        cursor.execute(statement)
        found = cursor.fetchone()
    session.rollback()
    return found
