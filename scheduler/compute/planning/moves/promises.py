# SPDX-License-Identifier: Apache-2.0
"""Proofs that losses which are survived now are survived in every state of a plan.

:mod:`scheduler.compute.planning.rebalance` asks for them.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from oslo_config import cfg

from fleet import errors
from fleet.db.feed.feed import Changes
from fleet.objects.rebalance import Move
from fleet.objects.tolerance import Tolerance
from fleet.objects.whatif import Demand
from scheduler.compute.planning.losses import kept_promises
from scheduler.compute.planning.moves.moved import Guests, arriving, joined, moved


def keeping(
    conf: cfg.ConfigOpts,
    state: Changes,
    moves: Sequence[Move],
    promised: Sequence[Tolerance],
    demands: Mapping[str, Demand | errors.FleetError],
    guests: Guests,
    until: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[Move], str]:
    """Return the longest beginning of the plan that was found to keep what is survived now, and what ends it there.

    Moves that cannot be under way together are made one after the other: a step is divided before the plan ends. The search
    halves what is left, so another beginning may be longer; what is returned is proved in each of its states.

    :param promised: to survive losses; one that is not survived now holds up nothing
    :param until: what the clock shows when the time is over
    """
    if not promised or not moves:
        return list(moves), ""

    def broken(now: Changes) -> set[str]:
        return set(kept_promises.broken(conf, now, promised, lambda _uuids: demands))

    before = broken(state)
    proved: list[Move] = []

    def problem(some: Sequence[Move]) -> str:
        if clock() >= until:
            return "the time limit was over before it was proved that all promised losses are survived meanwhile"
        lost = next((worse for now in _states(state, proved, some, guests) if (worse := broken(now) - before)), set())
        return f"the loss of {min(lost)} would not be survived then" if lost else ""

    left, why = list(moves), ""
    while left:
        more, why = _beginning(left, problem)
        if not more:
            break
        proved += more
        # The rest of a step that was divided is a step of its own.
        later = proved[-1].step + 1 - left[len(more)].step if len(more) < len(left) else 0
        left = [dataclasses.replace(each, step=each.step + max(later, 0)) for each in left[len(more) :]]
    return proved, why if left else ""


def _beginning(moves: Sequence[Move], problem: Callable[[Sequence[Move]], str]) -> tuple[list[Move], str]:
    why = problem(moves)
    if not why:
        return list(moves), ""
    good, bad = 0, len(moves)
    while bad - good > 1:
        middle = (good + bad) // 2
        found = problem(moves[:middle])
        if found:
            bad, why = middle, found
        else:
            good = middle
    return list(moves[:good]), why


def _states(state: Changes, made: Sequence[Move], moves: Sequence[Move], guests: Guests) -> Iterator[Changes]:
    """Yield the fleet while each step of ``moves`` is under way, and after it. :param made: before them"""
    for step in sorted({each.step for each in moves}):
        before = moved(state, joined([*made, *(each for each in moves if each.step < step)]), guests)
        yield arriving(before, [each for each in moves if each.step == step], guests)
        yield moved(state, joined([*made, *(each for each in moves if each.step <= step)]), guests)
