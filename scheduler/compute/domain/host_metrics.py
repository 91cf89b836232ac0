# SPDX-License-Identifier: Apache-2.0
"""Reads the metrics that hosts report: a list of ``name``, ``value``, ``timestamp``, ``source``.

Called by :mod:`scheduler.compute.filters.metrics` and :mod:`scheduler.compute.weights.metrics`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping


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
    """Return the values by name. A metric whose value is not a finite number is left out."""
    found: dict[str, float] = {}
    for metric in metrics or ():
        value = metric.get("value")
        if isinstance(value, int | float) and math.isfinite(value):
            found[str(metric.get("name"))] = float(value)
    return found
