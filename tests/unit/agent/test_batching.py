# SPDX-License-Identifier: Apache-2.0
"""Claims and finishes that arrive together go in one message, and each gets its own answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import oslo_messaging
import pytest

from fleet import bundles, errors
from fleet.agent.batching import Batcher, Step
from fleet.context import RequestContext, new_context
from fleet.rpc import batch_answers

WAIT_S = 120
GONE = errors.NotFound(kind="Instance", name="gone")
STALE = errors.StaleBuild(instance_uuid="stale", attempt=1, reason="it is active")


class SlowConductor:
    """Calls wait until the test releases them; ``calls`` holds the instances of each. Instances in ``gone`` are refused."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)
        self.calls: list[list[str]] = []
        self.asked_by: list[list[str | None]] = []
        self.knows_steps = True
        #: What the calls of several fail with.
        self.failure: BaseException | None = None

    def takes_steps(self) -> bool:
        return self.knows_steps

    def claim_instance(self, context: RequestContext, instance_uuid: str) -> dict[str, Any]:
        self._call([instance_uuid])
        return self._answer(instance_uuid)

    finish_build = claim_instance

    def build_steps(self, context: RequestContext, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self.asked_by.append([step["request_id"] for step in steps])
        self._call([step["instance_uuid"] for step in steps])
        if self.failure is not None:
            raise self.failure
        return [self._step(step["instance_uuid"]) for step in steps]

    def _call(self, uuids: list[str]) -> None:
        self.calls.append(uuids)
        self.begun.release()
        assert self.let_go.acquire(timeout=WAIT_S)

    def _step(self, uuid: str) -> dict[str, Any]:
        try:
            return batch_answers.result(self._answer(uuid))
        except errors.FleetError as refusal:
            return batch_answers.refusal(refusal)

    def _answer(self, uuid: str) -> dict[str, Any]:
        for refusal in (GONE, STALE):
            if uuid in refusal.kwargs.values():
                raise refusal
        return {"uuid": uuid}


class BatchedSteps:
    """``ask`` asks in a thread of its own, and returns when the step waits or has been sent."""

    def __init__(self, pool: futures.Executor) -> None:
        self.conductor = SlowConductor()
        self.now = 0.0
        self.together = Batcher(self.conductor, lambda: self.now)  # type: ignore[arg-type]
        self._pool = pool

    def step(self, uuid: str, method: str = "claim_instance") -> Step:
        return self.together.step(new_context(), method, instance_uuid=uuid)

    def ask(self, *uuids: str) -> list[futures.Future]:
        return [self.join(self.step(uuid)) for uuid in uuids]

    def join(self, step: Step) -> futures.Future:
        calls = len(self.conductor.calls)
        asked = self._pool.submit(step.ask)
        while not (self._waits(step) or len(self.conductor.calls) > calls):
            # A thread that only looks keeps the lock and the interpreter from those that it waits for.
            time.sleep(0.001)
        return asked

    def _waits(self, step: Step) -> bool:
        """Return True if the step waits for a call; one that is to be sent now waits for a moment, too."""
        with self.together._bundles._lock:
            return step in self.together._bundles._waiting and bool(self.together._bundles._under_way)

    def under_way(self, calls: int) -> None:
        """Wait until so many more were begun."""
        for _call in range(calls):
            assert self.conductor.begun.acquire(timeout=WAIT_S)

    def answer(self, calls: int) -> None:
        self.conductor.let_go.release(calls)


@pytest.fixture
def world() -> Iterator[BatchedSteps]:
    with futures.ThreadPoolExecutor(80) as pool:
        world = BatchedSteps(pool)
        yield world
        # A test that fails is to end, too.
        world.answer(1000)


def told(asked: list[futures.Future]) -> list[Any]:
    return [each.exception(WAIT_S) or each.result()["uuid"] for each in asked]


def test_one_alone_is_asked_at_once_and_by_itself(world: BatchedSteps) -> None:
    """A single step is sent at once, and so is the next."""
    world.answer(2)
    assert ["a"] == told(world.ask("a"))
    assert ["b"] == told(world.ask("b"))
    assert [["a"], ["b"]] == world.conductor.calls


def test_those_that_come_meanwhile_go_together(world: BatchedSteps) -> None:
    """Claims and finishes in one call, in the order in which they came, each under its own request."""
    first = world.ask("a")
    steps = [world.step("b"), world.step("c", "finish_build"), world.step("d")]
    others = [world.join(step) for step in steps]
    world.answer(2)
    assert ["a", "b", "c", "d"] == told(first + others)
    assert [["a"], ["b", "c", "d"]] == world.conductor.calls
    assert [[step.context.request_id for step in steps]] == world.conductor.asked_by


def test_each_has_its_own_answer_or_error(world: BatchedSteps) -> None:
    """As it would have had alone: the class, its facts and its sentence."""
    asked = world.ask("a", "b", "gone", "stale", "c")
    world.answer(2)
    first, second, gone, stale, third = told(asked)
    assert ["a", "b", "c"] == [first, second, third]
    assert [(errors.NotFound, GONE.kwargs), (errors.StaleBuild, STALE.kwargs)] == [
        (type(each), each.kwargs) for each in (gone, stale)
    ]
    assert [GONE.message, STALE.message] == [gone.message, stale.message]


def test_whoever_wakes_first_sends_in_the_order_of_arrival(world: BatchedSteps) -> None:
    asked = world.ask("a", "b", "c", "d")
    world.now += bundles.HOLDS_UP_S + 0.1
    world.together._bundles._waiting[1].woken.set()
    world.under_way(2)
    world.answer(2)
    assert ["a", "b", "c", "d"] == told(asked)
    assert [["a"], ["b", "c", "d"]] == world.conductor.calls


def test_a_call_that_fails_fails_for_all_and_each_asks_again_by_itself(world: BatchedSteps) -> None:
    """The outcome is unknown. Each step is repeated alone, so that one of them cannot harm the others again."""
    world.conductor.failure = oslo_messaging.MessagingTimeout()
    first = world.ask("a")
    steps = [world.step("b"), world.step("c")]
    others = [world.join(step) for step in steps]
    world.answer(2)
    assert ["a"] == told(first)
    assert [oslo_messaging.MessagingTimeout] * 2 == [type(each) for each in told(others)]

    again = [world.join(step) for step in steps]
    world.answer(2)
    assert ["b", "c"] == told(again)
    assert [["a"], ["b", "c"], ["b"], ["c"]] == world.conductor.calls


REFUSALS = [
    ("a conductor that is too old", errors.VersionPinned(topic="", method="", needs="", cap="", pin="")),
    ("a conductor that takes less", errors.InvalidInput(field="steps", reason="too many")),
    ("the death of who asked for all", SystemExit()),
]


@pytest.mark.parametrize(("what", "failure"), REFUSALS, ids=[case[0] for case in REFUSALS])
def test_what_is_not_asked_together_is_asked_one_by_one(world: BatchedSteps, what: str, failure: BaseException) -> None:
    """If the batch cannot be sent, each of its steps is sent at once by itself."""
    world.conductor.failure = failure
    asked = world.ask("a", "b", "c", "d")
    world.answer(5)
    found = told(asked)
    if isinstance(failure, SystemExit):
        assert failure is found.pop(1)
    assert ["a", *"bcd"[-len(found) + 1 :]] == found


def test_an_old_conductor_is_asked_one_by_one(world: BatchedSteps) -> None:
    """All at a time, as before."""
    world.conductor.knows_steps = False
    asked = world.ask("a", "b", "c")
    world.under_way(3)
    world.answer(3)
    assert ["a", "b", "c"] == told(asked)


def test_a_call_that_is_lost_holds_nobody_up(world: BatchedSteps) -> None:
    """After one second the waiting steps are sent, whether the call was answered or not."""
    lost = world.ask("a")
    world.now += bundles.HOLDS_UP_S + 0.1
    others = world.ask("b")
    world.under_way(2)
    others += world.ask("c", "d")
    world.answer(3)
    assert ["a", "b", "c", "d"] == told(lost + others)
    assert [["a"], ["b"], ["c", "d"]] == world.conductor.calls


def test_those_that_wait_already_do_not_wait_for_a_lost_call_either(world: BatchedSteps, monkeypatch: Any) -> None:
    """Their own patience wakes them."""
    monkeypatch.setattr(bundles, "HOLDS_UP_S", 0.01)
    asked = world.ask("a", "b")
    world.now += 0.02
    world.under_way(2)
    world.answer(2)
    assert ["a", "b"] == told(asked)


def test_a_call_has_so_many_steps_at_most(world: BatchedSteps) -> None:
    """When as many wait they go at once, while another call is under way."""
    uuids = [f"u{number}" for number in range(bundles.MOST + 1)]
    asked = world.ask("a", *uuids[: bundles.MOST - 1])
    world.under_way(1)
    asked += world.ask(uuids[bundles.MOST - 1])
    world.under_way(1)
    asked += world.ask(uuids[bundles.MOST])
    world.answer(3)
    assert ["a", *uuids] == told(asked)
    assert [1, bundles.MOST, 1] == [len(call) for call in world.conductor.calls]
