# SPDX-License-Identifier: Apache-2.0
"""Hurts the daemons at random for a long time, without ever ending one, and looks whether they grow."""

from __future__ import annotations

import fnmatch
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.chaos.figures import Figures
from tests.chaos.run import Result, Scenario

#: These start a daemon anew, or end one: what it took until then would be forgotten. Clusters are worlds of their own.
NOT_HERE = (
    "kill-*",
    "cluster:*",
    "sigterm-*",
    "broker:agent-queue-missing",
    "contention:last-slots",
    "contention:frozen-cache",
    "hosts:clock-off-*",
    "plugins:poison-message",
)
#: What the last quarter may be above the second: pools that grow with the worst moment so far, not with time.
SLACK = {"threads": 16, "descriptors": 24, "resident_mb": 48}


def scenarios_of(given: Sequence[Scenario]) -> list[Scenario]:
    return [each for each in given if not any(fnmatch.fnmatchcase(each.name, pattern) for pattern in NOT_HERE)]


def course(
    given: Sequence[Scenario], minutes: float, seed: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[Scenario, int]]:
    """Scenarios in any order, each with another seed, until the time is over."""
    chance, end = random.Random(seed), clock() + 60 * minutes
    while True:
        for scenario in chance.sample(given, len(given)):
            if clock() > end:
                return
            yield scenario, chance.randrange(10**6)


def growth(results: Sequence[Result]) -> Iterator[tuple[str, str, list[int], bool]]:
    """Per daemon and figure: the median of each quarter of the time, and whether it has grown for good.

    The first quarter is left out of the judgement: pools are filled then.
    """
    if len(results) < 4:
        return
    quarters = [results[len(results) * number // 4 : len(results) * (number + 1) // 4] for number in range(4)]
    for daemon in sorted(set.intersection(*(set(each.figures) for each in results))):
        for figure, slack in SLACK.items():
            medians = [_median(quarter, daemon, figure) for quarter in quarters]
            yield daemon, figure, medians, medians[3] > medians[1] + slack


def table(results: Sequence[Result]) -> tuple[str, bool]:
    """For people, and whether nothing has grown."""
    lines, flat = [f"{'daemon':12} {'figure':12} {'medians of each quarter'}"], True
    for daemon, figure, medians, grown in growth(results):
        lines.append(f"{daemon:12} {figure:12} {' '.join(f'{each:6}' for each in medians)}{'  GROWS' if grown else ''}")
        flat = flat and not grown
    return "\n".join(lines), flat


def _median(results: Sequence[Result], daemon: str, figure: str) -> int:
    found: list[Mapping[str, Figures]] = [each.figures for each in results]
    return round(statistics.median(getattr(figures[daemon], figure) for figures in found))
