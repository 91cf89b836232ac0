# SPDX-License-Identifier: Apache-2.0
"""The times at which readings of nova's databases began, by the monotonic clock and by the wall clock.

Called by :mod:`scheduler.nova.feed`. A generation is a time of the monotonic clock in microseconds. So it never goes
back, and the two feeds of one cache can compare theirs. ``updated_at`` is a time of wall clocks. The watermark of a
reading is the time that this machine's wall clock showed at an earlier reading.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable

from fleet.clock import Clock, epoch_s, seconds, utcnow

_EPOCH = datetime.datetime(1970, 1, 1)
#: A step of the wall clock by less than this is ignored. It is less than the smallest overlap of two readings.
_STEP_S = 0.5
#: A watermark is lowered by this much at most: the full comparison has repaired what was missed before.
_MOST_LOWERED_S = 3600.0


@dataclasses.dataclass(frozen=True)
class _Step:
    """From this generation on, the wall clock was ``ahead_s`` ahead of the monotonic clock."""

    generation: int
    ahead_s: float


class ReadingTimes:
    """Not for use by several threads at once.

    While the wall clock is ahead, a watermark is too late, and readings miss changes. When the clock has gone back, the
    watermark is lowered: the next reading begins where the last one before the step has ended.
    """

    def __init__(self, clock: Clock = utcnow, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._ahead_s = 0.0
        #: In the order of their generations; each is further ahead than the one before.
        self._steps: list[_Step] = []

    def begin(self, newest: int) -> int:
        """Begin a reading, and return its generation. :param newest: that of the reading before"""
        now_s = self._monotonic()
        self._ahead_s = epoch_s(self._clock()) - now_s
        return max(round(now_s * 1e6), newest + 1)

    def watermark(self, since: int) -> datetime.datetime:
        """Return the time after which rows have changed that the reading of generation ``since`` has not found."""
        valid, doubted = self._judged()
        if doubted:
            since = min(since, max(doubted[0].generation, since - round(_MOST_LOWERED_S * 1e6)))
        earlier = [step.ahead_s for step in valid if step.generation <= since] or [step.ahead_s for step in valid[:1]]
        return _EPOCH + seconds(since / 1e6 + min([self._ahead_s, *earlier[-1:]]))

    def end(self, generation: int, full: bool) -> None:
        """Note that the reading has succeeded. :param full: it had no watermark"""
        valid, _doubted = self._judged()
        self._steps = [] if full else valid
        if not self._steps or self._ahead_s > self._steps[-1].ahead_s + _STEP_S:
            self._steps.append(_Step(generation, self._ahead_s))

    def _judged(self) -> tuple[list[_Step], list[_Step]]:
        """Return the steps, and apart from them those at which the clock was further ahead than it is now."""
        most_s = self._ahead_s + _STEP_S
        valid = [step for step in self._steps if step.ahead_s <= most_s]
        return valid, self._steps[len(valid) :]
