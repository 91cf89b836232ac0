# SPDX-License-Identifier: Apache-2.0
"""The queue of conductors for heartbeats, reports and steps of agents: users' calls never stand before them.

Conductors take both queues, each with threads of its own. Conductors before API version 1.6 have one queue only, so a
sender falls back to that one: at once if the ledger's queue does not exist, and for the next message if nobody answered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

TOPIC = "conductor_ledger"
#: The version of the conductor's API that brought it.
SINCE = "1.6"
#: Seconds for which a queue that does not exist is not tried again.
REST_S = 30.0


class Choice:
    """Whether the next message goes to the ledger's queue. Safe for any number of threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._rest_until = float("-inf")
        self._skips = 0

    def wants_it(self) -> bool:
        with self._lock:
            if self._skips:
                self._skips -= 1
                return False
            return self._clock() >= self._rest_until

    def missing(self) -> None:
        """No conductor has declared the queue."""
        with self._lock:
            self._rest_until = self._clock() + REST_S

    def silent(self) -> None:
        """No answer in time. A conductor that was downgraded has left its queue behind: try the common one next."""
        with self._lock:
            self._skips = 1
