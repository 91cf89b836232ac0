# SPDX-License-Identifier: Apache-2.0
"""Metrics as hosts report them: a list of ``name``, ``value``, ``timestamp``, ``source``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any


def values(metrics: Iterable[Mapping[str, Any]] | None) -> dict[str, float]:
    """By name; what is not a number counts as not reported."""
    found: dict[str, float] = {}
    for metric in metrics or ():
        value = metric.get("value")
        if isinstance(value, int | float) and math.isfinite(value):
            found[str(metric.get("name"))] = float(value)
    return found
