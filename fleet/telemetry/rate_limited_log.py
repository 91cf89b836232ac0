# SPDX-License-Identifier: Apache-2.0
"""A rate limit for log lines: one line a minute of each kind, with the number of suppressed lines.

Called where an outage would repeat a line: connections, admission of messages, periodic tasks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: Seconds between two lines of one kind.
LINE_EVERY_S = 60.0
#: Kinds that are stored. Further kinds share one entry, so that text from messages cannot fill the memory.
MOST_KINDS = 128
_OTHERS = "others"


class RateLimit:
    """Decides whether a line is due. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, every_s: float = LINE_EVERY_S) -> None:
        self._clock = clock
        self._every_s = every_s
        self._lock = threading.Lock()
        #: By kind: when the next line is due, and how many were suppressed since the last one.
        self._kinds: dict[str, tuple[float, int]] = {}

    def due(self, kind: str = "") -> int | None:
        """Return the number of lines of this kind that were suppressed since the last one; None if this line is
        suppressed, too.
        """
        with self._lock:
            if kind not in self._kinds and len(self._kinds) >= MOST_KINDS:
                kind = _OTHERS
            now = self._clock()
            due_at, left_out = self._kinds.get(kind, (now, 0))
            if now < due_at:
                self._kinds[kind] = due_at, left_out + 1
                return None
            self._kinds[kind] = now + self._every_s, 0
            return left_out
