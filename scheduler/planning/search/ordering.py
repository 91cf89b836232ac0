# SPDX-License-Identifier: Apache-2.0
"""An order of moves in which each has room and keeps conflicts, with what is under way counted on both places.

Called by :mod:`scheduler.compute.planning.moves.steps`. Moves of one *step* may be under way together: none of them
needs what another leaves. Where the moves that are left wait for each other, an item goes to a third place first, or
stays.
"""

from __future__ import annotations

import dataclasses

import numpy

from scheduler.planning.search.assignment import Assignment
from scheduler.planning.search.problem import Problem


@dataclasses.dataclass(frozen=True)
class Step:
    """Items with the places that they leave and enter."""

    moves: list[tuple[int, int, int]]


def ordered(problem: Problem, at: numpy.ndarray, most_moves: int) -> tuple[list[Step], list[int]]:
    """Return the steps that lead from the first places to ``at``, and the items that cannot go there."""
    now = Assignment(problem)
    left = numpy.flatnonzero(at != problem.start).tolist()
    steps: list[Step] = []
    stay: list[int] = []
    made = 0
    while left:
        step = _together(now, [(item, int(at[item])) for item in left])
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


def _together(now: Assignment, wanted: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return the moves that may be under way together now."""
    problem = now.problem
    taken = numpy.zeros(problem.capacity.shape)
    entered: dict[tuple[int, int], int] = {}
    found = []
    for item, place in wanted:
        group = int(problem.group_of[item])
        more = entered.get((group, place), 0)
        if (now.free[place] - taken[place] >= problem.need[item]).all() and now.may_with(item, place, more):
            taken[place] += problem.need[item]
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
