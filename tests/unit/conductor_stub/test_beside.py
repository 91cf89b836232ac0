# SPDX-License-Identifier: Apache-2.0
"""Commands beside the caller: no more at a time than allowed, and a place is given back however its work ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from conductor_stub.steps.beside import Beside


def test_no_more_at_a_time_than_allowed() -> None:
    """While all places are taken nothing is asked for; one that is done makes room."""
    begun: list[Callable[[], object]] = []
    done: list[int] = []
    orders = iter(range(10))
    beside = Beside(2, begun.append)
    for _ in range(3):
        beside.begin(lambda: next(orders), done.append)
    assert (2, []) == (len(begun), done)
    begun.pop()()
    beside.begin(lambda: next(orders), done.append)
    while begun:
        begun.pop()()
    assert [0, 1, 2] == sorted(done)


def _refuse(_work: object) -> None:
    raise RuntimeError("no thread")


def _fail(_order: int) -> None:
    raise RuntimeError("broken")


def _thread(work: Callable[[], object]) -> None:
    """What the work raises ends the thread, and not its caller."""
    with contextlib.suppress(RuntimeError):
        work()


@pytest.mark.parametrize(
    ("take", "work", "spawn"),
    [
        pytest.param(lambda: None, print, lambda work: work(), id="nothing to do"),
        pytest.param(lambda: 1 // 0, print, lambda work: work(), id="it cannot be taken"),
        pytest.param(lambda: 1, print, _refuse, id="it cannot be begun"),
        pytest.param(lambda: 1, _fail, _thread, id="the work fails"),
    ],
)
def test_the_place_is_given_back(take: Callable, work: Callable, spawn: Callable) -> None:
    """Or after some failures no command would run any more."""
    beside = Beside(1, spawn)
    for _ in range(2):
        try:
            beside.begin(take, work)
        except (RuntimeError, ZeroDivisionError):
            continue
    assert beside._free.acquire(blocking=False)
