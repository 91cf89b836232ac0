# SPDX-License-Identifier: Apache-2.0
"""Counts the restarts of guests for an agent whose conductors are too old to count them.

Called by :mod:`compute_agent.main` and :mod:`compute_agent.work.power_sync`. Newer conductors count in the ledger,
where a restart of the agent loses nothing.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

from fleet.objects.guest_restarts import Next, RestartLimits


class Restarts:
    """The restarts of the guests of one process, by instance. Those of an earlier process are not known.

    :param clock: seconds that only grow
    """

    def __init__(self, limits: RestartLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._times: dict[str, collections.deque[float]] = {}

    def next(self, uuid: str) -> Next:
        """Return the next step, and forget restarts from before the window."""
        now = self._clock()
        times = self._times.get(uuid, collections.deque())
        while times and times[0] <= now - self.limits.window_s:
            times.popleft()
        if not times:
            self._times.pop(uuid, None)
        return self.limits.next([now - each for each in times])

    def count(self, uuid: str) -> int:
        """Return the number of restarts in the window."""
        return len(self._times.get(uuid, ()))

    def note(self, uuid: str) -> None:
        """The guest was started, or could not be."""
        kept = self.limits.remembered
        self._times.setdefault(uuid, collections.deque(maxlen=kept)).append(self._clock())
