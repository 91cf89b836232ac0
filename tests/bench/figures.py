# SPDX-License-Identifier: Apache-2.0
"""Times pieces of work and prints what was found, one JSON object a line."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds of repeated work. On a shared machine the median is what to quote."""

    seconds: Sequence[float]

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p95_s(self) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, math.ceil(0.95 * len(ordered)) - 1)]

    def to_line(self) -> dict[str, float]:
        return {"median_ms": round(self.median_s * 1e3, 4), "p95_ms": round(self.p95_s * 1e3, 4)}


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def repeat(work: Callable[[], Any], rounds: int) -> Times:
    """``rounds`` runs after one that does not count."""
    work()
    return Times([timed(work) for _round in range(rounds)])


def report(part: str, **found: Any) -> None:
    print(json.dumps({"part": part, **found}), flush=True)
