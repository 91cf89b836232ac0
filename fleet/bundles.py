# SPDX-License-Identifier: Apache-2.0
"""Entries of many threads that arrive while others are handled are handled together, by one of these threads.

Called by :mod:`conductor_stub.steps.group_commit`, which writes them in one transaction, and by :mod:`fleet.agent.batching`,
which sends them in one message.

::

    take ──▶ waiting ── no bundle is under way ──▶ one thread has all that wait ──▶ end: all of them are over
                    └── or for more than a second: one that is stuck delays no other
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

#: Entries of one bundle.
MOST = 32
#: Seconds after which a bundle that has not ended no longer delays others.
HOLDS_UP_S = 1.0


class Signal(Protocol):
    """The part of ``threading.Event`` that is used."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def wait(self, timeout: float | None = None) -> object: ...


class Entry:
    """:ivar woken: set when the entry is over, or when its thread may handle a bundle"""

    def __init__(self, woken: Signal) -> None:
        self.woken = woken
        self.taken = self.over = False


EntryT = TypeVar("EntryT", bound=Entry)


@dataclasses.dataclass(eq=False)
class Bundle(Generic[EntryT]):
    """:param began: by the clock of :class:`Bundles`"""

    entries: list[EntryT]
    began: float


class Bundles(Generic[EntryT]):
    """Thread-safe. The lock guards the waiting entries and the bundles that have not ended; nothing is handled under it.

    :param full_at_once: as many entries as a bundle holds wait for no other bundle
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, most: int = MOST, full_at_once: bool = False
    ) -> None:
        self._clock = clock
        self._most = most
        self._full_at_once = full_at_once
        self._lock = threading.Lock()
        self._waiting: list[EntryT] = []
        self._under_way: list[Bundle[EntryT]] = []

    def take(self, mine: EntryT) -> Bundle[EntryT] | None:
        """Wait until ``mine`` is over, and return None; or return a bundle with it, which this thread handles and ends."""
        mine.taken = mine.over = False
        with self._lock:
            self._waiting.append(mine)
        while not mine.over:
            held_up_s = None
            with self._lock:
                if not mine.taken:
                    held_up_s = self._held_up_s()
                    if not held_up_s:
                        return self._begin(mine)
            mine.woken.wait(held_up_s)
            mine.woken.clear()
        return None

    def end(self, bundle: Bundle[EntryT]) -> None:
        """Wake the threads of the bundle, and one that waits for its end."""
        with self._lock:
            self._under_way.remove(bundle)
            due = [*self._waiting[:1], *bundle.entries]
        for each in bundle.entries:
            each.over = True
        for each in due:
            each.woken.set()

    def _held_up_s(self) -> float:
        """Return the seconds for which no bundle may begin, at most."""
        if not self._under_way or (self._full_at_once and len(self._waiting) >= self._most):
            return 0.0
        return max(0.0, max(each.began for each in self._under_way) + HOLDS_UP_S - self._clock())

    def _begin(self, mine: EntryT) -> Bundle[EntryT]:
        # Any of the threads may be the first to see that it may begin: entries go in the order in which they arrived.
        entries = self._waiting[: self._most]
        if mine not in entries:
            entries[-1] = mine
        for each in entries:
            self._waiting.remove(each)
            each.taken = True
        begun = Bundle(entries, self._clock())
        self._under_way.append(begun)
        return begun
