# SPDX-License-Identifier: Apache-2.0
"""Proofs that losses which are survived now are survived in every state of a plan.

:mod:`scheduler.compute.planning.rebalance` asks for them.
"""

from __future__ import annotations

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
) -> tuple[list[Move], str]:
    """Return the longest beginning of the plan that was found to keep what is survived now, and what the next would break.

    The search halves what is left, so another beginning may be longer; what is returned is proved in each of its states.

    :param promised: to survive losses; one that is not survived now holds up nothing
    """
    if not promised or not moves:
        return list(moves), ""

    def broken(now: Changes) -> set[str]:
        return set(kept_promises.broken(conf, now, promised, lambda _uuids: demands))

    before = broken(state)

    def problem(some: Sequence[Move]) -> str:
        lost = next((worse for now in _states(state, some, guests) if (worse := broken(now) - before)), set())
        return f"the loss of {min(lost)} would not be survived then" if lost else ""

    return _beginning(moves, problem)


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


def _states(state: Changes, moves: Sequence[Move], guests: Guests) -> Iterator[Changes]:
    """Yield the fleet while each step is under way, and after it."""
    for step in sorted({each.step for each in moves}):
        before = moved(state, joined([each for each in moves if each.step < step]), guests)
        yield arriving(before, [each for each in moves if each.step == step], guests)
        yield moved(state, joined([each for each in moves if each.step <= step]), guests)
