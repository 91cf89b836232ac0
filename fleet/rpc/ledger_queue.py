# SPDX-License-Identifier: Apache-2.0
"""The conductors' second queue, for heartbeats, reports and steps of agents: users' calls never delay them.

Conductors serve both queues, each with threads of its own. Conductors before API version 1.6 have one queue only. A
sender therefore falls back to the common queue: at once if this queue does not exist, and for the next message if a
call times out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

TOPIC = "conductor_ledger"
#: The version of the conductor's API that introduced this queue.
SINCE = "1.6"
#: Seconds before a queue that does not exist is tried again.
REST_S = 30.0


class Choice:
    """Decides whether the next message goes to this queue. Thread-safe."""

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
        """A call timed out. A downgraded conductor leaves its queue behind, so the next message goes to the common
        queue.
        """
        with self._lock:
            self._skips = 1
