# SPDX-License-Identifier: Apache-2.0
"""What is printed: a line a scenario, and in the end fault × invariant."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from tests.chaos.run import Result
from tests.chaos.watcher import NUMBERS


def line(result: Result) -> str:
    ended = ", ".join(f"{count} {state}" for state, count in result.ended.items() if count)
    word = "held" if result.good else "VIOLATED"
    measured = "".join(f"; {name} {figure:g}" for name, figure in result.measured.items())
    return f"{result.scenario:44} {result.seconds:6.1f} s  {word:8}  {ended or 'no builds'}{measured}"


def table(results: Sequence[Result]) -> str:
    """One row a kind of fault; a cell is how often the invariant was judged, and how often of these it was violated."""
    rows: dict[str, list[Result]] = collections.defaultdict(list)
    for result in results:
        rows[result.scenario.partition(":")[0]].append(result)
    head = f"{'fault':24} {'runs':>4} " + " ".join(f"{number:>8}" for number in NUMBERS)
    return "\n".join([head, *(_row(kind, of_kind) for kind, of_kind in rows.items()), _row("all", results)])


def _row(kind: str, results: Sequence[Result]) -> str:
    return f"{kind:24} {len(results):4} " + " ".join(f"{_cell(results, number):>8}" for number in NUMBERS)


def _cell(results: Sequence[Result], number: str) -> str:
    held = sum(result.verdict.held[number] for result in results)
    violated = sum(result.verdict.violated[number] for result in results)
    return f"{held}/{violated}"
