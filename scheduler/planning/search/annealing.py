# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over moves and swaps.

Called by :mod:`scheduler.compute.planning.moves.goals`. Each step prices all choices of one item, and draws one by its
cost.

At temperature t a choice is drawn with a chance in proportion to exp(-change / t) (a Gibbs sampler): the smallest of the
changes less t times Gumbel noise is such a draw. The temperature falls in cycles until the time is over.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import time
from collections.abc import Callable

import numpy
from oslo_log import log as logging

from scheduler.planning.search.assignment import Assignment
from scheduler.planning.search.problem import Problem
from scheduler.planning.search.schedule import Found, Schedule, Task

LOG = logging.getLogger(__name__)
#: Places and items that one step looks at, at most.
_WINDOW = 512
#: Prices of one step, of moves and of swaps.
_MOVES, _SWAPS = 4096, 4096
_NOISE = 1 << 18
#: Items of which a chain begins with the one at the costliest place; and items that make room for it, at most.
_PUSHED, _EJECTED = 8, 30


def anneal(
    problem: Problem,
    until: float,
    seed: int,
    schedule: Schedule | None = None,
    most_moves: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    start: numpy.ndarray | None = None,
    enough: float = -math.inf,
    most_steps: int | None = None,
) -> Found:
    """Search until the clock shows ``until``, and return the best assignment. The first places are one.

    :param most_moves: items that may be away from their first places
    :param start: where to begin, in place of the first places
    :param enough: stop when the cost is not above
    :param most_steps: stop after so many steps
    """
    schedule, most_moves = schedule or Schedule(), problem.items if most_moves is None else most_moves
    task = Task(problem, until, seed, schedule, most_moves, clock, start, enough, most_steps)
    search = compiled_search()
    return _Annealing(task).run() if search is None else search(task)


@functools.cache
def compiled_search() -> Callable[[Task], Found] | None:
    """Return the search in machine code; None if numba is not installed, or does not work with this numpy."""
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        return importlib.import_module("scheduler.planning.search.compiled.oscillation").search
    except ImportError as failure:
        LOG.warning("The search runs without numba, which is installed and cannot be imported: %s", failure)
        return None


