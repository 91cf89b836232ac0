# SPDX-License-Identifier: Apache-2.0
"""The search: prices are those of counting anew, no rule is broken, and bounds hold where all assignments are tried."""

from __future__ import annotations

import collections
import dataclasses
import itertools

import numpy
import pytest

from scheduler.planning.search import annealing, bounds, descent, goals, ordering
from scheduler.planning.search.annealing import anneal
from scheduler.planning.search.assignment import Assignment
from scheduler.planning.search.problem import NO_GROUP, Groups, MoveCosts, Problem, Terms


def problem(seed: int, items: int = 30, places: int = 8, is_plain: bool = False) -> Problem:
    """Return a random problem with every kind of rule and cost, whose first places keep the rules."""
    chance = numpy.random.default_rng(seed)
    need = chance.integers(1, 10, (items, 2))
    start = chance.integers(places, size=items)
    use = numpy.zeros((places, 2), dtype=int)
    numpy.add.at(use, start, need)
    capacity = use + chance.integers(0, 20, (places, 2))
    groups = 0 if is_plain else 6
    group_of = chance.integers(-1, groups, items) if groups else numpy.full(items, NO_GROUP)
    location, hood = chance.integers(3, size=places), chance.integers(2, size=places)
    members: list[collections.Counter[int]] = [collections.Counter() for _ in range(groups)]
    for group, place in zip(group_of.tolist(), start.tolist(), strict=True):
        if group != NO_GROUP:
            members[group][place] += 1
    hoods = [{int(hood[place]) for place in of} for of in members]
    made = Groups(
        numpy.array([max(of.values(), default=1) for of in members], dtype=int),
        numpy.array([len({int(location[place]) for place in of}) for of in members], dtype=int),
        [[on for on in range(groups) if on != each and hoods[each] <= hoods[on]][:1] for each in range(groups)],
        location,
        hood,
    )
    return Problem(
        need=need,
        capacity=capacity,
        start=start,
        transient=numpy.array([False, not is_plain]),
        terms=Terms(-0.6 * capacity, numpy.eye(2), numpy.array([3.0, 2.0])),
        moves=MoveCosts(
            chance.integers(1, 4, items), chance.integers(0, 3, (places, places)) * (1 - numpy.eye(places)), 2.0
        ),
        groups=made,
        group_of=group_of,
        fits=chance.random((3, places)) < 0.8,
        shape_of=chance.integers(3, size=items),
    )


def broken(of: Problem, at: numpy.ndarray) -> list[str]:
    """Return the rules that an assignment breaks, counted anew."""
    wrong = []
    use, left = numpy.zeros(of.capacity.shape), at != of.start
    numpy.add.at(use, at, of.need)
    numpy.add.at(use, of.start[left], numpy.where(of.transient, of.need, 0)[left])
    if (use > of.capacity).any():
        wrong.append("capacity")
    if not of.fits[of.shape_of[left], at[left]].all():
        wrong.append("shape")
    groups = of.groups
    places = [[int(at[item]) for item in numpy.flatnonzero(of.group_of == group)] for group in range(len(groups.most))]
    hoods = [{int(groups.hood[place]) for place in there} for there in places]
    for group, there in enumerate(places):
        if max(collections.Counter(there).values(), default=0) > groups.most[group]:
            wrong.append("conflict")
        if len({int(groups.location[place]) for place in there}) < groups.spread[group]:
            wrong.append("spread")
        if any(not hoods[group] <= hoods[on] for on in groups.depends[group]):
            wrong.append("dependency")
    return wrong


@pytest.mark.parametrize("seed", range(4))
def test_prices_are_those_of_counting_anew(seed: int) -> None:
    """Of each move and each swap that may be made, on problems with every kind of rule and cost."""
    of = problem(seed)
    now, chance = Assignment(of), numpy.random.default_rng(seed)
    for _step in range(40):
        item = int(chance.integers(of.items))
        before, group = now.cost(), now.group_cost()
        is_swap = bool(chance.random() < 0.5)
        may, change = (now.swaps if is_swap else now.targets)(
            numpy.array([item]), 0, of.items if is_swap else of.places
        )
        allowed = numpy.flatnonzero(may[0])
        if not len(allowed):
            continue
        to = int(chance.choice(allowed))
        if is_swap and not now.swap(item, to):
            continue
        if not is_swap:
            assert now.may(item, to) == now.rules(item, 0, of.places)[to]
            if not now.may(item, to):
                continue
            now.move(item, to)
        assert now.cost() - before == pytest.approx(change[0, to] + now.group_cost() - group)
        assert now.cost() == pytest.approx(Assignment(of, now.at).cost())
        assert [] == broken(of, now.at)


