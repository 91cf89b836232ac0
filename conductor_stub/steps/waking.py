# SPDX-License-Identifier: Apache-2.0
"""Guests that found no host need not wait for their next try when a host has come into use.

The keepers of :mod:`conductor_stub.recovery` and :mod:`conductor_stub.maintenance` have one each.
"""

from __future__ import annotations

import datetime

from fleet.clock import seconds
from fleet.db.engine.database import Database
from fleet.db.hosts import services

#: Seconds after which all guests that wait are tried: schedulers know the room of a host some time after its first sign.
_AFTER_S = (0, 20, 60)


class Waking:
    """Remembers when this conductor last saw a host come into use."""

    def __init__(self) -> None:
        self._newest: int | None = None
        self._seen_at: datetime.datetime | None = None

    def look(self, database: Database, now: datetime.datetime, down_time_s: float) -> datetime.datetime | None:
        """Return since when each guest that waits must have been tried; None: no host has come into use."""
        newest = database.read(services.newest_in_use, now, down_time_s)
        has_come = self._newest is not None and newest > self._newest
        # Hosts that come and go let guests be tried no more often than one that comes.
        if has_come and (self._seen_at is None or now - self._seen_at >= seconds(_AFTER_S[1])):
            self._seen_at = now
        self._newest = max(newest, self._newest or 0)
        if self._seen_at is None:
            return None
        return max(self._seen_at + seconds(each) for each in _AFTER_S if self._seen_at + seconds(each) <= now)
