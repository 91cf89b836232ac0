# SPDX-License-Identifier: Apache-2.0
"""Counts the instances of each shape that fit into free resources, by integer tables.

Called by :mod:`scheduler.compute.weights.fragmentation`. There is one table for each resource, with a column for each
shape. Amounts are counted in steps of the largest size that divides the sizes of all shapes. A host then costs two
look-ups for each resource, and no division.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy

#: As many instances as fit, where the shape takes nothing of the resource, and the most that is counted.
UNLIMITED = 32767
#: A resource with more steps than this is divided instead.
_MOST_STEPS = 2**16


class Slots:
    """The table of one resource.

    :param sizes: what each shape takes of it; whole numbers, 0 for nothing
    :param most: the largest free amount that is asked about
    :ivar counts: how many instances of each shape fit: a row per class of amounts, a column per shape. Amounts of one
        class fit the same instances. None if there are too many steps
    """

    def __init__(self, sizes: Sequence[int], most: float) -> None:
        self.most = max(most, 0.0)
        self.sizes = numpy.array(sizes, dtype=numpy.int64)
        self._unit = math.gcd(*sizes) or 1
        #: Whether the reciprocal is exact, so that a multiplication, which is faster, divides.
        self._exact = self._unit & (self._unit - 1) == 0
        steps = int(most // self._unit) + 1 if most > 0 else 1
        self.counts: numpy.ndarray | None = None
        #: The class of each step.
        self._class_of = numpy.empty(0, dtype=numpy.intp)
        if steps <= _MOST_STEPS:
            of_steps = self._divided(numpy.arange(steps) * self._unit)
            begins = numpy.append(True, (of_steps[1:] != of_steps[:-1]).any(axis=1))
            self.counts, self._class_of = of_steps[begins], numpy.cumsum(begins) - 1

    def classes(self, free: numpy.ndarray) -> numpy.ndarray:
        """Return the row of ``counts`` of each of these amounts. Call it only if there are counts."""
        places = numpy.minimum(free, self.most)
        if self._unit > 1:
            places = places * (1.0 / self._unit) if self._exact else places / self._unit
        # Less than nothing fits as little as nothing.
        found: numpy.ndarray = self._class_of.take(places.astype(numpy.intp), mode="clip")
        return found

    def of(self, free: numpy.ndarray) -> numpy.ndarray:
        """Return how many instances of each shape fit into each of these amounts: a row per amount, a column per shape."""
        if self.counts is None:
            return self._divided(free)
        found: numpy.ndarray = self.counts.take(self.classes(free), axis=0)
        return found

    def _divided(self, free: numpy.ndarray) -> numpy.ndarray:
        whole = numpy.clip(free, 0, None).astype(numpy.int64)[:, None]
        found = numpy.where(self.sizes > 0, whole // numpy.maximum(self.sizes, 1), UNLIMITED)
        return numpy.minimum(found, UNLIMITED).astype(numpy.int16)
