# SPDX-License-Identifier: Apache-2.0
"""The cheapest items that must leave the places which hold too much.

Each place must lose such items in any plan, so their cost is a bound; and a plan that finds places for them is the best
there is. Called by :mod:`scheduler.compute.planning.moves.goals`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy

from scheduler.planning.search import bounds
from scheduler.planning.search.assignment import Assignment
from scheduler.planning.search.problem import Problem

#: Numbers in the tables of one place, at most.
_MOST = 4_000_000
#: Amounts in units that differ by less are equal.
_EXACT = 1e-9


@dataclasses.dataclass(frozen=True)
class Leaving:
    """:param choices: items that leave: the fewest, and those that find places most easily. They are without those of
        places for which no choice was found
    :param least: what the moves of any plan cost at least
    """

    choices: Sequence[numpy.ndarray] = ()
    least: float = 0.0


def cheapest(problem: Problem, excess: numpy.ndarray) -> Leaving:
    """:param excess: places × resources: how much must leave; 0 or less for nothing"""
    few, small, least = [], [], 0.0
    for place in numpy.flatnonzero((excess > 0).any(axis=1)).tolist():
        items, lack = numpy.flatnonzero(problem.start == place), excess[place]
        need, cost = problem.need[items], problem.moves.item[items]
        found = _covering(need, cost + 1 / (len(items) + 1), lack)
        if found is None:
            # Fractions of items, for one resource at a time.
            least += max(bounds.fraction(problem, items, each, much) for each, much in enumerate(lack.tolist()))
            continue
        least += float(cost[found].sum())
        few.append(items[found])
        small.append(items[_covering(need, cost + _bulk(need), lack)])
    return Leaving([numpy.concatenate(each) for each in (few, small) if each], least)


def _bulk(need: numpy.ndarray) -> numpy.ndarray:
    """Return less than 1 for all items together: of choices that cost the same, it decides for the smaller items."""
    share = need / numpy.maximum(need.sum(axis=0), 1)
    bulk: numpy.ndarray = (share + share**2).sum(axis=1) / (2 * need.shape[1] + 1)
    return bulk


def _covering(need: numpy.ndarray, cost: numpy.ndarray, lack: numpy.ndarray) -> numpy.ndarray | None:
    """Return which items are the cheapest that hold what is lacking; None if they do not, or the table would be too large.

    A 0-1 knapsack by dynamic programming: the least cost of each amount, in units that divide all items.
    """
    held, lacking = need[:, lack > 0], lack[lack > 0]
    if (held.sum(axis=0) < lacking).any():
        return None
    unit = numpy.maximum(numpy.gcd.reduce(held, axis=0), 1)
    wanted = numpy.ceil(lacking / unit - _EXACT).astype(int)
    if (math.prod((wanted + 1).tolist())) * len(need) > _MOST:
        return None
    least = numpy.full(wanted + 1, numpy.inf)
    least[(0,) * len(wanted)] = 0
    takes = []
    parts = (held // unit).tolist()
    for part, price in zip(parts, cost.tolist(), strict=True):
        rest = (numpy.maximum(numpy.arange(most + 1) - of, 0) for most, of in zip(wanted, part, strict=True))
        taken = least[numpy.ix_(*rest)] + price
        takes.append(taken < least)
        least = numpy.minimum(least, taken)
    chosen, left = numpy.zeros(len(need), dtype=bool), wanted
    for number in reversed(range(len(need))):
        if takes[number][tuple(left)]:
            chosen[number] = True
            left = numpy.maximum(left - parts[number], 0)
    return chosen


def leave(now: Assignment, items: numpy.ndarray) -> None:
    """Move the items, the largest first, to where they raise the cost least; of several places to the emptiest.

    An item for which no place has room, or the rules allow none, stays.
    """
    problem = now.problem
    capacity = numpy.maximum(problem.capacity, 1)
    size = (problem.need[items] / capacity.mean(axis=0)).max(axis=1)
    for item in items[numpy.lexsort((items, -size))].tolist():
        may, change = now.targets(numpy.array([item]), 0, problem.places)
        share = ((now.use + now.need[item]) / capacity).max(axis=1)
        cost = numpy.where(may[0], change[0], numpy.inf)
        for place in numpy.lexsort((share, cost)).tolist():
            if cost[place] >= 0:
                break
            if now.may(item, place):
                now.move(item, place)
                break
