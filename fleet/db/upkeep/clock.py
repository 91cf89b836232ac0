# SPDX-License-Identifier: Apache-2.0
"""The database's clock. All daemons use it for deadlines, leases and liveness, so that their own clocks do not matter."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections.abc import Callable

from fleet import errors
from fleet.clock import Clock, seconds, utcnow
from fleet.clock.skew import ClockSkew
from fleet.db.engine import now as db_now
from fleet.db.engine.database import Database

#: Seconds after which the database is read again; until then the monotonic clock goes on from the last reading. Also the
#: pause after a failed reading.
MOST_AGE_S = 1.0
#: Seconds by which wall clock and monotonic clock may differ since the last reading. Beyond that one of them was stepped, or
#: the machine was suspended.
STEP_S = 0.25


def of(database: Database) -> Clock:
    """A clock that reads the database at each call, for tools."""
    return lambda: database.read(db_now.read)


class LedgerClock:
    """A ``Clock`` that shows the database's time. Safe for any number of threads.

    A call adds the monotonic time since the last reading, which is at most :data:`MOST_AGE_S` old. A step of the wall
    clock therefore changes nothing, and a machine that was suspended reads again. :meth:`fresh` always reads, for sweeps
    and evacuations.

    :param reads: False for a process whose other statements return the time (:meth:`note`), such as those of the feed
    :param wall: this machine's own clock, to measure the skew
    """

    def __init__(
        self,
        database: Database,
        skew: ClockSkew,
        reads: bool = True,
        wall: Clock = utcnow,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self.skew = skew
        self._reads = reads
        self._wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        #: Time of the database, the monotonic clock and the wall clock, at the last reading.
        self._known: tuple[datetime.datetime, float, datetime.datetime] | None = None
        self._tried_at = float("-inf")
        self._readings_begun = 0

    def __call__(self) -> datetime.datetime:
        if self._is_old() and self._lock.acquire(blocking=False):
            try:
                self._read()
            finally:
                self._lock.release()
        return self._estimate()

    def fresh(self) -> datetime.datetime:
        """Read the database now; as :meth:`__call__` if it does not answer."""
        begun = self._readings_begun
        with self._lock:
            # Callers that waited for the same reading share its answer.
            if self._readings_begun == begun:
                self._read()
        return self._estimate()

    def note(self, now: datetime.datetime, took_s: float = 0.0) -> None:
        """Use the time ``now`` that a statement has returned, which took ``took_s`` and has just ended."""
        moment = self._monotonic() - took_s / 2
        wall = self._wall() - seconds(took_s / 2)
        self._known = now, moment, wall
        self.skew.note((wall - now).total_seconds(), took_s / 2)

    def _is_old(self) -> bool:
        known, now = self._known, self._monotonic()
        if now - self._tried_at >= MOST_AGE_S:
            return known is None or self._reads
        if known is None or not self._reads:
            return False
        passed_s = (self._wall() - known[2]).total_seconds()
        return abs(passed_s - (now - known[1])) > STEP_S

    def _read(self) -> None:
        self._readings_begun += 1
        self._tried_at = began = self._monotonic()
        with contextlib.suppress(errors.DatabaseError):
            now = self._database.read_once(db_now.read)
            self.note(now, self._monotonic() - began)

    def _estimate(self) -> datetime.datetime:
        """The machine's own clock is used only before the first reading."""
        known = self._known
        return self._wall() if known is None else known[0] + seconds(self._monotonic() - known[1])
