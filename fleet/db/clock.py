# SPDX-License-Identifier: Apache-2.0
"""The database's clock. Deadlines, leases and liveness of all daemons go by it, whatever their machines' clocks show."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections.abc import Callable

from fleet import errors
from fleet.clock import Clock, seconds, utcnow
from fleet.clock.skew import ClockSkew
from fleet.db import now as db_now
from fleet.db.engine import Database

#: A reading may be so old; the monotonic clock adds what has passed since. Also the pause after one that failed.
MOST_AGE_S = 1.0
#: Wall clock and monotonic clock have parted by so much since the reading: one of them was stepped, or the machine slept.
STEP_S = 0.25


def of(database: Database) -> Clock:
    """Reads the database's time at each call, for tools that ask seldom."""
    return lambda: database.read(db_now.read)


class LedgerClock:
    """A ``Clock`` that shows the database's time. Safe for any number of threads.

    Calling it costs nothing: it goes on from a reading that is at most :data:`MOST_AGE_S` old, by the monotonic clock.
    So a step of the wall clock changes nothing, and a machine that slept reads anew. :meth:`fresh` reads now, for what
    must not go by a second ago: sweeps and evacuations.

    :param reads: False for a process whose statements bring the time along (:meth:`note`), such as the feed's
    :param wall: this machine's own clock, which is only compared
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
        #: The database's time, with the monotonic and the wall clock's at that moment.
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
        """As the database shows it now; as :meth:`__call__` if it does not answer."""
        begun = self._readings_begun
        with self._lock:
            # Callers that waited together for a silent database take one answer.
            if self._readings_begun == begun:
                self._read()
        return self._estimate()

    def note(self, now: datetime.datetime, took_s: float = 0.0) -> None:
        """A statement that took ``took_s`` and has just ended brought the database's time along."""
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
        """Before the first reading, and only then, the machine's own clock."""
        known = self._known
        return self._wall() if known is None else known[0] + seconds(self._monotonic() - known[1])
