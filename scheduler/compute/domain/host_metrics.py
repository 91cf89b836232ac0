# SPDX-License-Identifier: Apache-2.0
"""Reads the metrics that hosts report: a list of ``name``, ``value``, ``timestamp``, ``source``.

Called by :mod:`scheduler.compute.filters.metrics` and :mod:`scheduler.compute.weights.metrics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: No measurement is larger. Sums, products with ratios and differences of the values that count stay finite.
_MOST = 1e100


class HostMetric(dict[str, object]):
    """One metric, with attributes too: nova's later plugins read ``metric.name``."""

    @property
    def name(self) -> object:
        return self.get("name")

    @property
    def value(self) -> object:
        return self.get("value")


class HostMetrics(list[HostMetric]):
    """The metrics of a host in the form that plugins read; a copy."""

    def __init__(self, metrics: Iterable[Mapping[str, object]] = ()) -> None:
        super().__init__(map(HostMetric, metrics))


def values(metrics: Iterable[Mapping[str, object]] | None) -> dict[str, float]:
    """Return the values by name. What is no finite number, or larger than any measurement, is left out."""
    found: dict[str, float] = {}
    for metric in metrics or ():
        value = metric.get("value")
        if isinstance(value, int | float) and abs(value) <= _MOST:
            found[str(metric.get("name"))] = float(value)
    return found
