# SPDX-License-Identifier: Apache-2.0
"""Searches for each goal of ``fleet rebalance``: where guests should be, and what no plan can do better.

Called by :mod:`scheduler.compute.planning.rebalance`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

import numpy

from fleet.objects import RequestSpec, instance_group
from fleet.objects.rebalance import BALANCE, FREE_HOSTS, MAKE_ROOM, Goal, Measure
from scheduler.compute.planning.moves.columns import DISK, MEMORY, VCPUS, Columns
from scheduler.compute.tolerance.amounts import demand_of
from scheduler.compute.tolerance.hardware import has_hardware
from scheduler.planning.search import bounds, descent, goals
from scheduler.planning.search.annealing import anneal
from scheduler.planning.search.assignment import Assignment
from scheduler.planning.search.problem import ANY_NUMBER, Problem, Terms
from scheduler.planning.search.schedule import Schedule
from scheduler.planning.survival.room import UNLIMITED

#: Shares above the mean at which a host's cost becomes steeper.
_LEVELS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
#: To balance, a move must lower the loads above these levels by this share of what it moves.
_WORTH = 0.2
#: To undo a skew, a MB above the level counts as so many that move.
_ABOVE = 1000.0
_GIB = 1024.0
#: Steps of the search after the descent, and one more for each guest, at most.
_STEPS = 300
_COOL = Schedule(hot=0.01, cold=1e-4, cycles=1)


@dataclasses.dataclass(frozen=True)
class Wanted:
    """:param at: the host of each guest afterwards
    :param hosts: hosts that the moves free, or that get room, one for each new instance
    :param kept: hosts that were tried in vain, with the reason
    """

    at: numpy.ndarray
    hosts: Sequence[int] = ()
    kept: Mapping[str, str] = dataclasses.field(default_factory=dict)


#: Returns what was reached and what no plan exceeds, from the host of each guest, and the hosts of new instances.
Measured = Callable[[numpy.ndarray, Sequence[int]], list[Measure]]


def search(columns: Columns, goal: Goal, until: float) -> tuple[Wanted, Measured]:
    if goal.kind == FREE_HOSTS:
        return _free_hosts(columns, goal, until)
    if goal.kind == MAKE_ROOM:
        return _make_room(columns, goal, until)
    return _spread(columns, goal, until)


def freed(columns: Columns, at: numpy.ndarray) -> list[int]:
    """Return the hosts that had guests and have none."""
    empty = numpy.bincount(at, minlength=len(columns.hosts)) == 0
    found: list[int] = numpy.flatnonzero(empty & ~columns.empty).tolist()
    return found


def _moved_gib(columns: Columns, at: numpy.ndarray) -> float:
    problem = columns.problem
    away = problem.need[at != problem.start]
    return round(float(away[:, MEMORY].sum() + away[:, DISK].sum()) / _GIB, 1)


def _free_hosts(columns: Columns, goal: Goal, until: float) -> tuple[Wanted, Measured]:
    problem = columns.problem
    with_guests = numpy.flatnonzero(columns.up & ~columns.empty).tolist()
    kept = {host: why for host in with_guests if (why := columns.why_not(host))}
    donors = numpy.array([host for host in with_guests if host not in kept], dtype=int)
    closed = columns.empty | ~columns.up
    found = goals.empty_places(problem, donors, closed, goal.free_hosts, goals.Limits(until, goal.most_moves))
    number = numpy.bincount(problem.start, minlength=problem.places)
    receives = set(found.at[found.at != problem.start].tolist())
    for host in found.kept:
        if host in receives:
            kept[host] = "receives instances in this plan"
        elif number[host] > goal.most_moves:
            kept[host] = f"needs {number[host]} moves, and {goal.most_moves} are allowed"
        else:
            kept[host] = "its instances find no other hosts within the limit of moves"
    most = bounds.most_emptied(problem, donors, closed, goal.most_moves)
    bound = most if goal.free_hosts is None else min(most, goal.free_hosts)

    def measured(at: numpy.ndarray, _hosts: Sequence[int]) -> list[Measure]:
        return [Measure("hosts freed", len(freed(columns, at)), bound, is_most=True)]

    return Wanted(found.at, found.places, {columns.hosts[host]: why for host, why in kept.items()}), measured


def _make_room(columns: Columns, goal: Goal, until: float) -> tuple[Wanted, Measured]:
    problem = columns.problem
    request = RequestSpec.from_wire(goal.demands[0].request_spec, goal.demands[0].filter_properties)
    need, fits = numpy.array(demand_of(request)), columns.for_new
    apart = instance_group.ANTI_AFFINITY in request.group_policies
    most = request.group_max_server_per_host if apart else ANY_NUMBER
    wanted = len(goal.demands)
    found = goals.make_room(problem, need, fits, most, wanted, goals.Limits(until, goal.most_moves))
    # Which hosts have cells or devices for it is known of the present state only.
    is_known = not has_hardware(request)
    bound = min(wanted, bounds.most_room(problem, need, fits, most)) if is_known else None

    def measured(at: numpy.ndarray, hosts: Sequence[int]) -> list[Measure]:
        least = round(bounds.least_moved(problem, need, fits, most, len(hosts)) / _GIB, 1)
        return [
            Measure("instances that fit", len(hosts), bound, is_most=True),
            Measure("GiB moved for them", _moved_gib(columns, at), least if is_known else None),
        ]

    why = {
        columns.hosts[host]: columns.why_not(host) or "its instances find no other hosts within the limit of moves"
        for host in found.kept
    }
    return Wanted(found.at, found.places, why), measured


def _spread(columns: Columns, goal: Goal, until: float) -> tuple[Wanted, Measured]:
    """Balance, or undo a skew: loads of vcpus and memory above levels cost, and moves cost."""
    problem = columns.problem
    limited = [each for each in (VCPUS, MEMORY) if (problem.capacity[columns.up, each] < UNLIMITED // 2).all()]
    use = numpy.zeros(problem.capacity.shape)
    numpy.add.at(use, problem.start, problem.need)
    # A host with guests and no capacity counts as in its share, so that the fullest host never has less than the mean.
    used, sizes = use[columns.up], problem.capacity[columns.up]
    of = numpy.maximum(numpy.where(used > 0, numpy.maximum(sizes, 1), sizes).sum(axis=0), 1)
    mean = used.sum(axis=0) / of
    is_balance = goal.kind == BALANCE
    levels = _LEVELS if is_balance else (goal.within,)
    price = 1.0 if is_balance else _ABOVE
    offset, slope, weight = [], [], []
    for resource in limited:
        in_memory = of[MEMORY] / of[resource] if resource != MEMORY else 1.0
        for level in levels:
            above = -(mean[resource] + level) * problem.capacity[:, resource]
            offset.append(numpy.where(columns.up, above, -float(UNLIMITED)))
            slope.append(numpy.eye(3)[resource])
            weight.append(price * in_memory)
    terms = (
        Terms(numpy.stack(offset, axis=1), numpy.stack(slope, axis=1), numpy.array(weight))
        if limited
        else problem.terms
    )
    moves = dataclasses.replace(problem.moves, item=problem.moves.item * (_WORTH if is_balance else 1.0))
    priced = dataclasses.replace(problem, terms=terms, moves=moves)
    at = _searched(priced, goal.most_moves, until)

    def measured(at: numpy.ndarray, _hosts: Sequence[int]) -> list[Measure]:
        moved = _moved_gib(columns, at)
        if is_balance:
            highest = 100 * max((_shares(columns, at, each).max(initial=0.0) for each in limited), default=0.0)
            least = 100 * max((float(mean[each]) for each in limited), default=0.0)
            return [
                Measure("share of the fullest host in %", round(highest, 1), round(least, 1)),
                Measure("GiB moved", moved),
            ]
        above = numpy.zeros(problem.places, dtype=bool)
        for each in limited:
            above[columns.up] |= _shares(columns, at, each) > mean[each] + goal.within + 1e-9
        least = _least_out(columns, use, [(each, float(mean[each]) + goal.within) for each in limited])
        return [
            Measure(f"hosts fuller than the mean by more than {100 * goal.within:g} points", int(above.sum()), 0.0),
            Measure("GiB moved", moved, round(least / _GIB, 1)),
        ]

    return Wanted(at), measured


def _searched(problem: Problem, most_moves: int, until: float) -> numpy.ndarray:
    now = Assignment(problem)
    if not problem.items or not now.cost_of.sum():
        return now.at
    descent.descend(now, most_moves, until)
    return anneal(problem, until, 1, _COOL, most_moves, start=now.at, enough=0.0, most_steps=_STEPS + problem.items).at


def _shares(columns: Columns, at: numpy.ndarray, resource: int) -> numpy.ndarray:
    use = numpy.bincount(at, weights=columns.problem.need[:, resource], minlength=len(columns.hosts))
    shares: numpy.ndarray = (use / numpy.maximum(columns.problem.capacity[:, resource], 1))[columns.up]
    return shares


def _least_out(columns: Columns, use: numpy.ndarray, levels: Sequence[tuple[int, float]]) -> float:
    """Return the least that must leave hosts which are above the levels."""
    problem, least = columns.problem, 0.0
    for host in numpy.flatnonzero(columns.up).tolist():
        lacks = [use[host, each] - level * problem.capacity[host, each] for each, level in levels]
        if max(lacks, default=0.0) > 0:
            items = numpy.flatnonzero(problem.start == host)
            fractions = (
                bounds.fraction(problem, items, each, lack) for (each, _level), lack in zip(levels, lacks, strict=True)
            )
            least += max(fractions)
    return least


def deadline(limit_s: float) -> float:
    """Return what the clock of the searches shows when the time is over."""
    return time.monotonic() + limit_s
