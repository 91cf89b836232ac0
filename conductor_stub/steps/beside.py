# SPDX-License-Identifier: Apache-2.0
"""Runs commands of the operator's beside the caller, a bounded number at a time.

The periodic tasks of recoveries and maintenances run fences and hooks in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Order = TypeVar("Order")
#: Runs it beside the caller.
Spawn = Callable[[Callable[[], object]], object]


class Beside:
    def __init__(self, most: int, spawn: Spawn) -> None:
        """:param most: works at a time; a further one is left to a later call, or to another process"""
        self._free = threading.BoundedSemaphore(most)
        self._spawn = spawn

    def begin(self, take: Callable[[], Order | None], work: Callable[[Order], object]) -> bool:
        """Take an order, and do the work for it beside the caller. Nothing is taken while as many as allowed are under way:
        False is returned then.

        :param take: returns None if there is nothing to do
        """
        if not self._free.acquire(blocking=False):
            return False
        is_begun = False
        try:
            order = take()
            if order is not None:
                self._spawn(lambda: self._do(work, order))
                is_begun = True
        finally:
            if not is_begun:
                self._free.release()
        return True

    def _do(self, work: Callable[[Order], object], order: Order) -> None:
        try:
            work(order)
        finally:
            self._free.release()
