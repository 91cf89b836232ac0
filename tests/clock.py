# SPDX-License-Identifier: Apache-2.0
"""Clocks that a test sets."""

from __future__ import annotations

import datetime


class FakeClock:
    """Callable like ``fleet.clock.utcnow``."""

    def __init__(self, now: datetime.datetime | None = None) -> None:
        self.now = now or datetime.datetime(2026, 1, 1, 12, 0, 0)

    def __call__(self) -> datetime.datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += datetime.timedelta(seconds=seconds)


class Time:
    """Like ``time.monotonic``, or the module; ``sleep`` moves it on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def monotonic(self) -> float:
        return self.now
