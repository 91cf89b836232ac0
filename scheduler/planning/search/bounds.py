# SPDX-License-Identifier: Apache-2.0
"""Bounds of all plans by sums alone: rules and the sizes of single items can only make a plan worse.

Called by :mod:`scheduler.compute.planning.moves.goals` and :mod:`scheduler.planning.search.goals`.
"""

from __future__ import annotations

import math

import numpy

from scheduler.planning.search.problem import Problem


def most_emptied(
    problem: Problem, donors: numpy.ndarray, closed: numpy.ndarray, unused: numpy.ndarray, most_moves: int
) -> int:
    """Return by how many places the empty ones can become more.

    The items of the places with the fewest items must not be more than the moves; and all items of donors must have room
    on what is left: on places that take items and stay.

    :param unused: places without items that could take some, whatever ``closed`` says
    """
    number = numpy.sort(numpy.bincount(problem.start, minlength=problem.places)[donors])
    most = int(numpy.searchsorted(numpy.cumsum(number), most_moves, side="right"))
    use = numpy.zeros(problem.capacity.shape)
    numpy.add.at(use, problem.start, problem.need)
    takes = ~closed | unused
    takes[donors] = True
    could = unused.copy()
    could[donors] = True
    # The room that is free where items may go, and what the empty places of the end have: they give it up.
    for resource in range(problem.need.shape[1]):
        spare = numpy.maximum(problem.capacity[:, resource] - use[:, resource], 0)
        given_up = numpy.sort(numpy.maximum(problem.capacity[could, resource], 0))
        empty = int(numpy.searchsorted(numpy.cumsum(given_up), spare[takes].sum(), side="right"))
        most = min(most, empty - int(unused.sum()))
    return max(most, 0)


def most_on(problem: Problem, need: numpy.ndarray, fits: numpy.ndarray, most_on_one: numpy.ndarray) -> numpy.ndarray:
    """Return for each place that fits how many new items it could have if all its items left."""
    wanted, most = need > 0, most_on_one[fits]
    if not wanted.any():
        return most
    alone = (problem.capacity[fits][:, wanted] // need[wanted]).min(axis=1)
    return numpy.minimum(numpy.maximum(alone, 0), most)


def most_room(problem: Problem, need: numpy.ndarray, fits: numpy.ndarray, most_on_one: numpy.ndarray) -> int:
    """Return for how many new items there can be room: each place alone, if all its items left; and all free room.

    :param most_on_one: places: new items that the rules let be there
    """
    wanted, alone = need > 0, most_on(problem, need, fits, most_on_one)
    if not wanted.any():
        return int(alone.sum())
    use = numpy.zeros(problem.capacity.shape)
    numpy.add.at(use, problem.start, problem.need)
    free = numpy.maximum(problem.capacity - use, 0).sum(axis=0)
    return int(min(alone.sum(), (free[wanted] // need[wanted]).min()))


def least_moved(
    problem: Problem, need: numpy.ndarray, fits: numpy.ndarray, most_on_one: numpy.ndarray, number: int
) -> float:
    """Return the least cost of moves that gives ``number`` new items room.

    A place that lacks an amount must lose items that hold it: as fractions, the cheapest for the amount. Of each place the
    costs of one, two, … new items are made convex; the cheapest of all places together are a bound (the linear relaxation
    of a multiple-choice knapsack).
    """
    use = numpy.zeros(problem.capacity.shape)
    numpy.add.at(use, problem.start, problem.need)
    free = problem.capacity - use
    wanted = numpy.flatnonzero(need > 0)
    steps: list[float] = []
    by_place = numpy.argsort(problem.start, kind="stable")
    ends = numpy.searchsorted(problem.start[by_place], numpy.arange(problem.places + 1))
    for place in numpy.flatnonzero(fits).tolist():
        items = by_place[ends[place] : ends[place + 1]]
        alone = (problem.capacity[place, wanted] // need[wanted]).min(initial=number)
        costs = [0.0]
        for count in range(1, int(min(alone, most_on_one[place], number)) + 1):
            lack = need * count - free[place]
            costs.append(max(fraction(problem, items, resource, lack[resource]) for resource in wanted.tolist()))
        steps += _convex(costs)
    return float(numpy.sort(steps)[:number].sum()) if steps else 0.0


def fraction(problem: Problem, items: numpy.ndarray, resource: int, lack: float) -> float:
    """Return the least cost of items, or parts of them, that hold ``lack`` of a resource; at least that of one item.

    Whole items hold a multiple of what divides all their amounts, so ``lack`` counts as the next multiple.
    """
    if lack <= 0:
        return 0.0
    held, cost = problem.need[items, resource], problem.moves.item[items].astype(float)
    some = held > 0
    if not some.any() or held.sum() < lack:
        return math.inf
    held, cost = held[some], cost[some]
    unit = int(numpy.gcd.reduce(held))
    lack = unit * math.ceil(lack / unit - 1e-9)
    order = numpy.argsort(cost / held, kind="stable")
    held, cost = held[order], cost[order]
    sums = numpy.cumsum(held)
    last = int(numpy.searchsorted(sums, lack))
    before = sums[last - 1] if last else 0.0
    return max(float(cost[:last].sum() + cost[last] * (lack - before) / held[last]), float(cost.min()))


def _convex(costs: list[float]) -> list[float]:
    """Return the steps of the largest convex function that is nowhere above these costs."""
    hull: list[tuple[int, float]] = []
    for number, cost in enumerate(costs):
        if cost == math.inf:
            break
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], (number, cost)):
            hull.pop()
        hull.append((number, cost))
    steps: list[float] = []
    for one, two in zip(hull, hull[1:], strict=False):
        steps += [_slope(one, two)] * (two[0] - one[0])
    return steps


def _slope(one: tuple[int, float], two: tuple[int, float]) -> float:
    return (two[1] - one[1]) / (two[0] - one[0])