class _Annealing:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._problem, self._schedule = task.problem, task.schedule
        self._chance = numpy.random.default_rng(task.seed)
        self._now = Assignment(task.problem, task.start)
        self._cost = self._now.cost()
        self._best, self._best_at = self._cost, self._now.at.copy()
        self._noise = -numpy.log(-numpy.log(self._chance.random(_NOISE)))
        #: Moves of a chain so far, with the places before them, and the change that they make.
        self._made_so_far: list[tuple[int, int]] = []
        self._by = 0.0
        self._movable = task.problem.movable

    def run(self) -> Found:
        task = self._task
        steps, began = 0, task.clock()
        if not len(self._movable):
            return Found(self._best_at, self._best, 0)
        typical, cycles = self._typical(), self._schedule.cycles
        while (now := task.clock()) < task.until and self._best > task.enough:
            share = max((now - began) / (task.until - began), steps / task.most_steps if task.most_steps else 0.0)
            if share >= 1:
                break
            cycle = int(share * cycles)
            hot = self._schedule.hot * 0.3**cycle
            self._step(typical * hot * (self._schedule.cold / hot) ** (share * cycles - cycle))
            steps += 1
        return Found(self._best_at, self._best, steps)

    def _step(self, temperature: float) -> None:
        kind = self._chance.random()
        if kind < self._schedule.chains:
            self._push(temperature)
            return
        is_swap = kind < self._schedule.chains + self._schedule.swaps
        number = self._problem.items if is_swap else self._problem.places
        low, high = self._window(number)
        items = self._chosen(max(1, (_SWAPS if is_swap else _MOVES) // (high - low)))
        may, change = (self._now.swaps if is_swap else self._now.targets)(items, low, high)
        chosen = self._drawn(may, change, temperature)
        touched: set[int] = set()
        for row in numpy.flatnonzero(chosen >= 0).tolist():
            item, to = int(items[row]), low + int(chosen[row])
            ends = {int(self._now.at[item]), int(self._now.at[to]) if is_swap else to}
            # The prices are those of before the first move of this step.
            if touched & ends:
                continue
            if not is_swap and not self._now.may(item, to):
                # The rules that were left out forbid the best choice: draw among those that they allow.
                allowed = may[row] & self._now.rules(item, low, high)
                choice = int(self._drawn(allowed[None], change[row][None], temperature)[0])
                to = low + choice
                ends = {int(self._now.at[item]), to}
                if choice < 0 or touched & ends:
                    continue
            if self._made(item, to, is_swap, float(change[row, to - low]), temperature):
                touched |= ends

    def _push(self, temperature: float) -> None:
        """Bring an item to a place that has no room for it: what is there goes to third places, one after the other."""
        now, chance, problem = self._now, self._chance, self._problem
        drawn = self._movable[chance.integers(len(self._movable), size=_PUSHED)]
        item = int(drawn[now.cost_of[now.at[drawn]].argmax()])
        fits = problem.fits[problem.shape_of[item]] & (problem.capacity >= problem.need[item]).all(axis=1)
        fits[now.at[item]] = False
        places = numpy.flatnonzero(fits)
        if not len(places):
            return
        place = int(chance.choice(places))
        limit = temperature * chance.exponential()
        there = chance.permutation(numpy.flatnonzero(now.at == place))[:_EJECTED].tolist()
        self._made_so_far, self._by = [], 0.0
        while not self._fits_by(item, place, limit):
            if not there or not self._ejected(there.pop(), place):
                for each, here in reversed(self._made_so_far):
                    now.move(each, here)
                return
        self._count(self._by)

    def _fits_by(self, item: int, place: int, limit: float) -> bool:
        may, change = self._now.targets(numpy.array([item]), place, place + 1)
        return (
            bool(may[0, 0])
            and self._by + change[0, 0] < limit
            and self._followed(item, place, float(change[0, 0]), limit)
        )

    def _ejected(self, item: int, place: int) -> bool:
        low, high = self._window(self._problem.places)
        may, change = self._now.targets(numpy.array([item]), low, high)
        allowed = may[0] & self._now.rules(item, low, high)
        best = int(numpy.where(allowed, change[0], math.inf).argmin())
        return bool(allowed[best]) and self._followed(item, low + best, float(change[0, best]), math.inf)

    def _followed(self, item: int, place: int, by: float, limit: float) -> bool:
        """Make a move of a chain, unless a rule or the limit is against it."""
        now, here = self._now, int(self._now.at[item])
        if not now.may(item, place):
            return False
        before = now.group_cost()
        now.move(item, place)
        more = by + now.group_cost() - before
        if now.moved > self._task.most_moves or self._by + more >= limit:
            now.move(item, here)
            return False
        self._by += more
        self._made_so_far.append((item, here))
        return True

    def _chosen(self, number: int) -> numpy.ndarray:
        """Return different items; of a few, those at the costliest places."""
        drawn = self._movable[self._chance.integers(len(self._movable), size=(number, self._schedule.tries))]
        best = self._now.cost_of[self._now.at[drawn]].argmax(axis=1)
        return numpy.unique(drawn[numpy.arange(number), best])

    def _window(self, number: int) -> tuple[int, int]:
        if number <= _WINDOW:
            return 0, number
        low = int(self._chance.integers(number - _WINDOW + 1))
        return low, low + _WINDOW

    def _drawn(self, may: numpy.ndarray, change: numpy.ndarray, temperature: float) -> numpy.ndarray:
        """Return for each row the number of a choice, or -1 for staying."""
        at = int(self._chance.integers(_NOISE - change.size - len(change)))
        noise = self._noise[at : at + change.size].reshape(change.shape)
        noisy = numpy.where(may, change - temperature * noise, math.inf)
        best = noisy.argmin(axis=1)
        stay = -temperature * self._noise[at + change.size : at + change.size + len(change)]
        return numpy.where(noisy[numpy.arange(len(best)), best] < stay, best, -1)

    def _made(self, item: int, to: int, is_swap: bool, by: float, temperature: float) -> bool:
        """Make a move or a swap, unless spread, dependency, the number of moves or the cost of groups is against it."""
        now, here = self._now, int(self._now.at[item])
        before = now.group_cost()
        if is_swap:
            if not now.swap(item, to):
                return False
        elif now.may(item, to):
            now.move(item, to)
        else:
            return False
        more = now.group_cost() - before
        if now.moved > self._task.most_moves or (more and by + more > temperature):
            if is_swap:
                now.swap(item, to)
            else:
                now.move(item, here)
            return False
        self._count(by + more)
        return True

    def _count(self, by: float) -> None:
        self._cost += by
        if self._cost < self._best - 1e-9 * abs(self._best):
            self._best, self._best_at = self._cost, self._now.at.copy()

    def _typical(self) -> float:
        """Return the median size of the changes that are not nothing, of some items."""
        low, high = self._window(self._problem.places)
        may, change = self._now.targets(self._chance.choice(self._movable, 30), low, high)
        every = numpy.abs(change[may & (change != 0)])
        return float(numpy.median(every)) if len(every) else 1.0
