# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.tolerance``: what a tolerance costs, beside the percentage rule that is as safe.

Equal requests fill equal fleets. One refuses what would break "1 host"; the others refuse what exceeds a share of all vcpus.
The smallest share is looked for with which the drill finds every loss survived.
"""

from __future__ import annotations

import logging
import random
import statistics
import sys

from fleet import errors
from fleet.objects.survival import Loss
from fleet.objects.tolerance import REFUSE, Tolerance
from scheduler.compute.planning import survival
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_survival import Drill
from tests.unit.scheduler.test_tolerance import SIZE, Stage

HOSTS, SEEDS = 20, 5
#: Sizes of guests in vcpus and GB; hosts have 8 of both.
MIXES = {"to 4 of 8": [1, 1, 1, 2, 2, 2, 3, 4], "to 6 of 8": [1, 1, 1, 2, 2, 3, 4, 6]}


def _fill(stage: Stage, sizes: list[int], most: float = 1.0) -> float:
    """Return the share of all vcpus that is placed. :param most: the share that is not exceeded"""
    total, placed = SIZE * len(stage.guests), 0
    for size in sizes:
        if placed + size <= most * total:
            try:
                stage.build(size)
            except errors.NoValidHost:
                continue
            placed += size
    return placed / total


def _broken(guests: dict[str, list[int]]) -> int:
    """Return how many hosts' losses are not proved to be survived."""
    drill = Drill(guests)
    losses = [Loss(host, [host]) for host in guests]
    report = survival.run(configuration(), drill.fleet.state, losses, drill.requests_of, lambda _name: None, 5.0)
    return sum(proof.verdict.value != "safe" for proof in report.proofs)


def main() -> int:
    logging.disable(logging.CRITICAL)
    for name, mix in MIXES.items():
        rows = []
        for seed in range(SEEDS):
            chance = random.Random(seed)
            sizes = [chance.choice(mix) for _request in range(10 * HOSTS)]
            empty: dict[str, list[int]] = {f"h{number}": [] for number in range(HOSTS)}
            kept = Stage(empty, Tolerance(policy=REFUSE))
            placed = _fill(kept, sizes)
            share, other = 0, 0.0
            for share in range(2, 100, 2):
                rule = Stage(empty)
                other = _fill(rule, sizes, 1 - share / 100)
                if not _broken(rule.guests):
                    break
            rows.append((placed, _broken(kept.guests), share, other))
            print(f"{name}, seed {seed}: tolerance {placed:.1%}, {rows[-1][1]} broken; {share} % free: {other:.1%}")
        mean, broken, free, by_rule = (statistics.mean(column) for column in zip(*rows, strict=True))
        print(f"{name}: tolerance {mean:.1%} ({broken:g} broken), {free:.0f} % free {by_rule:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
