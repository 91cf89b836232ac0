# SPDX-License-Identifier: Apache-2.0
"""Items that arrive while others are being written share the next transaction, and each has an answer of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from typing import Any

import pytest

from conductor_stub.steps.group_commit import GroupCommit
from fleet import bundles, errors

WAIT_S = 120
REFUSED = LookupError("refused")


class HeldTransactions:
    """Transactions wait until they are let go; ``written`` holds the items of each. The item ``refused`` is refused."""

    def __init__(self, pool: futures.Executor) -> None:
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)
        self.written: list[list[str]] = []
        #: What transactions of several items fail with.
        self.failure: BaseException | None = None
        self.now = 0.0
        self.together: GroupCommit[str, str] = GroupCommit(self._write_all, lambda: self.now)
        self._pool = pool

    def _write_all(self, items: Sequence[str]) -> list[str | Exception]:
        self.written.append(list(items))
        self.begun.release()
        assert self.let_go.acquire(timeout=WAIT_S)
        if self.failure is not None and len(items) > 1:
            raise self.failure
        if self.failure is not None and "worse" in items:
            raise self.failure
        return [REFUSED if item == "refused" else f"{item} is written" for item in items]

    def write(self, *items: str) -> list[futures.Future]:
        """Each item in a thread of its own; return when it waits or is being written."""
        return [self._begun(self.together.write, item) for item in items]

    def write_each(self, *items: str) -> futures.Future:
        """All in one thread."""
        return self._begun(self.together.write_each, items)

    def _begun(self, write: Any, what: Any) -> futures.Future:
        transactions, before = len(self.written), self.waiting()
        begun = self._pool.submit(write, what)
        while self.waiting() == before and len(self.written) == transactions:
            # A thread that only looks keeps the lock and the interpreter from those that it waits for.
            time.sleep(0.001)
        return begun

    def waiting(self) -> int:
        """Those that wait for a transaction; one that is to be written now waits for a moment, too."""
        with self.together._bundles._lock:
            return len(self.together._bundles._waiting) if self.together._bundles._under_way else 0

    def under_way(self, transactions: int) -> None:
        """Wait until so many more have begun."""
        for _each in range(transactions):
            assert self.begun.acquire(timeout=WAIT_S)

    def end(self, transactions: int) -> None:
        self.let_go.release(transactions)


@pytest.fixture
def world() -> Iterator[HeldTransactions]:
    with futures.ThreadPoolExecutor(80) as pool:
        world = HeldTransactions(pool)
        yield world
        # A test that fails must end, too.
        world.end(1000)


def answers(writes: list[futures.Future]) -> list[Any]:
    return [each.exception(WAIT_S) or each.result() for each in writes]


def test_an_item_alone_is_written_at_once(world: HeldTransactions) -> None:
    """And so is the next one."""
    world.end(2)
    assert ["a is written"] == answers(world.write("a"))
    assert ["b is written"] == answers(world.write("b"))
    assert [["a"], ["b"]] == world.written


def test_items_that_arrive_meanwhile_share_the_next_transaction(world: HeldTransactions) -> None:
    """In the order in which they arrived."""
    writes = world.write("a", "b", "c", "d")
    world.end(2)
    assert [f"{item} is written" for item in "abcd"] == answers(writes)
    assert [["a"], ["b", "c", "d"]] == world.written


def test_whoever_wakes_first_writes_in_the_order_of_arrival(world: HeldTransactions) -> None:
    writes = world.write("a", "b", "c", "d")
    world.now += bundles.HOLDS_UP_S + 0.1
    world.together._bundles._waiting[1].woken.set()
    world.under_way(2)
    world.end(2)
    assert [f"{item} is written" for item in "abcd"] == answers(writes)
    assert [["a"], ["b", "c", "d"]] == world.written


def test_one_that_does_not_fit_into_the_next_transaction_writes_with_the_first(world: HeldTransactions) -> None:
    """It has the thread that writes."""
    world.together._bundles._most = 2
    writes = world.write("a", "b", "c", "d")
    world.now += bundles.HOLDS_UP_S + 0.1
    world.together._bundles._waiting[2].woken.set()
    world.under_way(2)
    assert [["a"], ["b", "d"]] == world.written
    world.end(3)
    assert [f"{item} is written" for item in "abcd"] == answers(writes)


def test_each_item_has_its_own_answer_or_error(world: HeldTransactions) -> None:
    """A refused item fails no other one."""
    writes = world.write("a", "b", "refused", "c")
    world.end(2)
    assert ["a is written", "b is written", REFUSED, "c is written"] == answers(writes)


def test_items_of_one_caller_stay_together(world: HeldTransactions) -> None:
    """They have their answers in their order, errors included."""
    first, several, last = *world.write("a"), world.write_each("b", "refused", "c"), *world.write("d")
    world.end(2)
    assert ["a is written", "d is written"] == answers([first, last])
    assert ["b is written", REFUSED, "c is written"] == several.result(WAIT_S)
    assert [["a"], ["b", "refused", "c", "d"]] == world.written


def test_a_transaction_that_is_refused_is_written_item_by_item(world: HeldTransactions) -> None:
    """Only the item that cannot be written fails."""
    world.failure = ValueError("cannot be written")
    writes = world.write("a", "b", "worse", "c")
    world.end(5)
    assert ["a is written", "b is written", world.failure, "c is written"] == answers(writes)
    assert [["a"], ["b", "worse", "c"], ["b"], ["worse"], ["c"]] == world.written


AWAY = [
    ("the database is away", errors.DatabaseUnavailable(kind="DBConnectionError", problem="gone")),
    ("the thread ends", SystemExit()),
]


@pytest.mark.parametrize(("what", "failure"), AWAY, ids=[case[0] for case in AWAY])
def test_all_items_fail_whose_outcome_is_unknown(world: HeldTransactions, what: str, failure: BaseException) -> None:
    """No caller waits forever, and no caller gets a success."""
    world.failure = failure
    writes = world.write("a", "b", "c", "d")
    world.end(2)
    first, *others = answers(writes)
    assert "a is written" == first
    assert all(isinstance(each, BaseException) for each in others)
    assert [["a"], ["b", "c", "d"]] == world.written


def test_items_with_equal_keys_are_written_one_after_the_other(world: HeldTransactions) -> None:
    """One transaction cannot take two steps of one row."""
    world.together._key = str.lower
    writes = world.write("a", "b", "B")
    world.end(3)
    assert ["a is written", "b is written", "B is written"] == answers(writes)
    assert [["a"], ["b"], ["B"]] == world.written


def test_a_transaction_that_hangs_delays_others_for_a_second(world: HeldTransactions) -> None:
    """After a second the next transaction begins, whether the first has ended or not."""
    writes = world.write("a")
    world.now += bundles.HOLDS_UP_S + 0.1
    writes += world.write("b")
    world.under_way(2)
    writes += world.write("c", "d")
    world.end(3)
    assert [f"{item} is written" for item in "abcd"] == answers(writes)
    assert [["a"], ["b"], ["c", "d"]] == world.written


def test_items_that_wait_already_do_not_wait_longer_than_that(world: HeldTransactions, monkeypatch: Any) -> None:
    """No other thread wakes them."""
    monkeypatch.setattr(bundles, "HOLDS_UP_S", 0.01)
    writes = world.write("a", "b")
    world.now += 0.02
    world.under_way(2)
    world.end(2)
    assert ["a is written", "b is written"] == answers(writes)


def test_a_transaction_has_a_bounded_number_of_items(world: HeldTransactions) -> None:
    """The rest goes with the one after it."""
    items = [f"i{number}" for number in range(bundles.MOST + 2)]
    writes = world.write("a", *items)
    world.end(3)
    assert [f"{item} is written" for item in ("a", *items)] == answers(writes)
    assert [1, bundles.MOST, 2] == [len(each) for each in world.written]
