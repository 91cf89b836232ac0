# SPDX-License-Identifier: Apache-2.0
"""Lets one of the threads that wait for messages read the connection, for all of them.

A caller that reads gets its reply in its own thread, without waking another thread. A reader that has received its
reply passes the turn to another thread that waits::

    caller A   publishes ── reads ──▶ its reply ── passes the turn
    caller B   publishes ── waits ─────────────────▶ reads ──▶ its reply
    driver     waits for the broker beside them, and reads what comes while no caller does

Called by :mod:`fleet.rpc.rabbit.lean.driver` and :mod:`fleet.rpc.rabbit.lean.outgoing`.
"""

from __future__ import annotations

import enum
import queue
import threading
import time
from collections.abc import Callable

import amqp

from fleet.rpc.rabbit.lean import wire
from fleet.rpc.rabbit.lean.link import LOST, Link
from fleet.rpc.rabbit.lean.publication import Outcome

#: Seconds for which the driver's thread leaves the connection to callers, after something has come.
_QUIET_S = 0.2
#: Seconds of one wait without a deadline.
_LONG_S = 3600.0


class _Turn(enum.Enum):
    """Put into the queue of a thread that waits: it shall read the connection now."""

    YOURS = "yours"


Arrivals = queue.SimpleQueue[wire.Reply | Outcome | _Turn]


class Reading:
    """Thread-safe. The lock guards the turn and the list of those that wait.

    :param current: returns the open connection, or None
    :param lost: called with a connection that is lost, and the error
    """

    def __init__(self, current: Callable[[], Link | None], lost: Callable[[Link, BaseException], None]) -> None:
        self._current = current
        self._lost = lost
        self._lock = threading.Lock()
        #: The queue of the thread whose turn it is, and those of the threads that wait for theirs.
        self._reader: Arrivals | None = None
        self._waiting: dict[Arrivals, None] = {}

    def receive(self, arrived: Arrivals, deadline: float | None) -> wire.Reply | Outcome:
        """Return the next reply or outcome for a caller. Its thread reads the connection meanwhile, if no other does.

        :param deadline: as ``time.monotonic``; None for ever
        :raises queue.Empty: nothing came in time
        """
        try:
            while True:
                link = self._take_turn(arrived)
                while link is not None and link is self._current() and arrived.empty() and _left_s(deadline) > 0:
                    self._read(link, _left_s(deadline))
                if link is not None:
                    self._pass_turn(arrived)
                    if link is not self._current():
                        continue
                found = arrived.get(timeout=None if deadline is None else _left_s(deadline))
                if not isinstance(found, _Turn):
                    return found
        finally:
            self._pass_turn(arrived)

    def attend(self, link: Link, wanted: threading.Event, due: Callable[[], bool]) -> None:
        """Read the connection while no caller does, until it is lost, ``wanted`` is set, or something else is due."""
        while not wanted.is_set() and link is self._current() and not due():
            self._read(link, link.tick_s)
            if self._reader is not None:
                link.wake()  # what was read may be for the caller that waits for the connection
            wanted.wait(_QUIET_S)

    def _take_turn(self, arrived: Arrivals) -> Link | None:
        """Return the connection to read; None if another thread reads it, or there is none. Then the caller waits."""
        with self._lock:
            link = self._current()
            if self._reader in (None, arrived) and link is not None:
                self._reader = arrived
                self._waiting.pop(arrived, None)
                return link
            if self._reader is arrived:
                self._reader = None
            self._waiting[arrived] = None
            return None

    def _pass_turn(self, arrived: Arrivals) -> None:
        """End the turn of a reader, or its waiting for it."""
        with self._lock:
            self._waiting.pop(arrived, None)
            if self._reader is arrived:
                self._reader = next(iter(self._waiting), None)
                if self._reader is not None:
                    del self._waiting[self._reader]
                    self._reader.put(_Turn.YOURS)

    def _read(self, link: Link, timeout_s: float) -> None:
        """Wait for the broker, and read the frames that have arrived."""
        try:
            if link.wait(min(timeout_s, link.tick_s)):
                link.read()
            link.heartbeat()
            if not link.connection.connected:
                raise amqp.ConnectionError("the broker has closed the connection")
        except LOST as lost:
            self._lost(link, lost)


def _left_s(deadline: float | None) -> float:
    return _LONG_S if deadline is None else max(0.0, deadline - time.monotonic())
