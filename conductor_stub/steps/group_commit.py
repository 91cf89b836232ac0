# SPDX-License-Identifier: Apache-2.0
"""Group commit: what arrives while other items are being written goes with the next transaction.

::

    write ──▶ waiting ── nothing is being written ──▶ one thread writes all that wait ──▶ each gets its answer or error
                     └── or for more than a second: a transaction that waits for a lock delays no other

A single item is written at once. Under load the conductor writes as many transactions as the database has time for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from oslo_log import log as logging

from fleet import errors

LOG = logging.getLogger(__name__)

Item = TypeVar("Item")
Answer = TypeVar("Answer")

#: Callers whose items go into one transaction.
MOST = 32
#: Seconds after which a transaction that has not ended no longer delays others.
HOLDS_UP_S = 1.0


class Signal(Protocol):
    """The part of ``threading.Event`` that is used."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def wait(self, timeout: float | None = None) -> object: ...


class _Entry(Generic[Item, Answer]):
    """The items of one caller. ``woken`` is set when they are over, or when its thread may write."""

    def __init__(self, items: Sequence[Item], woken: Signal) -> None:
        self.items = items
        self.woken = woken
        self.taken = self.over = False
        #: When its transaction began, if its thread writes.
        self.began = 0.0
        self.answers: Sequence[Answer | Exception] = ()


class GroupCommit(Generic[Item, Answer]):
    """Thread-safe. The lock guards the waiting entries and the list of transactions; nothing is written under it.

    One item fails no other: if the transaction of several is refused, each is written alone. Only if the database is away
    all of them fail, because it is then unknown what was written.

    :param write_all: writes items in one transaction; returns the answer or the error of each, in their order
    :param most: callers whose items go into one transaction
    :param key: items with equal keys are written alone, one after the other
    """

    def __init__(
        self,
        write_all: Callable[[Sequence[Item]], Sequence[Answer | Exception]],
        clock: Callable[[], float] = time.monotonic,
        signal: Callable[[], Signal] = threading.Event,
        most: int = MOST,
        key: Callable[[Item], Hashable] = id,
    ) -> None:
        self._write_all = write_all
        self._clock = clock
        self._signal = signal
        self._most = most
        self._key = key
        self._lock = threading.Lock()
        self._waiting: list[_Entry[Item, Answer]] = []
        #: When each transaction that has not ended began.
        self._writing: list[float] = []

    def write(self, item: Item) -> Answer:
        """:raises Exception: the error of the item, or of its transaction"""
        (answer,) = self.write_each([item])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def write_each(self, items: Sequence[Item]) -> Sequence[Answer | Exception]:
        """The answer or the error of each item, in their order."""
        mine: _Entry[Item, Answer] = _Entry(items, self._signal())
        with self._lock:
            self._waiting.append(mine)
        while not mine.over:
            group, wait_s = self._next(mine)
            if group:
                self._write(group, mine.began)
            else:
                mine.woken.wait(wait_s)
                mine.woken.clear()
        return mine.answers

    def _next(self, mine: _Entry[Item, Answer]) -> tuple[list[_Entry[Item, Answer]], float | None]:
        """The entries to write now, ``mine`` among them; or none, and the longest time to wait."""
        with self._lock:
            if mine.taken:
                return [], None
            now = self._clock()
            held_up_s = max(self._writing) + HOLDS_UP_S - now if self._writing else 0.0
            if held_up_s > 0:
                return [], held_up_s
            # Any of them may be the first to see that it may write: the items go in the order in which they arrived.
            group = self._waiting[: self._most]
            if mine not in group:
                group[-1] = mine
            for each in group:
                self._waiting.remove(each)
                each.taken = True
            self._writing.append(now)
            mine.began = now
            return group, None

    def _write(self, group: list[_Entry[Item, Answer]], began: float) -> None:
        items = [item for each in group for item in each.items]
        # Stays if this thread ends without an answer.
        answers: list[Answer | Exception] = [RuntimeError("The thread that wrote for all has ended")] * len(items)
        try:
            answers = self._together(items)
        except errors.DatabaseUnavailable as away:
            answers = [away] * len(items)
        finally:
            self._end(group, began, answers)

    def _together(self, items: Sequence[Item]) -> list[Answer | Exception]:
        if 1 < len(items) == len(set(map(self._key, items))):
            try:
                return list(self._write_all(items))
            except errors.DatabaseUnavailable:
                raise
            except Exception as failure:
                LOG.debug("Of %d items at least one is refused (%s): each is written alone", len(items), failure)
        return [self._alone(item) for item in items]

    def _alone(self, item: Item) -> Answer | Exception:
        try:
            (answer,) = self._write_all([item])
        except errors.DatabaseUnavailable:
            raise
        except Exception as failure:
            return failure
        return answer

    def _end(self, group: list[_Entry[Item, Answer]], began: float, answers: list[Answer | Exception]) -> None:
        for each in group:
            each.answers, answers = answers[: len(each.items)], answers[len(each.items) :]
            each.over = True
        with self._lock:
            self._writing.remove(began)
            following = self._waiting[:1]
        for each in (*following, *group):
            each.woken.set()
