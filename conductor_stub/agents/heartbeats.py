# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of many services, written together.

Each that arrives while others are being written waits, and goes with the next write; the first of those that wait does it
for all. So one heartbeat by itself is written at once, and thousands a second take as few transactions as the database
has time for.

::

    heard ── lock ──▶ waiting ──▶ whoever takes the turn writes all that wait, in one transaction ──▶ each has its answer
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from fleet.clock import Clock
from fleet.db import services
from fleet.db.engine import Database
from fleet.db.services import Beat, Heard


class _Waiting:
    """A heartbeat and what became of it: its answer, or why it could not be written."""

    def __init__(self, beat: Beat) -> None:
        self.beat = beat
        self.answer: Heard | None = None
        self.failure: Exception | None = None


class Heartbeats:
    """Safe for any number of threads.

    :param turn: whoever is in it writes; for what runs in no threads of their own, such as the simulation
    """

    def __init__(
        self, database: Database, clock: Clock, turn: contextlib.AbstractContextManager[Any] | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._turn = turn or threading.Lock()
        self._waiting: list[_Waiting] = []

    def note(self, beat: Beat) -> Heard:
        """:raises Exception: what the database raised"""
        mine = _Waiting(beat)
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
            together, self._waiting = self._waiting, []
        try:
            answers = self._database.write(services.heartbeats, [each.beat for each in together], self._clock())
        except Exception as failure:
            for each in together:
                each.failure = failure
            return
        for each, answer in zip(together, answers, strict=True):
            each.answer = answer
