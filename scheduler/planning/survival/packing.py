# SPDX-License-Identifier: Apache-2.0
"""Several guests on one host, as an integer programme over sums of vcpus, memory and disk.

It is a relaxation: cells, devices and other rules of filters are not in it. So if it has no solution, there is none; if it
has one, the decision code must accept it. HiGHS (Huangfu and Hall, Math. Prog. Comp. 10, 2018) solves it, from scipy.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import numpy
from scipy import optimize, sparse

from scheduler.planning.survival.room import UNLIMITED

#: More variables are not tried: the solver would not end in its time.
MOST_VARIABLES = 400_000
_INFEASIBLE, _LIMIT = 2, 1


class Outcome(enum.Enum):
    FOUND = "found"
    IMPOSSIBLE = "impossible"
    OUT_OF_TIME = "out of time"


@dataclasses.dataclass(frozen=True)
class Item:
    """Guests that go to one host: one, or all of a group that stays together.

    :param guests: their numbers
    :param hosts: rows of the hosts that would take them
    :param demand: what they take together of each resource
    :param group: of which a host takes only so many, or NO_GROUP
    """

    guests: Sequence[int]
    hosts: numpy.ndarray
    demand: numpy.ndarray
    group: int


def solve(
    items: Sequence[Item], free: numpy.ndarray, room_of_group: dict[int, numpy.ndarray], limit_s: float
) -> tuple[Outcome, list[int]]:
    """Return a host for each item so that no sum exceeds what is free.

    :param free: hosts × resources
    :param room_of_group: by group, how many more members each host may have
    """
    variables = sum(len(each.hosts) for each in items)
    if variables > MOST_VARIABLES:
        return Outcome.OUT_OF_TIME, []
    of_item = numpy.repeat(numpy.arange(len(items)), [len(each.hosts) for each in items])
    of_host = numpy.concatenate([each.hosts for each in items])
    result = optimize.milp(
        c=numpy.zeros(variables),
        constraints=[_each_once(of_item, len(items)), *_sums(items, of_item, of_host, free, room_of_group)],
        integrality=numpy.ones(variables),
        bounds=optimize.Bounds(0, 1),
        options={"time_limit": limit_s},
    )
    if result.status == _INFEASIBLE:
        return Outcome.IMPOSSIBLE, []
    if result.x is None:
        return Outcome.OUT_OF_TIME, []
    chosen = numpy.flatnonzero(result.x > 0.5)
    return Outcome.FOUND, [int(of_host[each]) for each in chosen[numpy.argsort(of_item[chosen])]]


def _each_once(of_item: numpy.ndarray, items: int) -> optimize.LinearConstraint:
    one = sparse.csr_matrix((numpy.ones(len(of_item)), (of_item, numpy.arange(len(of_item)))))
    return optimize.LinearConstraint(one, numpy.ones(items), numpy.ones(items))


def _sums(
    items: Sequence[Item],
    of_item: numpy.ndarray,
    of_host: numpy.ndarray,
    free: numpy.ndarray,
    room_of_group: dict[int, numpy.ndarray],
) -> list[optimize.LinearConstraint]:
    """Return the sums of each resource over the items of a host, and how many of them are of each group."""
    rows, place = numpy.unique(of_host, return_inverse=True)
    demands = numpy.array([each.demand for each in items], dtype=float)
    groups = numpy.array([each.group for each in items])
    asked = [(demands[of_item, number], free[rows, number].astype(float)) for number in range(free.shape[1])]
    asked += [
        ((groups == group)[of_item].astype(float), room[rows].astype(float)) for group, room in room_of_group.items()
    ]
    constraints = []
    for amounts, most in asked:
        if not amounts.any() or (most >= UNLIMITED).all():
            continue
        # The solver compares with a tolerance: whole numbers of the common unit keep far from it.
        unit = float(numpy.gcd.reduce(amounts[amounts > 0].astype(numpy.int64)))
        matrix = sparse.csr_matrix((amounts / unit, (place, numpy.arange(len(amounts)))))
        bound = numpy.where(most >= UNLIMITED, numpy.inf, numpy.floor(numpy.maximum(most, 0) / unit))
        constraints.append(optimize.LinearConstraint(matrix, -numpy.inf, bound))
    return constraints
