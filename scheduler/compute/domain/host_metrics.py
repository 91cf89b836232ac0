# SPDX-License-Identifier: Apache-2.0
"""Read the metrics that hosts report: a list of ``name``, ``value``, ``timestamp``, ``source``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping


def values(metrics: Iterable[Mapping[str, object]] | None) -> dict[str, float]:
    """Return the values by name. A metric whose value is not a finite number is left out."""
    found: dict[str, float] = {}
    for metric in metrics or ():
        value = metric.get("value")
        if isinstance(value, int | float) and math.isfinite(value):
            found[str(metric.get("name"))] = float(value)
    return found
