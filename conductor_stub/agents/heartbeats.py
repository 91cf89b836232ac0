# SPDX-License-Identifier: Apache-2.0
"""Group commit of heartbeats: those that arrive while others are being written go with the next transaction.

The first thread that gets its turn writes for all that wait, and each takes its own answer. A single heartbeat is written
at once; thousands a second take as few transactions as the database has time for.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from fleet.clock import Clock
from fleet.db import heartbeats
from fleet.db.engine import Database
from fleet.db.heartbeats import Heartbeat, HeartbeatAnswer


class _Waiting:
    """A heartbeat with its answer, or with the error that kept it from being written."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self.heartbeat = heartbeat
        self.answer: HeartbeatAnswer | None = None
        self.failure: Exception | None = None


class Heartbeats:
    """Safe for any number of threads. The lock guards the list of heartbeats that wait.

    :param turn: held while writing; the simulation, which has no threads, passes its own
    """

    def __init__(
        self, database: Database, clock: Clock, turn: contextlib.AbstractContextManager[Any] | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._turn = turn or threading.Lock()
        self._waiting: list[_Waiting] = []

    def write(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """:raises Exception: what the database raised"""
        mine = _Waiting(heartbeat)
        with self._lock:
            self._waiting.append(mine)
        with self._turn:
            if mine.answer is None and mine.failure is None:
                self._write_all()
        if mine.failure is not None:
            raise mine.failure
        assert mine.answer is not None
        return mine.answer

    def _write_all(self) -> None:
        with self._lock:
            group, self._waiting = self._waiting, []
        try:
            answers = self._database.write(heartbeats.write, [each.heartbeat for each in group], self._clock())
        except Exception as failure:
            for each in group:
                each.failure = failure
            return
        for each, answer in zip(group, answers, strict=True):
            each.answer = answer
