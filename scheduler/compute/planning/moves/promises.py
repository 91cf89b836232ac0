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
from fleet.objects.survival import Loss, Proof
from fleet.objects.whatif import Demand
from scheduler.compute.planning import survival
from scheduler.compute.planning.moves.moved import arriving, joined, moved
from scheduler.planning.survival.room import Verdict

#: Seconds for the proof of one loss.
_LIMIT_S = 1.0


def keeping(
    conf: cfg.ConfigOpts,
    state: Changes,
    moves: Sequence[Move],
    losses: Sequence[Loss],
    demands: Mapping[str, Demand | errors.FleetError],
) -> tuple[list[Move], str]:
    """Return the longest beginning of the plan that was found to keep what is survived now, and what the next would break.

    The search halves what is left, so another beginning may be longer; what is returned is proved in each of its states.
    """
    if not losses or not moves:
        return list(moves), ""

    def proved(now: Changes, of: Sequence[Loss]) -> list[tuple[Loss, Proof]]:
        report = survival.run(conf, now, of, lambda _uuids: demands, lambda _name: None, _LIMIT_S)
        return list(zip(report.losses, report.proofs, strict=True))

    def broken(now: Changes, of: Sequence[Loss]) -> list[str]:
        return [
            f"the loss of {loss.name} is then {proof.verdict.value}: {proof.why}"
            for loss, proof in proved(now, of)
            if proof.verdict is not Verdict.SAFE
        ]

    held = [loss for loss, proof in proved(state, losses) if proof.verdict is Verdict.SAFE]
    return _beginning(moves, lambda some: next((why for now in _states(state, some) for why in broken(now, held)), ""))


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


def _states(state: Changes, moves: Sequence[Move]) -> Iterator[Changes]:
    """Yield the fleet while each step is under way, and after it."""
    for step in sorted({each.step for each in moves}):
        before = moved(state, joined([each for each in moves if each.step < step]))
        yield arriving(before, [each for each in moves if each.step == step])
        yield moved(state, joined([each for each in moves if each.step <= step]))
