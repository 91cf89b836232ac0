# SPDX-License-Identifier: Apache-2.0
"""An order of moves in which each has room and keeps conflicts, with what is under way counted on both places.

Called by :mod:`scheduler.compute.planning.moves.steps`. Moves of one *step* may be under way together: none of them
needs what another leaves. Where the moves that are left wait for each other, an item goes to a third place first, or
stays. An item that would stay goes first in another try, and no later one takes the room that it waits for ("squeaky
wheel" optimization: Joslin and Clements, Journal of Artificial Intelligence Research 10, 1999).
"""

from __future__ import annotations

import dataclasses

import numpy

from scheduler.planning.search.assignment import Assignment
from scheduler.planning.search.problem import Problem

#: Orders that are tried, and moves in all of them: a large plan, of which few stay, is not worth many.
_TRIES, _MOST_RANKED = 20, 2000


@dataclasses.dataclass(frozen=True)
class Step:
    """Items with the places that they leave and enter."""

    moves: list[tuple[int, int, int]]


def ordered(problem: Problem, at: numpy.ndarray, most_moves: int) -> tuple[list[Step], list[int]]:
    """Return the steps that lead from the first places to ``at``, and the items that cannot go there."""
    items = numpy.flatnonzero(at != problem.start).tolist()
    best = found = _in_order(problem, at, items, most_moves, are_ranked=False)
    for _try in range(min(_TRIES, _MOST_RANKED // max(len(items), 1))):
        stay = found[1]
        if not stay:
            break
        items = [*stay, *(each for each in items if each not in stay)]
        found = _in_order(problem, at, items, most_moves, are_ranked=True)
        best = min(best, found, key=lambda each: problem.moves.item[each[1]].sum())
    return best


def _in_order(
    problem: Problem, at: numpy.ndarray, items: list[int], most_moves: int, are_ranked: bool
) -> tuple[list[Step], list[int]]:
    """:param are_ranked: no item takes the room that one before it waits for, unless nothing else moves"""
    now = Assignment(problem)
    left = list(items)
    steps: list[Step] = []
    stay: list[int] = []
    made = 0
    while left:
        wanted = [(item, int(at[item])) for item in left]
        step = (are_ranked and _together(now, wanted, are_ranked)) or _together(now, wanted)
        if not step:
            detour = _detour(now, left) if made + len(left) < most_moves else None
            if detour is None:
                stay.append(left.pop(_smallest(problem, left)))
                continue
            step = [detour]
        for item, _here, place in step:
            now.move(item, place)
        made += len(step)
        steps.append(Step(step))
        left = [item for item in left if now.at[item] != at[item]]
    return steps, stay


def _together(now: Assignment, wanted: list[tuple[int, int]], are_ranked: bool = False) -> list[tuple[int, int, int]]:
    """Return the moves that may be under way together now."""
    problem = now.problem
    taken = numpy.zeros(problem.capacity.shape)
    entered: dict[tuple[int, int], int] = {}
    found = []
    for item, place in wanted:
        group = int(problem.group_of[item])
        more = entered.get((group, place), 0)
        may = (now.free[place] - taken[place] >= problem.need[item]).all() and now.may_with(item, place, more)
        if may or are_ranked:
            taken[place] += problem.need[item]
        if may:
            entered[group, place] = more + 1
            found.append((item, int(now.at[item]), place))
    return found


def _detour(now: Assignment, left: list[int]) -> tuple[int, int, int] | None:
    """Return the move of the smallest item to a third place, with room and no rule against it."""
    problem = now.problem
    for item in sorted(left, key=lambda each: (problem.moves.item[each], each)):
        may = now.conflict_free(item) & (now.free >= problem.need[item]).all(axis=1)
        may[now.at[item]] = False
        # An item takes one detour: from its first place.
        if now.at[item] == problem.start[item] and may.any():
            return item, int(now.at[item]), int(numpy.flatnonzero(may)[0])
    return None


def _smallest(problem: Problem, left: list[int]) -> int:
    return min(range(len(left)), key=lambda number: (problem.moves.item[left[number]], left[number]))
