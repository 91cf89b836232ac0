# SPDX-License-Identifier: Apache-2.0
"""The cheapest items that must leave: compared with all choices."""

from __future__ import annotations

import itertools

import numpy
import pytest

from scheduler.planning.search import leaving
from scheduler.planning.search.assignment import Assignment
from scheduler.planning.search.problem import NO_GROUP, Groups, MoveCosts, Problem, Terms


def _problem(need: numpy.ndarray, start: list[int], capacity: list[list[int]], cost: numpy.ndarray) -> Problem:
    """What is above half of a place costs a hundred a unit."""
    places, items = len(capacity), len(need)
    return Problem(
        need=need,
        capacity=numpy.array(capacity),
        start=numpy.array(start),
        transient=numpy.zeros(2, dtype=bool),
        terms=Terms(-0.5 * numpy.array(capacity), numpy.eye(2), numpy.array([100.0, 100.0])),
        moves=MoveCosts(cost),
        groups=Groups.apart([], places),
        group_of=numpy.full(items, NO_GROUP),
        fits=numpy.ones((1, places), dtype=bool),
        shape_of=numpy.zeros(items, dtype=int),
    )


def _crowded(seed: int) -> tuple[Problem, numpy.ndarray]:
    """One place with seven items of two resources, another one that is empty; and what must leave."""
    chance = numpy.random.default_rng(seed)
    need = numpy.stack([chance.integers(1, 9, 7), 512 * chance.integers(1, 17, 7)], axis=1)
    excess = chance.integers([-3, -3000], need.sum(axis=0) + 1)
    return _problem(need, [0] * 7, [[10**6, 10**6]] * 2, need[:, 1]), numpy.array([excess, [-1, -1]])


@pytest.mark.parametrize("seed", range(40))
def test_no_choice_of_items_is_cheaper(seed: int) -> None:
    problem, excess = _crowded(seed)
    found = leaving.cheapest(problem, excess)
    need, cost = problem.need, problem.moves.item
    every = [list(some) for number in range(8) for some in itertools.combinations(range(7), number)]
    least = min(cost[some].sum() for some in every if (need[some].sum(axis=0) >= excess[0]).all())
    assert least == found.least
    assert [least] * len(found.choices) == [cost[items].sum() for items in found.choices]
    assert all((need[items].sum(axis=0) >= excess[0]).all() for items in found.choices)


def test_of_equal_choices_the_fewest_leave_or_the_smallest() -> None:
    need = numpy.array([[8, 4], [1, 4], [0, 2], [0, 2]])
    problem = _problem(need, [0] * 4, [[100, 100]] * 2, need[:, 1])
    few, small = leaving.cheapest(problem, numpy.array([[0, 3], [0, 0]])).choices
    assert (1, [2, 3]) == (len(few), small.tolist())


def test_of_a_place_with_too_many_amounts_only_a_bound_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _excess = _crowded(1)
    excess = problem.need.sum(axis=0)[None, :] // 2 * [[1], [0]]
    exact = leaving.cheapest(problem, excess).least
    monkeypatch.setattr(leaving, "_MOST", 10)
    found = leaving.cheapest(problem, excess)
    assert ([], True) == (found.choices, 0 < found.least <= exact)


def test_items_leave_for_the_emptiest_place_that_does_not_become_too_full() -> None:
    """The place 1 would be above its half; 2 is fuller than 3."""
    need = numpy.array([[4, 4], [4, 4], [5, 5], [3, 3], [1, 1], [20, 20]])
    capacity = [[10, 10], [10, 10], [20, 20], [20, 20], [9, 9]]
    now = Assignment(_problem(need, [0, 0, 1, 2, 3, 4], capacity, need[:, 1]))
    leaving.leave(now, numpy.array([1, 5]))
    assert [0, 3, 1, 2, 3, 4] == now.at.tolist()
