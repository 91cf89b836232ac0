# SPDX-License-Identifier: Apache-2.0
"""How often a guest that keeps dying is started again: waits that double, and a number within a time."""

from __future__ import annotations

import collections
import dataclasses
import enum
import time
from collections.abc import Callable


class Next(enum.Enum):
    """The next step for a guest that does not run."""

    START = "start"
    WAIT = "wait"
    GIVE_UP = "give up"


@dataclasses.dataclass(frozen=True)
class Limits:
    """:param most: restarts within ``window_s`` seconds; 0: any number

    :param wait_s: seconds between the first restart and the second; it doubles with each restart in the window
    """

    most: int = 0
    window_s: float = 3600
    wait_s: float = 10


class Restarts:
    """The restarts of the guests of one process, by instance. Those of an earlier process are not known.

    :param clock: seconds that only grow
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._times: dict[str, collections.deque[float]] = {}

    def next(self, uuid: str) -> Next:
        """Return what to do now, and forget restarts from before the window."""
        now = self._clock()
        times = self._times.get(uuid, collections.deque())
        while times and times[0] <= now - self.limits.window_s:
            times.popleft()
        if not times:
            self._times.pop(uuid, None)
            return Next.START
        if self.limits.most and len(times) >= self.limits.most:
            return Next.GIVE_UP
        # The exponent is bounded: a float ends at 2^1023.
        wait_s = min(self.limits.wait_s * 2.0 ** min(len(times) - 1, 60), self.limits.window_s)
        return Next.START if now - times[-1] >= wait_s else Next.WAIT

    def count(self, uuid: str) -> int:
        """Return the number of restarts in the window."""
        return len(self._times.get(uuid, ()))

    def note(self, uuid: str) -> None:
        """The guest was started, or could not be."""
        # Without a limit only the newest matter: they set the wait.
        kept = self.limits.most or 64
        self._times.setdefault(uuid, collections.deque(maxlen=kept)).append(self._clock())

    def forget(self, uuid: str) -> None:
        self._times.pop(uuid, None)
