# SPDX-License-Identifier: Apache-2.0
"""The file of decisions: an SQLite database that all scheduler processes of a machine share.

Called by :mod:`scheduler.compute.drivers.kept_decisions`. The file is no part of the ledger: no decision reads it, and
it may be deleted at any time. A scheduler only reads the ledger, and in the place of nova-scheduler there is none.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from oslo_log import log as logging

from fleet import json_codec
from fleet.json_codec import JSONObject
from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)
#: Decisions that wait to be written at most; further ones are left out.
MOST_WAITING = 10_000
#: Decisions of one answer, the newest.
MOST_SHOWN = 100
_DAY_S = 86_400
_PATIENCE_S = 10.0
_TABLE = """
CREATE TABLE IF NOT EXISTS decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, request_id TEXT NOT NULL, record TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS decisions_by_request ON decisions (request_id);
CREATE INDEX IF NOT EXISTS decisions_by_time ON decisions (at);
"""

_Entry = tuple[float, str, Callable[[], JSONObject]]


class DecisionStore:
    """Several threads use it. Records are made and written by a thread that lives while there are some.

    :param path: of the file, readable for its owner only: it has hosts and requests of all projects
    :param most: number of decisions that are kept
    :param clock: epoch seconds
    :param pause_s: how long decisions are collected that are written together
    """

    def __init__(self, path: str, most: int, keep_days: int, clock: Callable[[], float], pause_s: float = 0.5) -> None:
        self._path = path
        self._most = most
        self._keep_s = keep_days * _DAY_S
        self._clock = clock
        self._pause_s = pause_s
        self._waiting: queue.Queue[_Entry] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._is_writing = False
        self._full, self._broken = rate_limited_log.RateLimit(), rate_limited_log.RateLimit()

    def keep(self, request_id: str, make: Callable[[], JSONObject]) -> None:
        """Note a decision; returns at once. :param make: returns its record, and is called by the writing thread"""
        try:
            self._waiting.put_nowait((self._clock(), request_id, make))
        except queue.Full:
            if (left_out := self._full.due()) is not None:
                LOG.warning("%s is written too slowly: decisions are not kept (%d more)", self._path, left_out)
            return
        with self._lock:
            if not self._is_writing:
                self._begin()

    def _begin(self) -> None:
        """The thread takes the lock, which the caller has, before it looks whether it is wanted."""
        try:
            threading.Thread(target=self._write_all, name="decisions", daemon=True).start()
            self._is_writing = True
        except RuntimeError as failure:
            if (left_out := self._broken.due()) is not None:
                LOG.warning("Decisions wait to be written: %s (%d more)", failure, left_out)

    def of(self, request_id: str) -> Sequence[JSONObject]:
        """Return the records of a request, the oldest first. :raises OSError: the file cannot be read"""
        if not os.path.exists(self._path):
            return []
        query = "SELECT record FROM decisions WHERE request_id = ? ORDER BY id DESC LIMIT ?"
        with self._opened() as connection:
            rows = connection.execute(query, (request_id, MOST_SHOWN)).fetchall()
        try:
            return [json_codec.loads(text) for (text,) in reversed(rows)]
        except ValueError as damaged:
            raise OSError(f"{self._path} has a damaged record: {damaged}") from None

    def wait(self) -> None:
        """Return when everything is written, or was given up; for tests."""
        self._waiting.join()

    def _write_all(self) -> None:
        """Write the decisions that wait, and end when none does."""
        while True:
            time.sleep(self._pause_s)
            entries = self._taken()
            if not entries:
                return
            try:
                self._write(entries)
            except Exception as failure:
                # Whatever it is: schedulers go on deciding.
                if (left_out := self._broken.due()) is not None:
                    LOG.warning("Decisions cannot be kept: %s (%d more)", failure, left_out)
            for _entry in entries:
                self._waiting.task_done()

    def _taken(self) -> Sequence[_Entry]:
        with self._lock:
            entries: list[_Entry] = []
            with contextlib.suppress(queue.Empty):
                while len(entries) < MOST_WAITING:
                    entries.append(self._waiting.get_nowait())
            self._is_writing = bool(entries)
            return entries

    def _write(self, entries: Sequence[_Entry]) -> None:
        rows = [(at, request_id, text) for at, request_id, make in entries if (text := self._made(make))]
        with self._opened() as connection:
            connection.executemany("INSERT INTO decisions (at, request_id, record) VALUES (?, ?, ?)", rows)
            connection.execute("DELETE FROM decisions WHERE at < ?", (self._clock() - self._keep_s,))
            connection.execute("DELETE FROM decisions WHERE id <= (SELECT max(id) FROM decisions) - ?", (self._most,))

    def _made(self, make: Callable[[], JSONObject]) -> str:
        """Return the record as text; "" if it cannot be made, which spoils no other one."""
        try:
            return json_codec.dumps(make())
        except Exception as failure:
            if (left_out := self._broken.due()) is not None:
                LOG.warning("A decision cannot be kept: %s (%d more)", failure, left_out)
            return ""

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction. :raises OSError:"""
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        try:
            with contextlib.closing(sqlite3.connect(self._path, timeout=_PATIENCE_S)) as connection, connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.executescript(_TABLE)
                yield connection
        except sqlite3.Error as failure:
            raise OSError(f"{self._path}: {failure}") from None
