# SPDX-License-Identifier: Apache-2.0
"""Steepest descent: the costliest place gives the item away that lowers the cost most, or swaps it, until none does.

Called by :mod:`scheduler.compute.planning.moves.goals`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy

from scheduler.planning.search.assignment import Assignment

#: Improvements below this share of the cost count as none.
_NOTHING = 1e-9


def descend(
    now: Assignment, most_moves: int, until: float, clock: Callable[[], float] = time.monotonic, enough: float = 0.0
) -> None:
    """Change the assignment. :param enough: stop when the cost is not above"""
    problem = now.problem
    movable = problem.fits[problem.shape_of].any(axis=1)
    stuck = numpy.zeros(problem.places, dtype=bool)
    while clock() < until and now.moved < most_moves:
        price = numpy.where(stuck, -math.inf, now.cost_of)
        place = int(price.argmax())
        if price[place] <= 0 or float(now.cost_of.sum()) <= enough:
            return
        items = numpy.flatnonzero((now.at == place) & movable)
        if len(items) and (_moved(now, items) or (now.moved + 2 <= most_moves and _swapped(now, items))):
            stuck[:] = False
        else:
            stuck[place] = True


def _moved(now: Assignment, items: numpy.ndarray) -> bool:
    may, change = now.targets(items, 0, now.problem.places)
    change = numpy.where(may, change, math.inf)
    least = -_NOTHING * max(now.cost(), 1.0)
    for row, place in _best(change, least):
        if now.may(int(items[row]), place):
            now.move(int(items[row]), place)
            return True
    return False


def _swapped(now: Assignment, items: numpy.ndarray) -> bool:
    least = -_NOTHING * max(now.cost(), 1.0)
    for item in items.tolist():
        may, change = now.swaps(numpy.array([item]), 0, now.problem.items)
        for _row, other in _best(numpy.where(may, change, math.inf), least):
            if now.swap(item, other):
                return True
    return False


def _best(change: numpy.ndarray, least: float, number: int = 8) -> list[tuple[int, int]]:
    """Return the positions of the lowest changes below ``least``, the lowest first."""
    flat = numpy.argsort(change, axis=None, kind="stable")[:number]
    rows, columns = numpy.unravel_index(flat, change.shape)
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return [(row, column) for row, column in pairs if change[row, column] < least]
