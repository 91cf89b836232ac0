# SPDX-License-Identifier: Apache-2.0
"""Results of demands on a copied fleet: how many were placed, and why the others were refused.

Called by :mod:`scheduler.compute.planning.whatif` and :mod:`scheduler.volumes.planning.whatif`.
"""

from __future__ import annotations

import collections
import statistics

from fleet.objects.whatif import Demand
from fleet.utilization import hours
from scheduler.engine.decision import Decision

#: The first refusals up to this number are named.
_NAMED = 10


class Outcomes:
    """Counts requests, and what they ask for: instances or volumes."""

    def __init__(self) -> None:
        self.requests = self.requests_placed = 0
        self.placed = self.refused = 0
        self._reasons: collections.Counter[str] = collections.Counter()
        self._sizes: collections.Counter[str] = collections.Counter()
        self._unplaced: list[str] = []
        self._took_s: list[float] = []
        self._lives: list[hours.Life] = []

    def add(self, demand: Demand, made: Decision, took_s: float, size: str, amount: float) -> None:
        """:param size: what one instance or volume asks for, in words; ``amount`` is the part that is counted in hours"""
        number = len(demand.lifetimes_s)
        self._took_s.append(took_s)
        self.requests += 1
        self._lives += [hours.Life(demand.at_s, life_s, amount, made.complete) for life_s in demand.lifetimes_s]
        if made.complete:
            self.requests_placed += 1
            self.placed += number
            return
        assert made.refusal is not None
        self.refused += number
        self._reasons[made.refusal.code.value] += number
        self._sizes[size] += number
        if len(self._unplaced) < _NAMED:
            self._unplaced.append(f"{demand.name}: {made.reason}" if demand.name else made.reason)

    def figures(self) -> dict[str, object]:
        """Return numbers, and sentences for people."""
        return {
            "requests": self.requests,
            "requests_placed": self.requests_placed,
            "placed": self.placed,
            "refused": self.refused,
            "refused_by_reason": dict(self._reasons),
            "refused_by_size": dict(self._sizes.most_common()),
            "unplaced": self._unplaced,
            "decision_ms": round(statistics.median(self._took_s) * 1000, 3) if self._took_s else None,
        }

    def hours(self, unit: str) -> dict[str, float]:
        """Return the amounts times hours of the trace, until the last request."""
        return hours.figures(unit, self._lives, max((each.at_s for each in self._lives), default=0.0))
