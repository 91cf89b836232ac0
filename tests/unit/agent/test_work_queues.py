# SPDX-License-Identifier: Apache-2.0
"""Tests of the order of work; jobs run when the test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest

from fleet.agent.work_queues import WorkQueues


class HandExecutor(futures.Executor):
    """Runs jobs one by one when told to."""

    def __init__(self) -> None:
        self.begun: list[Callable[[], Any]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future:
        self.begun.append(lambda: work(*args, **kwargs))
        return futures.Future()

    def run_one(self) -> None:
        self.begun.pop(0)()


class Log:
    def __init__(self) -> None:
        self.done: list[str] = []

    def job(self, name: str) -> Callable[[], None]:
        return lambda: self.done.append(name)


def test_one_instance_has_one_job_at_a_time() -> None:
    """Jobs of one lane run in their order; the second is not begun before the first is over."""
    executor, log = HandExecutor(), Log()
    queues = WorkQueues(executor, slots=0)
    queues.submit("a", log.job("first"))
    queues.submit("a", log.job("second"))
    assert 1 == len(executor.begun)
    executor.run_one()
    executor.run_one()
    assert ["first", "second"] == log.done


def test_builds_wait_for_a_slot_and_terminations_do_not() -> None:
    """With two slots the third build waits without a thread, and another instance's termination overtakes it."""
    executor, log = HandExecutor(), Log()
    queues = WorkQueues(executor, slots=2)
    for name in ("a", "b", "c"):
        queues.submit(name, log.job(f"build {name}"), takes_slot=True)
    queues.submit("d", log.job("terminate d"))
    assert 3 == len(executor.begun)
    for _ in range(4):
        executor.run_one()
    assert ["build a", "build b", "terminate d", "build c"] == log.done


def test_no_slots_means_no_limit() -> None:
    """0 builds at a time is nova's word for any number."""
    executor, log = HandExecutor(), Log()
    queues = WorkQueues(executor, slots=0)
    for name in "abcdef":
        queues.submit(name, log.job(name), takes_slot=True)
    assert 6 == len(executor.begun)


def test_cancel_drops_what_waits_and_not_what_runs() -> None:
    """A build that waits for a slot is dropped, and the next in line gets the slot."""
    executor, log = HandExecutor(), Log()
    queues = WorkQueues(executor, slots=1)
    for name in ("a", "b", "c"):
        queues.submit(name, log.job(name), takes_slot=True)
    assert (0, 1, 0) == (queues.cancel("a"), queues.cancel("b"), queues.cancel("unknown"))
    executor.run_one()
    executor.run_one()
    assert ["a", "c"] == log.done
    assert queues.wait(0)


def test_a_job_that_only_waits_gives_its_slot_to_the_next() -> None:
    """The slot is not given back a second time when the job ends: with one slot, two builds do not run at once."""
    executor, log = HandExecutor(), Log()
    queues = WorkQueues(executor, slots=1)
    queues.submit("a", lambda: queues.give_back_slot("a"), takes_slot=True)
    for name in ("b", "c"):
        queues.submit(name, log.job(name), takes_slot=True)
    assert 1 == len(executor.begun)
    executor.run_one()
    assert 1 == len(executor.begun)
    executor.run_one()
    executor.run_one()
    assert ["b", "c"] == log.done
    assert queues.wait(0)


def test_a_job_without_a_slot_has_none_to_give_back() -> None:
    """Nor has one that waits for its slot, or one that is over."""
    executor, log = HandExecutor(), Log()
    queues = WorkQueues(executor, slots=1)
    queues.submit("a", log.job("a"))
    for name in ("b", "c"):
        queues.submit(name, log.job(name), takes_slot=True)
    for name in ("a", "c", "unknown"):
        queues.give_back_slot(name)
    assert 2 == len(executor.begun)


def test_repeated_work_waits_once() -> None:
    """What runs may have read already what it does, so one repetition waits behind it. Other work keeps its place."""
    executor, log = HandExecutor(), Log()
    queues = WorkQueues(executor, slots=0)
    for number in range(4):
        assert queues.submit("a", log.job(f"move {number}"), once="move")
    queues.submit("a", log.job("power"), once="power")
    queues.submit("a", log.job("move 4"), once="move")
    while executor.begun:
        executor.run_one()
    assert ["move 0", "move 1", "power"] == log.done
    queues.submit("a", log.job("later"), once="move")
    executor.run_one()
    assert "later" == log.done[-1]


def test_repeated_work_that_waits_for_a_slot_waits_once() -> None:
    executor, log = HandExecutor(), Log()
    queues = WorkQueues(executor, slots=1)
    queues.submit("a", log.job("build"), takes_slot=True)
    for number in range(2):
        queues.submit("b", log.job(f"move {number}"), takes_slot=True, once="move")
    while executor.begun:
        executor.run_one()
    assert ["build", "move 0"] == log.done


def test_a_failing_job_does_not_stop_its_lane() -> None:
    """The slot and the lane are free again after an exception."""
    executor, log = HandExecutor(), Log()
    queues = WorkQueues(executor, slots=1)

    def fail() -> None:
        raise RuntimeError("a bug")

    queues.submit("a", fail, takes_slot=True)
    queues.submit("a", log.job("next"), takes_slot=True)
    executor.run_one()
    executor.run_one()
    assert ["next"] == log.done


def test_closed_lanes_begin_nothing() -> None:
    """Closing returns the ``dropped`` callbacks of waiting work, and refuses new work. Running work ends."""
    executor, log = HandExecutor(), Log()
    queues = WorkQueues(executor, slots=1)
    for name in ("a", "b", "c"):
        queues.submit(name, log.job(name), takes_slot=True, dropped=log.job(f"{name} handed back"))
    dropped = queues.close()
    assert 2 == len(dropped)
    assert not queues.submit("d", log.job("d"))
    executor.run_one()
    assert queues.wait(0)
    assert ["a"] == log.done
    for hand_back in dropped:
        hand_back()
    assert ["a", "b handed back", "c handed back"] == log.done


def test_never_more_builds_than_slots_on_real_threads() -> None:
    """With eight threads and three slots, fifty builds never run more than three at a time, and all run."""
    lock, all_done = threading.Lock(), threading.Event()
    running = most = ended = 0

    def build() -> None:
        nonlocal running, most, ended
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1
            ended += 1
            if ended == 50:
                all_done.set()

    with futures.ThreadPoolExecutor(8) as executor:
        queues = WorkQueues(executor, slots=3)
        for number in range(50):
            queues.submit(str(number), build, takes_slot=True)
        assert all_done.wait(10)
        assert queues.wait(10)
    assert most <= 3


def test_a_machine_without_threads_stops_no_lane(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The executor has taken the job when it finds that it can start no thread: a thread that gets free runs it."""
    log, begins, goes_on = Log(), threading.Event(), threading.Event()

    def build() -> None:
        begins.set()
        goes_on.wait()

    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with futures.ThreadPoolExecutor(4) as executor:
        queues = WorkQueues(executor, slots=1)
        queues.submit("a", build, takes_slot=True)
        begins.wait()
        queues.submit("a", log.job("terminate a"))
        queues.submit("b", log.job("build b"), takes_slot=True)
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", fail)
            try:
                queues.submit("c", log.job("terminate c"))
            finally:
                goes_on.set()
            assert queues.wait(10)
    assert ["build b", "terminate a", "terminate c"] == sorted(log.done)
    assert "no thread for work on c: can't start new thread" in caplog.text
