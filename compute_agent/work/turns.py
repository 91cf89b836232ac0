# SPDX-License-Identifier: Apache-2.0
"""Work of a driver on one instance waits for earlier work on it that took too long, and may still run.

Used for power tasks and attachments. Orders of an instance follow each other anyway; only abandoned work does not end.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from fleet.agent import time_limit


class Turns:
    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[str, threading.Lock] = weakref.WeakValueDictionary()

    def alone(self, instance_uuid: str, work: Callable[[], None]) -> Callable[[], None]:
        """Return ``work`` so that it has the instance for itself; work that was abandoned while it waited does nothing."""
        lock = self._locks.setdefault(instance_uuid, threading.Lock())

        def run() -> None:
            with lock:
                time_limit.require_wanted()
                work()

        return run
