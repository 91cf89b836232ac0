# SPDX-License-Identifier: Apache-2.0
"""From raw weights to one score per host, and from scores to the best hosts.

Scores are computed exactly as the obvious loop over hosts would: normalise, multiply, add in the configured order. A
faster formula would round differently and break ties differently.
"""

from __future__ import annotations

import random

import numpy

Bounds = tuple[float, float]
_FEW = 6


def spread(raw: numpy.ndarray) -> Bounds:
    """The smallest and the largest; not numbers if one of ``raw`` is not. ``raw`` is not empty."""
    # To find the place is much faster than to reduce, on few hosts; a number that is none is found by both.
    return float(raw[raw.argmin()]), float(raw[raw.argmax()])


def bounds(found: Bounds, minval: float | None, maxval: float | None) -> Bounds:
    """The range that becomes 0..1; a bound that the weigher does not fix is what was ``found``."""
    low = found[0] if minval is None else float(minval)
    high = found[1] if maxval is None else float(maxval)
    if minval is not None and maxval is None:
        high = max(high, low)
    if maxval is not None and minval is None:
        low = min(low, high)
    return low, high


def normalise(raw: numpy.ndarray, within: Bounds, found: Bounds) -> numpy.ndarray:
    """0..1; all 0 if there is no spread. ``found`` is the :func:`spread` of ``raw``."""
    low, high = within
    if low == high:
        return numpy.zeros(len(raw))
    if found[0] < low or found[1] > high:
        raw = numpy.clip(raw, low, high)
    # Taking 0 off changes nothing but the time.
    normal = raw - low if low else raw
    return normal / (high - low)


def best(scores: numpy.ndarray, count: int, shuffle: random.Random | None = None) -> numpy.ndarray:
    """Positions of the ``count`` highest scores, best first; equal ones in their order. No full sort.

    :param scores: are written to meanwhile, and then as they were
    :param shuffle: puts those that share the highest score in any order, so that equal hosts take turns
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
    """The first highest, again and again: for a few, far cheaper than a partition, or than a copy of them all."""
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
