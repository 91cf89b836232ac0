# SPDX-License-Identifier: Apache-2.0
"""Searches for each goal of ``fleet rebalance``: where guests should be, and what no plan can do better.

Called by :mod:`scheduler.compute.planning.rebalance`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

import numpy

from fleet.objects import instance_group
from fleet.objects.rebalance import BALANCE, FREE_HOSTS, MAKE_ROOM, Goal, Measure
from scheduler.compute.planning.losses.room_reader import has_open_rules
from scheduler.compute.planning.moves.columns import DISK, MEMORY, VCPUS, Columns
from scheduler.compute.tolerance.amounts import demand_of
from scheduler.compute.tolerance.hardware import has_hardware
from scheduler.planning.search import bounds, descent, goals, leaving
from scheduler.planning.search.annealing import anneal
from scheduler.planning.search.assignment import Assignment
from scheduler.planning.search.leaving import Leaving
from scheduler.planning.search.problem import Problem, Terms
from scheduler.planning.search.schedule import Schedule
from scheduler.planning.survival.room import UNLIMITED

#: Shares above the mean at which a host's cost becomes steeper.
_LEVELS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
#: To balance, a move must lower the loads above these levels by this share of what it moves.
_WORTH = 0.2
#: To undo a skew, a MB above the level counts as so many that move, at least.
_ABOVE = 1000.0
#: Shares that differ by less are equal.
_EXACT = 1e-9
_GIB = 1024.0
_NOT_FOUND = "no other hosts were found for its instances within the limit of moves"
#: Steps of a search after the descent, and one more for each guest, at most.
_STEPS = 300
#: Each begins with the best of the one before. Which temperature finds something depends on the fleet.
_HOT, _COLD = (1e-2, 1e-3, 1e-4), 1e-2


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
    return float(away[:, MEMORY].sum() + away[:, DISK].sum()) / _GIB


def _free_hosts(columns: Columns, goal: Goal, until: float) -> tuple[Wanted, Measured]:
    problem = columns.problem
    with_guests = numpy.flatnonzero(columns.up & ~columns.empty).tolist()
    kept = {host: why for host in with_guests if (why := columns.why_not(host))}
    donors = numpy.array([host for host in with_guests if host not in kept], dtype=int)
    closed = columns.empty | ~columns.up
    unused = columns.empty & columns.up
    most = bounds.most_emptied(problem, donors, closed, unused, goal.most_moves)
    bound = most if goal.free_hosts is None else min(most, goal.free_hosts)
    found = _emptied(columns, donors, closed, unused, goal, bound, until)
    number = numpy.bincount(problem.start, minlength=problem.places)
    receives = set(found.at[found.at != problem.start].tolist())
    for host in found.kept:
        if host in receives:
            kept[host] = "receives instances in this plan"
        elif number[host] > goal.most_moves:
            kept[host] = f"needs {number[host]} moves, and {goal.most_moves} are allowed"
        else:
            kept[host] = _NOT_FOUND

    def measured(at: numpy.ndarray, _hosts: Sequence[int]) -> list[Measure]:
        return [Measure("hosts freed", len(freed(columns, at)) - _filled(columns, at), bound, is_most=True)]

    return Wanted(found.at, found.places, {columns.hosts[host]: why for host, why in kept.items()}), measured


def _filled(columns: Columns, at: numpy.ndarray) -> int:
    """Return how many hosts had no guest and have some."""
    return int((columns.empty & (numpy.bincount(at, minlength=len(columns.hosts)) > 0)).sum())


def _emptied(
    columns: Columns,
    donors: numpy.ndarray,
    closed: numpy.ndarray,
    unused: numpy.ndarray,
    goal: Goal,
    bound: int,
    until: float,
) -> goals.Result:
    """Empty hosts. An empty one takes guests only if more others become empty for it: the largest are tried first."""
    problem, wanted = columns.problem, goal.free_hosts
    limits = goals.Limits(until, goal.most_moves)
    best = goals.empty_places(problem, donors, closed, wanted, limits)
    sizes = (problem.capacity / numpy.maximum(problem.capacity.max(axis=0, initial=0), 1)).sum(axis=1)
    open_ = closed.copy()
    for filled, host in enumerate(sorted(numpy.flatnonzero(unused).tolist(), key=lambda each: (-sizes[each], each)), 1):
        if len(best.places) - filled + 1 >= bound or limits.clock() >= until:
            break
        open_[host] = False
        found = goals.empty_places(problem, donors, open_, None if wanted is None else wanted + filled, limits)
        if len(found.places) <= len(best.places) + 1:
            break
        best = found
    return best


def _make_room(columns: Columns, goal: Goal, until: float) -> tuple[Wanted, Measured]:
    problem = columns.problem
    request = columns.new
    assert request is not None, "a goal of room names what it is for"
    need, fits, most, wanted = numpy.array(demand_of(request)), columns.for_new, columns.most_new, request.num_instances
    # Swap is not held, but must be free.
    swap = numpy.array([0, 0, request.flavor.requested_disk_mb]) - need * (0, 0, 1)
    limits, open_ = goals.Limits(until, goal.most_moves), fits & ~columns.full
    # Members of a group that has none yet choose their host together.
    together = instance_group.AFFINITY in request.group_policies and not request.group_members
    alone = bounds.most_on(problem, need, fits, most)
    most_there = min(wanted, int(alone.max(initial=0)) if together else bounds.most_room(problem, need, fits, most))
    found = goals.make_room(problem, need + swap, open_, most, 0 if together else wanted, limits)
    for number in range(most_there if together else 0, 0, -1):
        on_one = goals.make_room(problem, number * need + swap, open_, numpy.minimum(most, 1), 1, limits)
        if on_one.places:
            found = dataclasses.replace(on_one, places=[*on_one.places] * number)
            break
    # Which hosts have cells or devices for it is known of the present state only, and so are labels of members to come.
    is_known = not has_hardware(request) and not has_open_rules(request)
    bound = most_there if is_known else None

    def measured(at: numpy.ndarray, hosts: Sequence[int]) -> list[Measure]:
        number = len(hosts)
        least = (
            bounds.least_moved(problem, number * need, fits, numpy.minimum(most, 1), min(number, 1))
            if together
            else bounds.least_moved(problem, need, fits, most, number)
        ) / _GIB
        return [
            Measure("instances that fit", len(hosts), bound, is_most=True),
            Measure("GiB moved for them", _moved_gib(columns, at), least if is_known and number else None),
        ]

    why = {columns.hosts[host]: columns.why_not(host) or _NOT_FOUND for host in found.kept}
    return Wanted(found.at, found.places, why), measured


def _spread(columns: Columns, goal: Goal, until: float) -> tuple[Wanted, Measured]:
    """Balance, or undo a skew: loads of vcpus and memory above levels cost, and moves cost."""
    problem = columns.problem
    counts = columns.up[:, None] & (problem.capacity < UNLIMITED // 2)
    limited = [each for each in (VCPUS, MEMORY) if counts[:, each].any()]
    use = numpy.zeros(problem.capacity.shape)
    numpy.add.at(use, problem.start, problem.need)
    # A host with guests and no capacity counts as in its share, so that the fullest host never has less than the mean.
    used, sizes = numpy.where(counts, use, 0), numpy.where(counts, problem.capacity, 0)
    of = numpy.maximum(numpy.where(used > 0, numpy.maximum(sizes, 1), sizes).sum(axis=0), 1)
    mean = used.sum(axis=0) / of
    is_balance = goal.kind == BALANCE
    levels = _LEVELS if is_balance else (goal.within,)
    # A share of a small host counts as much as one of a large host: in MB of the mean host.
    mean_mb = of[MEMORY] / max(int(columns.up.sum()), 1)
    price = (1.0 if is_balance else _above_price(problem)) * mean_mb
    offset, slope, weight = [], [], []
    for resource in limited:
        for level in levels:
            above = -(mean[resource] + level) * problem.capacity[:, resource]
            offset.append(numpy.where(counts[:, resource], above, -float(UNLIMITED)))
            slope.append(numpy.eye(3)[resource])
            sizes_of = problem.capacity[:, resource]
            weight.append(price / numpy.where(sizes_of > 0, sizes_of, max(of[resource] / max(len(sizes_of), 1), 1)))
    terms = Terms(*(numpy.stack(each, axis=1) for each in (offset, slope, weight))) if limited else problem.terms
    moves = dataclasses.replace(problem.moves, item=problem.moves.item * (_WORTH if is_balance else 1.0))
    priced = dataclasses.replace(problem, terms=terms, moves=moves)
    levels_of = [(each, float(mean[each]) + goal.within) for each in limited]
    out = Leaving()
    if not is_balance:
        excess = numpy.zeros(problem.capacity.shape)
        for each, level in levels_of:
            excess[:, each] = (use[:, each] - (level + _EXACT) * problem.capacity[:, each]) * columns.up
        out = leaving.cheapest(problem, excess)
    at = _searched(priced, goal.most_moves, until, out)
    least_gib = out.least / _GIB

    def measured(at: numpy.ndarray, _hosts: Sequence[int]) -> list[Measure]:
        moved = _moved_gib(columns, at)
        shares = {each: _shares(columns, at, each) * counts[:, each] for each in limited}
        if is_balance:
            highest = 100 * max((of_hosts.max(initial=0.0) for of_hosts in shares.values()), default=0.0)
            least = 100 * max((float(mean[each]) for each in limited), default=0.0)
            return [Measure("share of the fullest host in %", highest, least), Measure("GiB moved", moved)]
        above = numpy.zeros(problem.places, dtype=bool)
        for each, level in levels_of:
            above |= shares[each] > level + _EXACT
        return [
            Measure(f"hosts fuller than the mean by more than {100 * goal.within:g} points", int(above.sum()), 0.0),
            Measure("GiB moved", moved, least_gib),
        ]

    return Wanted(at), measured


def _above_price(problem: Problem) -> float:
    """Return for how many MB that move a MB above the level counts: more than any guest has for each MB of its memory."""
    dearest = (problem.moves.item / numpy.maximum(problem.need[:, MEMORY], 1)).max(initial=0.0)
    return max(_ABOVE, 10 * float(dearest))


def _searched(problem: Problem, most_moves: int, until: float, out: Leaving) -> numpy.ndarray:
    """:param out: what must leave hosts that are too full, if that is known"""
    now = Assignment(problem)
    if not problem.items or not now.cost_of.sum():
        return now.at
    for items in (*out.choices, numpy.zeros(0, dtype=int)):
        tried = Assignment(problem)
        if len(items) <= most_moves:
            leaving.leave(tried, items)
        descent.descend(tried, most_moves, until)
        now = min(now, tried, key=Assignment.cost)
        if now.cost() <= out.least:
            break
    at, most_steps = now.at, _STEPS + problem.items
    for number, hot in enumerate(_HOT):
        # Each has its part of the time that is left.
        begun = time.monotonic()
        part = begun + (until - begun) / (len(_HOT) - number)
        schedule = Schedule(hot=hot, cold=hot * _COLD, cycles=1)
        at = anneal(problem, part, 1, schedule, most_moves, start=at, enough=out.least, most_steps=most_steps).at
    return at


def _shares(columns: Columns, at: numpy.ndarray, resource: int) -> numpy.ndarray:
    use = numpy.bincount(at, weights=columns.problem.need[:, resource], minlength=len(columns.hosts))
    shares: numpy.ndarray = use / numpy.maximum(columns.problem.capacity[:, resource], 1)
    return shares


def deadline(limit_s: float) -> float:
    """Return what the clock of the searches shows when the time is over."""
    return time.monotonic() + limit_s