@pytest.mark.parametrize("is_compiled", [pytest.param(True, marks=pytest.mark.long), False])
@pytest.mark.parametrize("seed", range(3))
def test_annealing_keeps_the_rules_and_its_count(seed: int, is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost that it reports is that of what it returns, at most that of the first places; moves are bounded."""
    if not is_compiled:
        monkeypatch.setattr(annealing, "compiled_search", lambda: None)
    of = problem(seed)
    clock = itertools.count()
    found = anneal(of, 150, 1, most_moves=7, clock=lambda: float(next(clock)))
    assert found.cost == pytest.approx(Assignment(of, found.at).cost())
    assert found.cost <= Assignment(of).cost()
    assert [] == broken(of, found.at)
    assert 7 >= numpy.count_nonzero(found.at != of.start)


def test_descent_lowers_the_cost_and_keeps_the_rules() -> None:
    of = problem(5)
    now = Assignment(of)
    before = now.cost()
    descent.descend(now, of.items, 1, clock=lambda: 0.0)
    assert now.cost() < before
    assert [] == broken(of, now.at)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_beats_the_bound_of_emptied_places(seed: int) -> None:
    """All assignments of five items to four places are tried."""
    of = problem(seed, items=5, places=4, is_plain=True)
    donors = numpy.unique(of.start)
    closed = numpy.bincount(of.start, minlength=4) == 0
    most = 0
    for places in itertools.product(range(4), repeat=5):
        at = numpy.array(places)
        if not broken(of, at) and not closed[at].any():
            most = max(most, len(donors) - len(set(places)))
    found = goals.empty_places(of, donors, closed, None, goals.Limits(1, 6, lambda: 0.0))
    assert [] == broken(of, found.at)
    assert len(found.places) <= most <= bounds.most_emptied(of, donors, closed, numpy.zeros(of.places, dtype=bool), 6)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_beats_the_bound_of_what_must_move(seed: int) -> None:
    """Room for one item of 12 and 12: all assignments of five items to four places are tried."""
    of = problem(seed, items=5, places=4, is_plain=True)
    need, fits = numpy.array([12, 12]), numpy.ones(4, dtype=bool)
    costs = []
    for places in itertools.product(range(4), repeat=5):
        at = numpy.array(places)
        now = Assignment(of, at)
        if not broken(of, at) and (now.free >= need).all(axis=1).any():
            costs.append(float(of.moves.item[at != of.start].sum()))
    found = goals.make_room(of, need, fits, numpy.full(of.places, 9), 1, goals.Limits(1, 6, lambda: 0.0))
    assert len(found.places) <= bool(costs) <= bounds.most_room(of, need, fits, numpy.full(of.places, 9)) + (not costs)
    if costs:
        assert bounds.least_moved(of, need, fits, numpy.full(of.places, 9), 1) <= min(costs)
    if found.places:
        assert found.cost >= min(costs)


def full(places: list[list[int]], spare: dict[int, int]) -> Problem:
    """Return places of 8, with items of these sizes; ``spare`` is what places have more."""
    sizes = [size for there in places for size in there]
    start = [place for place, there in enumerate(places) for _size in there]
    capacity = numpy.array([[8 + spare.get(place, 0)] for place in range(len(places))])
    return Problem(
        need=numpy.array(sizes)[:, None],
        capacity=capacity,
        start=numpy.array(start),
        transient=numpy.array([False]),
        terms=Terms(numpy.zeros((len(places), 0)), numpy.zeros((1, 0)), numpy.zeros(0)),
        moves=MoveCosts(numpy.array(sizes, dtype=float)),
        groups=Groups.apart([], len(places)),
        group_of=numpy.full(len(sizes), NO_GROUP),
        fits=numpy.ones((1, len(places)), dtype=bool),
        shape_of=numpy.zeros(len(sizes), dtype=int),
    )


ORDERS: list[tuple[str, list[list[int]], dict[int, int], list[int], list, list[int]]] = [
    ("one step where all have room", [[4], [4], []], {}, [1, 2], [[(0, 0, 1), (1, 1, 2)]], []),
    ("the second needs what the first leaves", [[8], [8], []], {}, [1, 2], [[(1, 1, 2)], [(0, 0, 1)]], []),
    ("two that wait for each other, and a third place", [[8], [8], []], {}, [1, 0],
     [[(0, 0, 2)], [(1, 1, 0)], [(0, 2, 1)]], []),
    ("two that wait for each other, and none", [[8], [8]], {}, [1, 0], [], [0, 1]),
    ("one would take the room by which two others change places", [[3, 1], [4, 1], [4]], {1: -2, 2: -4}, [2, 0, 1, 0, 0],
     [[(4, 2, 0)], [(0, 0, 2)], [(3, 1, 0)]], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("places", "spare", "at", "steps", "stay"), [case[1:] for case in ORDERS], ids=[case[0] for case in ORDERS]
)
def test_moves_are_ordered(places: list, spare: dict, at: list[int], steps: list, stay: list[int]) -> None:
    """Places of 8."""
    found, left = ordering.ordered(full(places, spare), numpy.array(at), 10)
    assert (steps, stay) == ([each.moves for each in found], sorted(left))


@pytest.mark.parametrize("seed", range(4))
def test_no_state_of_an_order_breaks_a_rule(seed: int) -> None:
    """While a step is under way, its items count on both places."""
    of = dataclasses.replace(problem(seed), transient=numpy.zeros(2, dtype=bool))
    plain = dataclasses.replace(of.groups, spread=of.groups.spread * 0, depends=[()] * len(of.groups.most))
    of = dataclasses.replace(of, groups=plain)
    clock = itertools.count()
    at = anneal(of, 80, 1, clock=lambda: float(next(clock))).at
    steps, stay = ordering.ordered(of, at, 1000)
    now = of.start.copy()
    for step in steps:
        use = numpy.zeros(of.capacity.shape)
        numpy.add.at(use, now, of.need)
        for item, here, place in step.moves:
            assert here == now[item]
            use[place] += of.need[item]
        assert (use <= of.capacity).all()
        for item, _here, place in step.moves:
            now[item] = place
        assert [] == broken(of, now)
    expected = at.copy()
    expected[stay] = now[stay]
    assert expected.tolist() == now.tolist()
