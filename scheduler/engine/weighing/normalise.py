# SPDX-License-Identifier: Apache-2.0
"""From raw weights to contributions and scores.

Called by :mod:`scheduler.engine.weighing.weighers` and :mod:`scheduler.engine.weighing.weighing`. Scores equal those
of the obvious loop over hosts bit by bit: normalise, multiply, add in the configured order. A faster formula would
round differently, and break ties differently.
"""

from __future__ import annotations

from typing import Any

import numpy

from scheduler.engine.hosts.domain import Normalisation

#: The smallest and the largest of some numbers.
Bounds = tuple[float, float]


def observed(raw: numpy.ndarray) -> Bounds:
    """Return the smallest and the largest raw weight. Either is NaN if any raw weight is. ``raw`` is not empty."""
    # On few hosts, finding the position is much faster than reducing.
    return float(raw[raw.argmin()]), float(raw[raw.argmax()])


def bounds(seen: Bounds, minval: float | None, maxval: float | None, policy: Normalisation = "clamp") -> Bounds:
    """Return the range that is normalised to 0..1.

    A bound that the weigher does not fix is the observed one. Source: nova since Newton for ``clamp``, cinder for
    ``widen``. With ``none`` the range is 0..1 itself, so raw weights stay as they are.
    """
    if policy == "none":
        return 0.0, 1.0
    low = seen[0] if minval is None else float(minval)
    high = seen[1] if maxval is None else float(maxval)
    if policy == "widen":
        return min(low, seen[0]), max(high, seen[1])
    if minval is not None and maxval is None:
        high = max(high, low)
    if maxval is not None and minval is None:
        low = min(low, high)
    return low, high


def clamped(raw: Any, low: Any, high: Any, policy: Normalisation = "clamp") -> Any:
    """Return raw weights within the bounds; the other policies have none outside that count."""
    return numpy.minimum(numpy.maximum(raw, low), high) if policy == "clamp" else raw


def contribution(raw: object, low: Any, high: object, multiplier: Any) -> Any:
    """Return ``multiplier * (raw - low) / (high - low)``: what a weigher adds to the score of each host.

    This is the one formula of the engine. Arguments are numbers or arrays that numpy broadcasts against each other, such
    as a matrix of raw weights with a row per weigher. ``raw`` is :func:`clamped`, and ``low < high``.
    """
    return multiplier * ((raw - low) / (high - low))


def total(contributions: Any, size: int) -> numpy.ndarray:
    """Return the sum of the weighers' contributions, added in their order. A new array."""
    scores = numpy.zeros(size)
    for each in contributions:
        scores += each
    return scores
