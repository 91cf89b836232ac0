# SPDX-License-Identifier: Apache-2.0
"""Group commit: what arrives while other items are being written goes with the next transaction (:mod:`fleet.bundles`).

A single item is written at once. Under load the conductor writes as many transactions as the database has time for. A
transaction that waits for a lock delays others for a second at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from oslo_log import log as logging

from fleet import errors
from fleet.bundles import MOST, Bundles, Entry, Signal

LOG = logging.getLogger(__name__)

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _Entry(Entry, Generic[Item, Answer]):
    """The items of one caller, and their answers when it is over."""

    def __init__(self, items: Sequence[Item], woken: Signal) -> None:
        super().__init__(woken)
        self.items = items
        self.answers: Sequence[Answer | Exception] = ()


class GroupCommit(Generic[Item, Answer]):
    """Thread-safe.

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
        self._signal = signal
        self._key = key
        self._bundles: Bundles[_Entry[Item, Answer]] = Bundles(clock, most)

    def write(self, item: Item) -> Answer:
        """:raises Exception: the error of the item, or of its transaction"""
        (answer,) = self.write_each([item])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def write_each(self, items: Sequence[Item]) -> Sequence[Answer | Exception]:
        """The answer or the error of each item, in their order."""
        mine: _Entry[Item, Answer] = _Entry(items, self._signal())
        bundle = self._bundles.take(mine)
        if bundle is not None:
            try:
                self._write(bundle.entries)
            finally:
                self._bundles.end(bundle)
        return mine.answers

    def _write(self, entries: Sequence[_Entry[Item, Answer]]) -> None:
        items = [item for each in entries for item in each.items]
        # Stays if this thread ends without an answer.
        answers: list[Answer | Exception] = [RuntimeError("The thread that wrote for all has ended")] * len(items)
        try:
            answers = self._together(items)
        except errors.DatabaseUnavailable as away:
            answers = [away] * len(items)
        finally:
            for each in entries:
                each.answers, answers = answers[: len(each.items)], answers[len(each.items) :]

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
