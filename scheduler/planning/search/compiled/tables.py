# SPDX-License-Identifier: Apache-2.0
"""An assignment as arrays of fixed types, which compiled code reads and writes. Called by the modules beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy

from scheduler.planning.search.assignment import Assignment

#: Places in ``numbers``: cost and excess now, cost of the best, items away, most items of one group away; changes that were
#: made by the last call of the loop, and after how many of them no place held too much; places that hold too much, and items
#: that have moved since the best (more than there is room for: any).
COST, EXCESS, BEST, MOVED, MOST_LEFT, MADE, WITHIN, FULL, STIRRED, NUMBERS = range(10)

#: How often an item of the mean size is drawn, when the smallest is drawn once; and the most.
_OF_MEAN_SIZE, _MOST_OFTEN = 2, 200


class Tables(NamedTuple):
    """Names as in :class:`scheduler.planning.search.assignment.Assignment`, whose numbers they are in the beginning.

    :param placed: items: the cost of where they are
    :param head, next, previous: places: an item there, or -1; items: a ring of the items of one place
    :param excess_of: places: what they hold above their capacity, each resource times its ``scale``
    :param full, full_at: the places with excess, as many as ``numbers`` says; places: the index in ``full``, or -1
    :param stirred: items that have moved since the best
    :param drawn: the movable items, larger ones several times
    :param weight: as that of the terms; one row, if it is the same at all places
    :param depends, dependents: the numbers of all groups one after the other; those of group n are from ``..._of[n]`` to
        ``..._of[n + 1]``
    :param left_number: by number n: groups of which n items are away
    :param distance: places × places, or 1 × 1 with nothing in it
    :param least_distance: not above any distance, nor above 0
    """

    numbers: numpy.ndarray
    at: numpy.ndarray
    best: numpy.ndarray
    start: numpy.ndarray
    placed: numpy.ndarray
    head: numpy.ndarray
    next: numpy.ndarray
    previous: numpy.ndarray
    stirred: numpy.ndarray
    drawn: numpy.ndarray
    group: numpy.ndarray
    shape: numpy.ndarray
    need: numpy.ndarray
    lasting: numpy.ndarray
    slope: numpy.ndarray
    away: numpy.ndarray
    fits: numpy.ndarray
    free: numpy.ndarray
    level: numpy.ndarray
    weight: numpy.ndarray
    cost_of: numpy.ndarray
    excess_of: numpy.ndarray
    full: numpy.ndarray
    full_at: numpy.ndarray
    scale: numpy.ndarray
    members: numpy.ndarray
    most: numpy.ndarray
    location: numpy.ndarray
    hood: numpy.ndarray
    at_location: numpy.ndarray
    in_hood: numpy.ndarray
    locations: numpy.ndarray
    spread: numpy.ndarray
    depends: numpy.ndarray
    depends_of: numpy.ndarray
    dependents: numpy.ndarray
    dependents_of: numpy.ndarray
    left: numpy.ndarray
    left_number: numpy.ndarray
    distance: numpy.ndarray
    group_weight: float
    least_distance: float


def of(now: Assignment) -> Tables:
    """Return the tables of an assignment, which keeps its own. It keeps all rules."""
    problem = now.problem
    places = problem.places
    numbers = numpy.zeros(NUMBERS)
    numbers[COST] = numbers[BEST] = now.cost()
    numbers[MOVED], numbers[MOST_LEFT] = now.moved, now.left.max()
    depends, depends_of = _listed(now.depends)
    dependents, dependents_of = _listed(now.dependents)
    distance = problem.moves.distance
    at = now.at.astype(numpy.int64)
    head, following, previous = _rings(at, places)
    return Tables(
        numbers=numbers,
        at=at,
        best=at.copy(),
        start=_whole(problem.start),
        placed=_real(now.placed()),
        head=head,
        next=following,
        previous=previous,
        stirred=numpy.zeros(problem.items, dtype=numpy.int64),
        drawn=_drawn(now),
        group=_whole(now.group),
        shape=_whole(problem.shape_of),
        need=_real(now.need),
        lasting=_real(now.lasting),
        slope=_real(now.slope),
        away=_real(now.away),
        fits=numpy.ascontiguousarray(problem.fits, dtype=bool),
        free=_real(now.free),
        level=_real(now.level),
        weight=_real(numpy.atleast_2d(problem.terms.weight)),
        cost_of=_real(now.cost_of),
        excess_of=numpy.zeros(places),
        full=numpy.zeros(places, dtype=numpy.int64),
        full_at=numpy.full(places, -1, dtype=numpy.int64),
        scale=_scale(now),
        members=now.members.copy(),
        most=_whole(now.most),
        location=_whole(problem.groups.location),
        hood=_whole(problem.groups.hood),
        at_location=now.at_location.copy(),
        in_hood=now.in_hood.copy(),
        locations=_whole(now.locations),
        spread=_whole(now.spread),
        depends=depends,
        depends_of=depends_of,
        dependents=dependents,
        dependents_of=dependents_of,
        left=_whole(now.left),
        left_number=numpy.bincount(now.left, minlength=problem.items + 2),
        distance=numpy.zeros((1, 1), dtype=numpy.float32)
        if distance is None
        else numpy.ascontiguousarray(distance, dtype=numpy.float32),
        group_weight=float(problem.moves.group),
        least_distance=0.0 if distance is None else min(0.0, float(distance.min())),
    )


def _drawn(now: Assignment) -> numpy.ndarray:
    """Return the movable items, each as often as it is to be drawn: in proportion to its size, and at least once.

    A large item has few places to go to, and only while others have left them: it is tried more often.
    """
    mean = numpy.maximum(now.need.mean(axis=0), 1e-300)
    size = (now.need / mean).max(axis=1)
    often = numpy.clip(_OF_MEAN_SIZE * size, 1, _MOST_OFTEN).astype(int)
    return numpy.repeat(now.problem.movable, often[now.problem.movable])


def _scale(now: Assignment) -> numpy.ndarray:
    """Return a price of each resource: what one more of it costs at a place where all terms count; else as the dearest.

    So that no resource counts for more because of its unit, it is related to what all items need.
    """
    weight = now.problem.terms.weight
    price = numpy.abs(now.problem.terms.slope) @ (weight if weight.ndim == 1 else weight.mean(axis=0))
    total = now.need.sum(axis=0)
    dearest = float((price * total).max(initial=0.0)) or 1.0
    return numpy.where(price > 0, price, dearest / numpy.maximum(total, 1))


def _rings(at: numpy.ndarray, places: int) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """Return ``head``, ``next`` and ``previous`` of these places."""
    head, order = numpy.full(places, -1, dtype=numpy.int64), numpy.argsort(at, kind="stable")
    following, previous = numpy.empty_like(at), numpy.empty_like(at)
    begins = numpy.flatnonzero(numpy.diff(at[order], prepend=-1))
    head[at[order[begins]]] = order[begins]
    for one in numpy.split(order, begins[1:]):
        following[one], previous[one] = numpy.roll(one, -1), numpy.roll(one, 1)
    return head, following, previous


def _listed(of_group: Sequence[numpy.ndarray]) -> tuple[numpy.ndarray, numpy.ndarray]:
    ends = numpy.cumsum([0, *map(len, of_group)])
    return _whole(numpy.concatenate([*of_group, numpy.array([], dtype=int)])), _whole(ends)


def _whole(values: numpy.ndarray) -> numpy.ndarray:
    return numpy.array(values, dtype=numpy.int64, order="C")


def _real(values: numpy.ndarray) -> numpy.ndarray:
    return numpy.array(values, dtype=numpy.float64, order="C")
