# SPDX-License-Identifier: Apache-2.0
"""From raw weights to contributions, and from scores to the best hosts.

Scores equal those of the obvious loop over hosts bit by bit: normalise, multiply, add in the configured order. A faster
formula would round differently, and break ties differently.
"""

from __future__ import annotations

import random
from typing import Any

import numpy

from scheduler.engine.domain import Normalisation

#: The smallest and the largest of some numbers.
Bounds = tuple[float, float]
_FEW = 6


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


def contribution(raw: Any, low: Any, high: Any, multiplier: Any) -> Any:
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


def best(scores: numpy.ndarray, count: int, shuffle: random.Random | None = None) -> numpy.ndarray:
    """Return the positions of the ``count`` highest scores, best first, equal ones in their order. No full sort.

    :param scores: written to meanwhile, and then restored
    :param shuffle: puts the hosts that share the highest score in random order, so that equal hosts take turns
    """
    if shuffle is not None:
        return _best_shuffled(scores, count, shuffle)
    if count == 1:
        return numpy.array([scores.argmax()])
    if count >= len(scores):
        return numpy.argsort(-scores, kind="stable")
    if count <= _FEW:
        return _best_few(scores, count)
    threshold = numpy.partition(scores, len(scores) - count)[len(scores) - count]
    above = numpy.flatnonzero(scores > threshold)
    equal = numpy.flatnonzero(scores == threshold)[: count - len(above)]
    return numpy.concatenate((above[numpy.argsort(-scores[above], kind="stable")], equal))


def _best_few(scores: numpy.ndarray, count: int) -> numpy.ndarray:
    """Take the first highest score again and again: for a few hosts far cheaper than a partition, or than a copy."""
    found: list[int] = []
    values: list[float] = []
    for _number in range(count):
        found.append(int(scores.argmax()))
        values.append(scores[found[-1]])
        scores[found[-1]] = -numpy.inf
    for position, value in zip(reversed(found), reversed(values), strict=True):
        scores[position] = value
    return numpy.array(found, dtype=numpy.intp)


def _best_shuffled(scores: numpy.ndarray, count: int, chance: random.Random) -> numpy.ndarray:
    equal = numpy.flatnonzero(scores == scores.max()).tolist()
    chance.shuffle(equal)
    if len(equal) >= count:
        return numpy.array(equal[:count])
    return numpy.concatenate((equal, best(scores, count)[len(equal) :]))
