# SPDX-License-Identifier: Apache-2.0
"""The attempts that this process has spawned, so that a repeated order does not spawn one again.

Called by :mod:`compute_agent.work.build`. The ledger cannot decide that: until it has the report of an attempt's end,
the claim is valid, and an order for it looks like the first. The set ends with the process; the next one compares with
the ledger before it takes any order.
"""

from __future__ import annotations

import collections
import threading

#: Attempts that are stored: more than a host builds in an hour, and orders are repeated within minutes.
MOST = 4096


class SpawnedAttempts:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: collections.OrderedDict[tuple[str, int], None] = collections.OrderedDict()

    def __contains__(self, attempt: tuple[str, int]) -> bool:
        with self._lock:
            return attempt in self._attempts

    def add(self, instance_uuid: str, attempt: int) -> None:
        with self._lock:
            self._attempts[instance_uuid, attempt] = None
            while len(self._attempts) > MOST:
                self._attempts.popitem(last=False)
