# SPDX-License-Identifier: Apache-2.0
"""What ran how often, over all shaken runs in a directory: one JSON line for each test that ran."""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Iterator


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
    """Lines for people: by suite the number of tests, how often the least and the median one ran, and the failures."""
    ran: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    failed: dict[str, list[str]] = collections.defaultdict(list)
    for each in found:
        suite = each.nodeid.split("/")[1] if "/" in each.nodeid else each.nodeid
        if each.outcome == "failed":
            failed[each.nodeid].append(each.seed)
        if each.outcome != "skipped":
            ran[suite][each.nodeid] += 1
    yield f"{'suite':12} {'tests':>6} {'least':>6} {'median':>6} {'runs':>8} {'failed':>6}"
    for suite, counts in sorted(ran.items()):
        times = sorted(counts.values())
        failures = sum(len(failed[nodeid]) for nodeid in counts if nodeid in failed)
        yield f"{suite:12} {len(counts):6} {times[0]:6} {times[len(times) // 2]:6} {sum(times):8} {failures:6}"
    for nodeid, seeds in sorted(failed.items()):
        yield f"failed: {nodeid} (seed {', '.join(seeds)})"
