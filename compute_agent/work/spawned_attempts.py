# SPDX-License-Identifier: Apache-2.0
"""Which attempts have been spawned here: a repeated order must not spawn one again.

The ledger cannot tell: until it has heard that an attempt is over, its claim stands, and an order for it is as good as
the first. What is remembered ends with the process; after that the ledger is compared before any order is taken.
"""

from __future__ import annotations

import collections
import threading

#: Orders are repeated within minutes; a host has not so many builds in an hour.
MOST = 4096


class SpawnedAttempts:
    """Safe for any number of threads."""

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
