# SPDX-License-Identifier: Apache-2.0
"""A problem of items on places: what an assignment must keep, and what it costs.

It knows no host and no guest. Called by the modules beside it and those of :mod:`scheduler.compute.planning.moves`.

The form covers the machine reassignment problem of the ROADEF/EURO challenge 2012, whose terms are used here: capacity and
safety capacity, balance of two resources, transient resources, conflict, spread and dependency of groups, and moves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy

#: Row of ``group_of`` of an item that is in no group.
NO_GROUP = -1
#: In ``most``: a place may have any number of members.
ANY_NUMBER = 2**14


@dataclasses.dataclass(frozen=True)
class Terms:
    """Cost of a place: the sum over terms of weight × max(0, offset + use · slope).

    :param offset: places × terms
    :param slope: resources × terms
    :param weight: terms, or places × terms
    """

    offset: numpy.ndarray
    slope: numpy.ndarray
    weight: numpy.ndarray

    def bound(self, use: numpy.ndarray) -> float:
        """Return a lower bound of the cost of all places: max(0, x) is convex, and the sum of all uses is fixed.

        :param use: of all items together, by resource
        """
        total = numpy.maximum(self.offset.sum(axis=0) + use @ self.slope, 0)
        weight = self.weight if self.weight.ndim == 1 else self.weight.min(axis=0)
        return float(total @ weight)


@dataclasses.dataclass(frozen=True)
class Groups:
    """Items of one group, and what holds among them.

    :param most: groups: members that one place may have
    :param spread: groups: their members are at no fewer different locations
    :param depends: groups: the groups that must have a member in each neighbourhood where this one has one
    :param location, hood: places: location and neighbourhood
    """

    most: numpy.ndarray
    spread: numpy.ndarray
    depends: Sequence[Sequence[int]]
    location: numpy.ndarray
    hood: numpy.ndarray

    @classmethod
    def apart(cls, most: Sequence[int], places: int) -> Groups:
        """Return groups whose only rule is a limit on the number of members in one place."""
        nothing = numpy.zeros(places, dtype=int)
        number = len(most)
        return cls(numpy.array(most, dtype=int), numpy.zeros(number, dtype=int), [()] * number, nothing, nothing.copy())


@dataclasses.dataclass(frozen=True)
class MoveCosts:
    """Costs of items that are not at their first places.

    :param item: items: cost of leaving the first place
    :param distance: places × places: more, by first place and new place; None: nothing
    :param group: weight of the most items of one group that have left
    """

    item: numpy.ndarray
    distance: numpy.ndarray | None = None
    group: float = 0.0


@dataclasses.dataclass(frozen=True)
class Problem:
    """:param need: items × resources
    :param capacity: places × resources
    :param start: items: the place of each at the beginning, which must keep all rules
    :param transient: resources: whether an item that has left its first place still counts there
    :param fits: shapes × places: whether an item of this shape may be there, whatever the others do
    :param shape_of: items: row of ``fits``
    :param group_of: items: group, or NO_GROUP
    """

    need: numpy.ndarray
    capacity: numpy.ndarray
    start: numpy.ndarray
    transient: numpy.ndarray
    terms: Terms
    moves: MoveCosts
    groups: Groups
    group_of: numpy.ndarray
    fits: numpy.ndarray
    shape_of: numpy.ndarray

    @property
    def items(self) -> int:
        return len(self.need)

    @property
    def places(self) -> int:
        return len(self.capacity)

    @property
    def movable(self) -> numpy.ndarray:
        """The items that may be at more than one place."""
        return numpy.flatnonzero(self.fits.sum(axis=1)[self.shape_of] > 1)
