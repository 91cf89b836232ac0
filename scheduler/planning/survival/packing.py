# SPDX-License-Identifier: Apache-2.0
"""Several guests on one host, as an integer programme over sums of vcpus, memory and disk.

It is a relaxation: cells, devices and other rules of filters are not in it. So if it has no solution, there is none;
if it has one, the decision code must accept it. HiGHS (Huangfu and Hall, Math. Prog. Comp. 10, 2018) solves it, from
scipy, which imports it when it is used first: it takes 0.3 s and 40 MB. Called by the modules beside it and those of
:mod:`scheduler.compute.planning.losses`.

Equal guests are one variable for each host, their number there. For each size t that occurs, the sum of a host is also taken
in whole parts of t, rounded down on both sides (Chvátal, Discrete Math. 4, 1973): so even without whole numbers, which is
fast, most fleets that are too full are found to be.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import numpy
import scipy

from scheduler.planning.survival.room import NO_GROUP, UNLIMITED

#: More variables are not tried: the solver would not end in its time.
MOST_VARIABLES = 400_000
#: Sizes of one resource that a host's sum is taken in parts of.
_PARTS = 12
_INFEASIBLE = 2


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


class Packing:
    """The programme of some items.

    :param free: hosts × resources
    :param room_of_group: by group, how many more members each host may have
    """

    def __init__(self, items: Sequence[Item], free: numpy.ndarray, room_of_group: dict[int, numpy.ndarray]) -> None:
        self._kinds = _kinds(items)
        some = [items[kind[0]] for kind in self._kinds]
        self._of_kind = numpy.repeat(numpy.arange(len(some)), [len(each.hosts) for each in some])
        self._of_host = numpy.concatenate([each.hosts for each in some]) if some else numpy.array([], dtype=int)
        self._constraints: list[scipy.optimize.LinearConstraint] = []
        if 0 < len(self._of_host) <= MOST_VARIABLES:
            counts = numpy.array([len(kind) for kind in self._kinds], dtype=float)
            self._constraints = [
                self._all_placed(counts),
                *self._sums(some, free),
                *self._groups(some, room_of_group),
            ]

    def is_impossible(self, limit_s: float) -> bool:
        """Return True if no solution exists even with parts of guests."""
        return self._solved(limit_s, is_whole=False)[0] is Outcome.IMPOSSIBLE

    def solve(self, limit_s: float) -> tuple[Outcome, list[int]]:
        """Return a host for each item so that no sum exceeds the free amount."""
        outcome, numbers = self._solved(limit_s, is_whole=True)
        if outcome is not Outcome.FOUND:
            return outcome, []
        hosts = [0] * sum(map(len, self._kinds))
        for number, kind in enumerate(self._kinds):
            mine = self._of_kind == number
            there = numpy.repeat(self._of_host[mine], numpy.rint(numbers[mine]).astype(int))
            for item, host in zip(kind, there.tolist(), strict=True):
                hosts[item] = host
        return outcome, hosts

    def _solved(self, limit_s: float, is_whole: bool) -> tuple[Outcome, numpy.ndarray]:
        variables, nothing = len(self._of_host), numpy.array([])
        if not self._constraints:
            return Outcome.OUT_OF_TIME, nothing
        most = numpy.array([len(kind) for kind in self._kinds])[self._of_kind]
        result = scipy.optimize.milp(
            c=numpy.zeros(variables),
            constraints=self._constraints,
            integrality=numpy.full(variables, int(is_whole)),
            bounds=scipy.optimize.Bounds(0, most),
            options={"time_limit": max(limit_s, 0.1)},
        )
        if result.status == _INFEASIBLE:
            return Outcome.IMPOSSIBLE, nothing
        return (Outcome.OUT_OF_TIME, nothing) if result.x is None else (Outcome.FOUND, result.x)

    def _all_placed(self, counts: numpy.ndarray) -> scipy.optimize.LinearConstraint:
        one = numpy.ones(len(self._of_kind))
        matrix = scipy.sparse.csr_matrix((one, (self._of_kind, numpy.arange(len(one)))), shape=(len(counts), len(one)))
        return scipy.optimize.LinearConstraint(matrix, counts, counts)

    def _sums(self, some: Sequence[Item], free: numpy.ndarray) -> list[scipy.optimize.LinearConstraint]:
        """Return the sums of each resource over the items of a host, also in whole parts of each size."""
        rows, place = numpy.unique(self._of_host, return_inverse=True)
        demands = numpy.array([each.demand for each in some], dtype=numpy.int64)
        found = []
        for number in range(free.shape[1]):
            amounts, most = demands[self._of_kind, number], numpy.maximum(free[rows, number], 0)
            limited = most < UNLIMITED
            if not amounts.any() or not limited.any():
                continue
            # The solver compares with a tolerance: whole numbers of the common unit keep far from it.
            sizes = numpy.unique(demands[demands[:, number] > 0, number])
            unit = int(numpy.gcd.reduce(sizes))
            for size in dict.fromkeys((unit, *sizes[-_PARTS:].tolist())):
                parts = amounts // size
                used = parts > 0
                matrix = scipy.sparse.csr_matrix(
                    (parts[used].astype(float), (place[used], numpy.flatnonzero(used))),
                    shape=(len(rows), len(amounts)),
                )
                bound = numpy.where(limited, most // size, numpy.inf)
                # Rows without a variable are no constraints.
                there = numpy.flatnonzero(numpy.diff(matrix.indptr))
                found.append(scipy.optimize.LinearConstraint(matrix[there], -numpy.inf, bound[there]))
        return found

    def _groups(
        self, some: Sequence[Item], room_of_group: dict[int, numpy.ndarray]
    ) -> list[scipy.optimize.LinearConstraint]:
        """Return how many members of a group each host has."""
        groups = numpy.array([each.group for each in some])[self._of_kind]
        found = []
        for group, room in room_of_group.items():
            mine = numpy.flatnonzero(groups == group)
            rows, place = numpy.unique(self._of_host[mine], return_inverse=True)
            matrix = scipy.sparse.csr_matrix((numpy.ones(len(mine)), (place, mine)), shape=(len(rows), len(groups)))
            found.append(scipy.optimize.LinearConstraint(matrix, -numpy.inf, room[rows].astype(float)))
        return found


def _kinds(items: Sequence[Item]) -> list[list[int]]:
    """Return the numbers of items that are alike, together."""
    found: dict[object, list[int]] = {}
    for number, each in enumerate(items):
        alike = each.group == NO_GROUP
        key = (each.demand.tobytes(), each.hosts.tobytes(), len(each.guests)) if alike else number
        found.setdefault(key, []).append(number)
    return list(found.values())
