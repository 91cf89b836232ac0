# SPDX-License-Identifier: Apache-2.0
"""Results of the newest proof of the promises, and its age: for ``fleet doctor``, and as metrics.

:mod:`scheduler.compute.planning.losses.promises` writes it. :mod:`scheduler.compute.drivers.filter_scheduler` reads it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from fleet.telemetry import metrics
from scheduler.planning.survival.room import Verdict

#: Guests, and hosts, that are named.
_SHOWN = 5000


class ProofReport:
    """Written by one thread, read by others. :param clock: in seconds; it is never stepped"""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: Mapping[str, int | list[str]] | None = None
        self._since_s: float | None = None

    @property
    def age_s(self) -> float:
        """Seconds since the promises were last proved, or since the first try if they were never; 0: nothing is promised."""
        return 0.0 if self._since_s is None else self._clock() - self._since_s

    def answer(self) -> Mapping[str, int | list[str]] | None:
        """Return the losses by verdict, the guests without a place, and the age of the proof; None: nothing is promised."""
        return None if self._found is None else {**self._found, "age": int(self.age_s)}

    def nothing_promised(self) -> None:
        if self._found is not None:
            self._found = None
            _count({}, 0)
        self._since_s = None
        metrics.TOLERANCE_PROVED_AT.set_to_current_time()

    def missing(self, promises: int) -> None:
        """Nothing is proved yet: each of the promises counts as one loss that is not proved."""
        if self._since_s is None:
            self._since_s = self._clock()
        self._take({Verdict.NOT_PROVED: promises}, (), ())

    def proved(self, counts: Mapping[Verdict, int], lacking: Collection[str], unknown: Collection[str]) -> None:
        """:param lacking: guests without a place; ``unknown``: hosts without a proof"""
        self._take(counts, lacking, unknown)
        self.confirmed()

    def confirmed(self) -> None:
        """The newest proof holds still."""
        self._since_s = self._clock()
        metrics.TOLERANCE_PROVED_AT.set_to_current_time()

    def _take(self, counts: Mapping[Verdict, int], lacking: Collection[str], unknown: Collection[str]) -> None:
        self._found = {
            **_count(counts, len(lacking)),
            "guests without a place": sorted(lacking)[:_SHOWN],
            "hosts without a proof": sorted(unknown)[:_SHOWN],
        }


def _count(counts: Mapping[Verdict, int], lacking: int) -> dict[str, int]:
    """Set the gauges, and return the counts."""
    found = {verdict.value: counts.get(verdict, 0) for verdict in Verdict}
    for name, number in found.items():
        metrics.TOLERANCE_LOSSES.labels(name).set(number)
    metrics.TOLERANCE_UNPROTECTED.set(lacking)
    return {**found, "unprotected guests": lacking}
