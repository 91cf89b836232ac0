# SPDX-License-Identifier: Apache-2.0
"""Entries that arrive while others are handled. The users' tests have the rest: group commit and batches of steps."""

from __future__ import annotations

import threading
from concurrent import futures

from fleet.bundles import Bundles, Entry

WAIT_S = 60


class Patient:
    """A signal that waits for :meth:`set` alone, however long the caller wanted to wait."""

    def __init__(self) -> None:
        self.waits = threading.Event()
        self._is_set = threading.Event()

    def set(self) -> None:
        self._is_set.set()

    def clear(self) -> None:
        self._is_set.clear()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.set()
        assert self._is_set.wait(WAIT_S), "nothing has woken the thread that waits"
        return True


def test_the_end_of_a_bundle_wakes_one_that_waits() -> None:
    """It does not depend on the time limit of its wait."""
    bundles: Bundles[Entry] = Bundles(lambda: 0.0)
    signal = Patient()
    first, second = Entry(Patient()), Entry(signal)
    begun = bundles.take(first)
    assert begun is not None
    with futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bundles.take, second)
        assert signal.waits.wait(WAIT_S)
        bundles.end(begun)
        following = waiting.result(2 * WAIT_S)
    assert following is not None
    assert ([first], [second], True, False) == (begun.entries, following.entries, first.over, second.over)


def test_an_entry_that_another_thread_has_taken_is_over_with_its_bundle() -> None:
    """Its own thread handles nothing."""
    bundles: Bundles[Entry] = Bundles(lambda: 0.0)
    signals = [Patient() for _each in range(3)]
    first, second, third = map(Entry, signals)
    begun = bundles.take(first)
    assert begun is not None
    with futures.ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(bundles.take, second)
        assert signals[1].waits.wait(WAIT_S)
        other = pool.submit(bundles.take, third)
        assert signals[2].waits.wait(WAIT_S)
        bundles.end(begun)
        following = waiting.result(2 * WAIT_S)
        assert following is not None
        bundles.end(following)
        assert other.result(2 * WAIT_S) is None
    assert ([second, third], True) == (following.entries, third.over)
