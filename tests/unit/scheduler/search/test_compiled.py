# SPDX-License-Identifier: Apache-2.0
"""The search in machine code: its numbers are those of counting anew, and it passes through places that hold too much."""

from __future__ import annotations

import dataclasses
import itertools

import numpy
import pytest

from scheduler.planning.search import annealing
from scheduler.planning.search.annealing import anneal
from scheduler.planning.search.assignment import Assignment
from scheduler.planning.search.compiled import kernel, tables
from scheduler.planning.search.problem import NO_GROUP, Groups, MoveCosts, Problem, Terms
from tests.unit.scheduler.search.test_search import broken, problem

pytestmark = pytest.mark.long  # numba compiles for half a minute

STEPS = 20_000


def variants(seed: int) -> list[Problem]:
    """A problem with every kind of rule and cost, and two with costs of other forms."""
    of = problem(seed)
    weight = numpy.random.default_rng(seed).uniform(1, 3, (of.places, 2))
    return [
        of,
        dataclasses.replace(of, terms=dataclasses.replace(of.terms, weight=weight)),
        dataclasses.replace(of, moves=dataclasses.replace(of.moves, distance=None, group=0.0)),
    ]


def members_of(t: tables.Tables, place: int) -> list[int]:
    """The ring of a place, in order of the numbers."""
    found: list[int] = []
    item = int(t.head[place])
    while item >= 0 and item not in found:
        assert item == t.previous[t.next[item]]
        found.append(item)
        item = int(t.next[item])
    return sorted(found)


@pytest.mark.parametrize("temperature", [0.5, 50.0])
@pytest.mark.parametrize("variant", range(3))
@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_those_of_counting_anew(seed: int, variant: int, temperature: float) -> None:
    of = variants(seed)[variant]
    t = tables.of(Assignment(of))
    kernel.run(t, STEPS, temperature, 1.0, 0.5, 0.1, 0.1, 9, numpy.random.default_rng(seed))
    now = Assignment(of, t.at)
    assert t.numbers[tables.MADE] > 0
    assert t.numbers[tables.COST] == pytest.approx(now.cost())
    assert (now.moved, now.left.max()) == (t.numbers[tables.MOVED], t.numbers[tables.MOST_LEFT])
    for name in ("free", "level", "cost_of", "members", "at_location", "in_hood", "locations", "left"):
        assert getattr(t, name) == pytest.approx(getattr(now, name)), name
    excess = numpy.maximum(-now.free, 0) @ t.scale
    assert t.excess_of == pytest.approx(excess)
    assert t.numbers[tables.EXCESS] == pytest.approx(excess.sum(), abs=1e-6)
    number = int(t.numbers[tables.FULL])
    assert sorted(t.full[:number]) == numpy.flatnonzero(excess > 1e-6).tolist()
    assert t.placed == pytest.approx(now.placed())
    assert {place: members_of(t, place) for place in range(of.places)} == {
        place: numpy.flatnonzero(t.at == place).tolist() for place in range(of.places)
    }
    assert set(broken(of, t.at)) <= {"capacity"}
    assert now.moved <= 9
    assert [] == broken(of, t.best)
    assert t.numbers[tables.BEST] == pytest.approx(Assignment(of, t.best).cost())
    assert t.numbers[tables.BEST] <= Assignment(of).cost()


def test_three_items_change_places_by_way_of_full_ones() -> None:
    """Each place is full, each item may be at its own and at the next place, and is better off there."""
    places = numpy.arange(3)
    far = numpy.where(places[None] == (places[:, None] + 1) % 3, -5.0, 0.0).astype(numpy.float32)
    of = Problem(
        need=numpy.full((3, 1), 10),
        capacity=numpy.full((3, 1), 10),
        start=places,
        transient=numpy.array([False]),
        terms=Terms(numpy.zeros((3, 1)), numpy.ones((1, 1)), numpy.array([1.0])),
        moves=MoveCosts(numpy.ones(3), far),
        groups=Groups.apart([], 3),
        group_of=numpy.full(3, NO_GROUP),
        fits=(places[None] == places[:, None]) | (places[None] == (places[:, None] + 1) % 3),
        shape_of=places,
    )
    clock = itertools.count()
    found = anneal(of, 50, 1, clock=lambda: float(next(clock)))
    assert ([1, 2, 0], 30 - 12) == (found.at.tolist(), found.cost)


