# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing that passes through places which hold too much, and comes back.

Called by :mod:`scheduler.planning.search.annealing`. What a place holds above its capacity costs a price. The price follows
the search: it grows while fewer than half of the changes end with all places within their capacities, and falls while more
do, or while nothing changes at all. So the search stays at the border of what is allowed, at each temperature (strategic
oscillation: F. Glover, Decision Sciences 8, 1977). Only an assignment that keeps everything is ever the best.
"""

from __future__ import annotations

import math

import numpy

from scheduler.planning.search.assignment import Assignment
from scheduler.planning.search.compiled import kernel, tables
from scheduler.planning.search.compiled.tables import BEST, COST, FULL, MADE, WITHIN
from scheduler.planning.search.schedule import Found, Task

#: Draws between two looks at the clock; and what one step of the other search prices.
_SLICE, _OF_A_STEP = 20_000, 4096
#: Times the mean change of a move: the first temperature.
_HOT = 16.0
#: Shares of the best cost of one item, in the mean, and of the first cost: the last temperature. Fewer items than _FEW are
#: as cold as so many.
_COLD, _COLDEST, _FEW = 4e-3, 5e-10, 1000
_SWAPS, _HOMEWARD, _RELIEVING = 0.6, 0.2, 0.1
#: The price in the beginning, times what the same amount costs above the safety capacity, and its limits.
_PRICE, _CHEAPEST, _DEAREST = 10.0, 0.1, 1e7
_WITHIN, _PACE = 0.5, 0.04
#: Slices, and share of all so far, without an assignment that keeps all capacities, after which the search returns to the
#: best; in the last part of the time.
_LOST, _LOST_SHARE, _LATE = 100, 0.03, 0.5
#: Items whose changes are looked at in the beginning.
_SOME = 60


def search(task: Task) -> Found:
    """Search as :func:`scheduler.planning.search.annealing.anneal` does. It reads only ``hot`` of the schedule."""
    now = Assignment(task.problem, task.start)
    t = tables.of(now)
    if not len(task.problem.movable):
        return Found(now.at, now.cost(), 0)
    draw = numpy.random.default_rng(task.seed)
    # The first call compiles: the time of the schedule begins after it.
    kernel.run(t, 0, 1.0, 1.0, _SWAPS, _HOMEWARD, _RELIEVING, task.most_moves, draw)
    hot, first = _HOT * task.schedule.hot * _mean_change(now, task.problem.movable, task.seed), t.numbers[COST]
    most = math.inf if task.most_steps is None else task.most_steps * _OF_A_STEP
    price, steps, began, lost = _PRICE, 0, task.clock(), 0
    while (at := task.clock()) < task.until and t.numbers[BEST] > task.enough:
        share = max((at - began) / (task.until - began), steps / most)
        if share >= 1:
            break
        cold = max(_COLD * t.numbers[BEST] / max(task.problem.items, _FEW), _COLDEST * first, 1e-300)
        hotter = max(hot, cold)
        temperature = hotter * (cold / hotter) ** share
        kernel.run(t, _SLICE, temperature, price, _SWAPS, _HOMEWARD, _RELIEVING, task.most_moves, draw)
        steps += _SLICE
        lost = 0 if t.numbers[WITHIN] or not t.numbers[FULL] else lost + 1
        if lost > _LOST + _LOST_SHARE * steps / _SLICE and share > _LATE:
            # What holds too much would stay to the end: the search goes on from the best.
            t, price, lost = tables.of(Assignment(task.problem, t.best)), _PRICE, 0
        elif not t.numbers[MADE]:
            # The way through places that hold too much is too dear.
            price = max(price / 2, _CHEAPEST)
        else:
            within = t.numbers[WITHIN] / t.numbers[MADE]
            price = min(max(price * math.exp(_PACE * (_WITHIN - within)), _CHEAPEST), _DEAREST)
    best = Assignment(task.problem, t.best)
    return Found(best.at, best.cost(), steps)


def _mean_change(now: Assignment, movable: numpy.ndarray, seed: int) -> float:
    """Return the mean size of the changes that are not nothing, of moves of some items that have room."""
    items = numpy.random.default_rng(seed).choice(movable, _SOME)
    may, change = now.targets(items, 0, now.problem.places)
    every = numpy.abs(change[may & (change != 0)])
    return float(every.mean()) if len(every) else 1.0
