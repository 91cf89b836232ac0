# SPDX-License-Identifier: Apache-2.0
"""Two goals over clearings: empty many places, and make room for new items.

Called by :mod:`scheduler.compute.planning.moves.goals`. Orders are tried until the time is over.

The first order is the obvious one; each later one is the first with noise. The best result is kept: more of the goal, then
less that moves.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence

import numpy

from scheduler.planning.search import bounds
from scheduler.planning.search.clearing import Clearing
from scheduler.planning.search.problem import Problem

#: Size of the noise of later orders, and how many orders are tried at most.
_NOISE, _ORDERS = 0.5, 200
#: Places that are tried to make room for one item.
_TRIED = 32


@dataclasses.dataclass(frozen=True)
class Result:
    """:param at: items: places afterwards
    :param places: that are empty, or that have room for a new item (one for each)
    :param cost: of the items that move, by ``MoveCosts.item``
    :param kept: places that were tried in vain with the best order
    """

    at: numpy.ndarray
    places: Sequence[int]
    cost: float
    kept: Sequence[int] = ()

    @property
    def order(self) -> tuple[float, float]:
        return -len(self.places), self.cost


@dataclasses.dataclass(frozen=True)
class Limits:
    """:param until: what the clock shows when the search ends; ``most_moves``: items that may move"""

    until: float
    most_moves: int
    clock: Callable[[], float] = time.monotonic


def _best(
    tried: Callable[[int, numpy.random.Generator | None], Result],
    limits: Limits,
    bound: tuple[float, float],
    kinds: int,
) -> Result:
    """:param tried: tries an order of one of the ``kinds``, with noise or without
    :param bound: an order that no result is below: at it, the search ends
    """
    chance = numpy.random.default_rng(1)
    best = tried(0, None)
    for number in range(1, _ORDERS):
        if limits.clock() >= limits.until or best.order <= bound:
            break
        found = tried(number % kinds, chance if number >= kinds else None)
        best = min(best, found, key=lambda each: each.order)
    return best


def empty_places(
    problem: Problem, donors: numpy.ndarray, closed: numpy.ndarray, wanted: int | None, limits: Limits
) -> Result:
    """Empty as many places as possible, or ``wanted``.

    :param donors: places that may be emptied
    :param closed: places that take nothing
    """
    number = numpy.bincount(problem.start, minlength=problem.places)
    cost = numpy.bincount(problem.start, weights=problem.moves.item, minlength=problem.places)
    most = len(donors) if wanted is None else wanted

    def tried(kind: int, chance: numpy.random.Generator | None) -> Result:
        clearing = _clearing(problem, closed, limits, chance)
        # By what moves, or by the number of moves.
        size = (number if kind else cost)[donors] * _noise(chance, len(donors))
        emptied: list[int] = []
        kept: list[int] = []
        receives = numpy.zeros(problem.places, dtype=bool)
        for place in donors[numpy.lexsort((donors, cost[donors], number[donors], size))].tolist():
            if len(emptied) >= most or (emptied and limits.clock() >= limits.until):
                break
            before = clearing.mark
            if not receives[place] and clearing.emptied(place):
                emptied.append(place)
                receives |= clearing.received() if clearing.mark > before else False
            else:
                kept.append(place)
        return _result(problem, clearing, emptied, kept)

    none = numpy.zeros(problem.places, dtype=bool)
    fewest = min(bounds.most_emptied(problem, donors, closed, none, limits.most_moves), most)
    least = float(numpy.sort(cost[donors])[:fewest].sum())
    return _best(tried, limits, (-fewest, least), kinds=2)


def make_room(
    problem: Problem, need: numpy.ndarray, fits: numpy.ndarray, most_on_one: numpy.ndarray, wanted: int, limits: Limits
) -> Result:
    """Make room for ``wanted`` new items of the same need.

    :param fits: places: the rules let a new item be there
    :param most_on_one: places: new items that each may have
    """

    def tried(_kind: int, chance: numpy.random.Generator | None) -> Result:
        clearing = _clearing(problem, numpy.zeros(problem.places, dtype=bool), limits, chance)
        placed: list[int] = []
        new = numpy.zeros(problem.places, dtype=int)
        kept: list[int] = []
        while len(placed) < wanted:
            place = _with_room(clearing, need, fits & (new < most_on_one))
            if place is None:
                place = _cleared(clearing, need, fits & (new < most_on_one), chance, limits, kept)
            if place is None:
                break
            new[place] += 1
            clearing.kept[place] += need
            placed.append(place)
        return _result(problem, clearing, placed, kept)

    fewest = min(wanted, bounds.most_room(problem, need, fits, most_on_one))
    least = bounds.least_moved(problem, need, fits, most_on_one, fewest)
    return _best(tried, limits, (-fewest, least), kinds=1)


def _with_room(clearing: Clearing, need: numpy.ndarray, fits: numpy.ndarray) -> int | None:
    """Return the fullest place that has room now."""
    free = clearing.now.free - clearing.kept
    places = numpy.flatnonzero(fits & (free >= need).all(axis=1))
    if not len(places):
        return None
    left = ((free[places] - need) / numpy.maximum(clearing.problem.capacity[places], 1)).sum(axis=1)
    return int(places[left.argmin()])


def _cleared(
    clearing: Clearing,
    need: numpy.ndarray,
    fits: numpy.ndarray,
    chance: numpy.random.Generator | None,
    limits: Limits,
    kept: list[int],
) -> int | None:
    """Make room at the place where least must move, of those that lack least; None if there is none."""
    problem = clearing.problem
    lack = numpy.maximum(need - (clearing.now.free - clearing.kept), 0)
    share = (lack / numpy.maximum(need, 1)).sum(axis=1) * _noise(chance, problem.places)
    share[~(fits & (problem.capacity - clearing.kept >= need).all(axis=1))] = math.inf
    best: tuple[float, int, list[int]] | None = None
    tried = [place for place in numpy.argsort(share, kind="stable")[:_TRIED].tolist() if share[place] < math.inf]
    for place in tried:
        for order in _orders(clearing, place, lack[place]):
            mark, before = clearing.mark, clearing.now.cost()
            if clearing.made_room(place, need, order):
                cost = clearing.now.cost() - before
                clearing.undo(mark)
                if best is None or (cost, place) < best[:2]:
                    best = cost, place, order
        if best is not None and limits.clock() >= limits.until:
            break
    if best is None:
        kept += tried
        return None
    clearing.made_room(best[1], need, best[2])
    return best[1]


def _orders(clearing: Clearing, place: int, lack: numpy.ndarray) -> list[list[int]]:
    """Return orders in which items may leave: single ones that are enough, the cheapest first; the large; the small."""
    orders, cost = clearing.orders_at(place), clearing.problem.moves.item
    items = orders[0]
    enough = [each for each in items if (clearing.problem.need[each] >= lack).all()]
    singles = sorted(enough, key=lambda each: (cost[each], each))[:3]
    return [*([each] for each in singles), *orders, items[::-1]]


def _clearing(
    problem: Problem, closed: numpy.ndarray, limits: Limits, chance: numpy.random.Generator | None
) -> Clearing:
    noise = None if chance is None else functools.partial(_noise, chance)
    return Clearing(problem, closed, limits.most_moves, noise)


def _noise(chance: numpy.random.Generator | None, number: int) -> numpy.ndarray:
    return numpy.ones(number) if chance is None else numpy.exp(_NOISE * chance.standard_normal(number))


def _result(problem: Problem, clearing: Clearing, places: Sequence[int], kept: Sequence[int]) -> Result:
    moved = clearing.now.at != problem.start
    return Result(clearing.now.at.copy(), list(places), float(problem.moves.item[moved].sum()), list(kept))