def test_a_search_that_does_not_come_back_returns_to_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half-way it finds one, and goes astray for good: the rest of the time is not lost."""
    of = problem(1)
    begins: list[list[int]] = []

    def astray(t: tables.Tables, steps: int, *_rest: object) -> None:
        begins.append(t.at.tolist())
        t.at[:] = 0
        t.numbers[tables.WITHIN], t.numbers[tables.FULL] = 0, 1

    monkeypatch.setattr(kernel, "run", astray)
    clock = itertools.count()
    anneal(of, 1000, 1, clock=lambda: float(next(clock)))
    first = of.start.tolist()
    assert first not in begins[2:500]
    assert first in begins[500:]


def test_places_that_hold_too_much_are_relieved_first() -> None:
    """Of ten thousand places a few hold too much: their items are the ones that are drawn."""
    places = 10_000
    of = Problem(
        need=numpy.ones((places, 1), dtype=int),
        capacity=numpy.full((places, 1), 2),
        start=numpy.arange(places),
        transient=numpy.array([False]),
        terms=Terms(numpy.zeros((places, 1)), numpy.zeros((1, 1)), numpy.array([1.0])),
        moves=MoveCosts(numpy.zeros(places)),
        groups=Groups.apart([], places),
        group_of=numpy.full(places, NO_GROUP),
        fits=numpy.ones((1, places), dtype=bool),
        shape_of=numpy.zeros(places, dtype=int),
    )
    left = []
    for relieving in (0.0, 1.0):
        t = tables.of(Assignment(of))
        draw = numpy.random.default_rng(1)
        kernel.run(t, 2000, 1e9, 0.0, 0.0, 0.0, 0.0, places, draw)
        kernel.run(t, 2000, 1e-9, 1e7, 0.0, 0.0, relieving, places, draw)
        left.append(t.numbers[tables.FULL])
    assert left[0] > left[1] == 0


def test_a_large_item_is_drawn_more_often() -> None:
    """In proportion to what it needs of the resource of which it needs most. Without room elsewhere it is never drawn."""
    need = numpy.array([[1, 10], [1, 10], [1, 30], [5, 10], [5, 10]])
    of = Problem(
        need=need,
        capacity=numpy.full((2, 2), 100),
        start=numpy.zeros(5, dtype=int),
        transient=numpy.array([False, False]),
        terms=Terms(numpy.zeros((2, 2)), numpy.eye(2), numpy.array([1.0, 1.0])),
        moves=MoveCosts(numpy.zeros(5)),
        groups=Groups.apart([], 2),
        group_of=numpy.full(5, NO_GROUP),
        fits=numpy.array([[True, True], [True, False]]),
        shape_of=numpy.array([0, 0, 0, 0, 1]),
    )
    # The means are 2.6 and 14.
    assert [1, 1, 4, 3, 0] == numpy.bincount(tables.of(Assignment(of)).drawn, minlength=5).tolist()


def test_a_seed_finds_the_same_every_time() -> None:
    of = problem(3)
    first, second = (anneal(of, 1e9, 5, most_steps=30, clock=lambda: 0.0) for _run in range(2))
    assert (first.at.tolist(), first.cost, first.steps) == (second.at.tolist(), second.cost, second.steps)


def test_without_numba_the_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "compiled_search", lambda: None)
    of = problem(2)
    found = anneal(of, 1e9, 1, most_steps=100, clock=lambda: 0.0)
    assert (100, []) == (found.steps, broken(of, found.at))
    assert found.cost < Assignment(of).cost()


def test_many_small_items_get_as_cold_as_few_large_ones() -> None:
    """The last temperature is a share of one item's cost. A share of the whole cost would be above each change here."""
    items, places = 20_000, 20
    numbers = numpy.arange(places)
    gains = (numbers[None] - numbers[:, None]) % places / places
    start = numpy.arange(items) % places
    of = Problem(
        need=numpy.ones((items, 1), dtype=int),
        capacity=numpy.full((places, 1), items),
        start=start,
        transient=numpy.array([False]),
        terms=Terms(numpy.full((places, 1), 50.0 * items / places), numpy.ones((1, 1)), numpy.array([1.0])),
        moves=MoveCosts(numpy.zeros(items), -gains.astype(numpy.float32), 0.0),
        groups=Groups.apart([], places),
        group_of=numpy.full(items, NO_GROUP),
        fits=numpy.ones((1, places), dtype=bool),
        shape_of=numpy.zeros(items, dtype=int),
    )
    found = anneal(of, 1e9, 1, most_steps=400, clock=lambda: 0.0)
    gained = gains[start, found.at]
    assert gained.mean() > 0.6
