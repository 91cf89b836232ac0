# SPDX-License-Identifier: Apache-2.0
"""What ran in how many rounds, over all shaken runs in a directory: one JSON line for each test that ran."""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import re
from collections.abc import Iterable, Iterator

#: A test counts once a round, whichever database it had.
_ENGINE = re.compile("sqlite|postgresql|mariadb")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """``outcome`` is pytest's: passed, failed or skipped."""

    nodeid: str
    outcome: str
    seed: str


def note(path: pathlib.Path, outcome: Outcome) -> None:
    """Append the outcome. Lanes write to one file: each line is a single write."""
    with path.open("a") as file:
        file.write(json.dumps(dataclasses.asdict(outcome)) + "\n")


def read(path: pathlib.Path) -> Iterator[Outcome]:
    if path.exists():
        for line in path.read_text().splitlines():
            yield Outcome(**json.loads(line))


def table(found: Iterable[Outcome]) -> Iterator[str]:
    """Lines for people: by suite the tests, in how many rounds the least and the median one ran, the runs, the failures."""
    rounds: dict[str, dict[str, set[str]]] = collections.defaultdict(lambda: collections.defaultdict(set))
    runs: collections.Counter[str] = collections.Counter()
    failed: dict[str, list[str]] = collections.defaultdict(list)
    for each in found:
        suite = each.nodeid.split("/")[1] if "/" in each.nodeid else each.nodeid
        if each.outcome == "failed":
            failed[each.nodeid].append(each.seed)
        if each.outcome != "skipped":
            rounds[suite][_ENGINE.sub("", each.nodeid)].add(each.seed)
            runs[suite] += 1
    yield f"{'suite':12} {'tests':>6} {'least':>6} {'median':>6} {'runs':>8} {'failed':>6}"
    for suite, of_tests in sorted(rounds.items()):
        times = sorted(len(seeds) for seeds in of_tests.values())
        failures = sum(len(seeds) for nodeid, seeds in failed.items() if nodeid.split("/")[1:2] == [suite])
        yield f"{suite:12} {len(times):6} {times[0]:6} {times[len(times) // 2]:6} {runs[suite]:8} {failures:6}"
    for nodeid, seeds in sorted(failed.items()):
        yield f"failed: {nodeid} (seed {', '.join(seeds)})"
