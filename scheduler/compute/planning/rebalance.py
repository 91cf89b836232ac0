# SPDX-License-Identifier: Apache-2.0
"""``fleet rebalance``: a plan of moves on a copy of the fleet, a bound that no plan exceeds, and the gap.

:mod:`fleet_cli.planning.rebalance` loads it by its entry point. The search works on columns. The scheduler's own code
then decides its moves one after the other, in every state of the plan. What is refused there is forbidden, and the
search goes on in the time that is left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy
from oslo_config import cfg

from fleet import errors
from fleet.db.feed.feed import Changes
from fleet.objects.rebalance import BALANCE, FREE_HOSTS, MAKE_ROOM, UNDO_SKEW, Goal, Measure, Move, Plan
from fleet.objects.whatif import Demand
from scheduler.compute import conf as compute_conf
from scheduler.compute.planning.ground import Ground, RequestOf
from scheduler.compute.planning.moves import columns as columns_of
from scheduler.compute.planning.moves import fitting, goals, promises, steps
from scheduler.compute.planning.moves.columns import Columns

#: Of the time limit, with promises to prove and without; the rest is for proofs, and the scheduler's own decisions.
_BESIDE_PROOFS, _SEARCHING = 0.4, 0.8
#: How often the search begins anew without what was refused.
_ROUNDS = 4
_PURPOSE = {MAKE_ROOM: "make room on", BALANCE: "relieve", UNDO_SKEW: "relieve"}


def run(
    conf: cfg.ConfigOpts,
    state: Changes,
    goal: Goal,
    request_of: RequestOf,
    tick: Callable[[str], object],
    anew: RequestOf | None = None,
) -> Plan:
    """Return a plan; nothing is changed.

    :param conf: of the scheduler; its filters are used
    :param state: the whole state, as the change feed reports it
    :param request_of: returns the request that moves an existing instance, from its uuid
    :param tick: called with what is done next
    :param anew: returns the request that places an existing instance when its host is lost; by default ``request_of``
    """
    compute_conf.register_opts(conf)
    ground = Ground(conf, state, request_of)
    tick("reading")
    columns = columns_of.read(ground, conf, goal.kind in (BALANCE, UNDO_SKEW), goal.room_for)
    until = goals.deadline((_BESIDE_PROOFS if goal.promised else _SEARCHING) * goal.limit_s)
    best: _Found | None = None
    tick("searching")
    # Its bounds hold: what is refused in one order of moves, and forbidden then, bounds not all plans.
    wanted, measured = goals.search(columns, goal, until)
    for number in range(_ROUNDS):
        planned = steps.moves_to(columns, wanted.at, goal.most_moves, _purpose(columns, goal, wanted.at))
        tick("checking")
        accepted = steps.checked(ground, columns, planned.moves)
        full = fitting.refusing(ground, columns, accepted.moves, wanted.hosts)
        reached = measured(_at(columns, accepted.moves), ())[0]
        found = _Found(columns, wanted, accepted.moves, {**planned.refused, **accepted.refused}, reached)
        if best is None or goal.kind == MAKE_ROOM or reached.is_as_good_as(best.reached):
            best = found
        if not (found.refused or full) or number == _ROUNDS - 1 or goals.deadline(0) > until:
            break
        columns = _without(columns, _destinations(columns, wanted.at, planned.moves, found.refused), full)
        tick("searching")
        wanted, _measured = goals.search(columns, goal, until)
    assert best is not None, "there is a first round"
    columns, wanted = best.columns, best.wanted
    useful = _useful(columns, goal, best.moves)
    demands = _demands(columns, anew or request_of) if goal.promised else {}
    ends, over = "", goals.deadline((1 - _BESIDE_PROOFS) * goal.limit_s)
    while True:
        moves, why = promises.keeping(conf, state, useful, goal.promised, demands, columns.guest_of(), over)
        ends, useful = ends or why, _useful(columns, goal, moves)
        # What is left out of the middle leads through other states.
        if len(useful) == len(moves):
            break
    moves = _never_worse(columns, goal, moves, measured)
    placed = fitting.fitting(ground, columns, moves)
    if moves and goal.kind == MAKE_ROOM and len(placed) <= len(without := fitting.fitting(ground, columns, [])):
        moves, placed = [], without
    at = _at(columns, moves)
    return Plan(
        moves=moves,
        hosts=int(numpy.isin(numpy.arange(len(columns.hosts)), list(columns.row_of.values())).sum()),
        empty_before=int(columns.empty[list(columns.row_of.values())].sum()),
        measures=_measures(goal, measured, at, placed, columns.problem.start),
        freed=[columns.hosts[host] for host in goals.freed(columns, at)],
        fits=len(placed),
        staying=columns.chosen,
        # The search has tried them beside moves that are no part of the plan.
        kept={} if ends else wanted.kept,
        dropped=best.refused,
        ends=ends,
    )


@dataclasses.dataclass(frozen=True)
class _Found:
    """The result of one search.

    :param moves: those that are accepted in their order
    :param refused: guests of other moves, with the reason
    """

    columns: Columns
    wanted: goals.Wanted
    moves: list[Move]
    refused: Mapping[str, str]
    reached: Measure


def _measures(
    goal: Goal, measured: goals.Measured, at: numpy.ndarray, placed: Sequence[int], start: numpy.ndarray
) -> list[Measure]:
    """Return what a plan reaches, and beside a share or a number of fuller hosts what it is now."""
    first, *others = measured(at, placed)
    if goal.kind in (BALANCE, UNDO_SKEW):
        first = dataclasses.replace(first, now=measured(start, ())[0].reached)
    return [first, *others]


def _purpose(columns: Columns, goal: Goal, at: numpy.ndarray) -> Callable[[int], str]:
    freed = set(goals.freed(columns, at))

    def purpose(host: int) -> str:
        if goal.kind == FREE_HOSTS:
            return f"{'free' if host in freed else 'make room on'} {columns.hosts[host]}"
        return f"{_PURPOSE[goal.kind]} {columns.hosts[host]}"

    return purpose


def _never_worse(columns: Columns, goal: Goal, moves: list[Move], measured: goals.Measured) -> list[Move]:
    """Return the moves, without the last ones if it takes that for the goal to be no further off than it is now."""
    if goal.kind == MAKE_ROOM:
        return moves

    def of(number: int) -> Measure:
        return measured(_at(columns, moves[:number]), ())[0]

    now, number = of(0), len(moves)
    if not now.gap:
        return []
    while number and not of(number).is_as_good_as(now):
        number -= 1
    return moves[:number]


def _destinations(
    columns: Columns, at: numpy.ndarray, moves: Sequence[Move], refused: Collection[str]
) -> Mapping[int, int]:
    """Return by refused guest the host that it cannot go to: that of its move, or, if it was left out of these, ``at``."""
    number_of = _numbers(columns)
    tried = {each.instance_uuid: columns.row_of[each.destination] for each in moves}
    return {number_of[uuid]: tried.get(uuid, int(at[number_of[uuid]])) for uuid in refused}


def _without(columns: Columns, refused: Mapping[int, int], full: Collection[int] = ()) -> Columns:
    """Return the columns where the refused guests have shapes of their own, which do not fit the hosts that refused them.

    :param refused: by guest the host
    :param full: hosts that refused a new instance
    """
    problem = columns.problem
    fits, shape_of = [problem.fits], problem.shape_of.copy()
    for guest, host in refused.items():
        own = problem.fits[problem.shape_of[guest]].copy()
        own[host] = False
        shape_of[guest] = sum(len(some) for some in fits)
        fits.append(own[None, :])
    made = dataclasses.replace(problem, fits=numpy.concatenate(fits), shape_of=shape_of)
    refused_new = columns.full.copy()
    refused_new[[*full]] = True
    return dataclasses.replace(columns, problem=made, full=refused_new)


def _useful(columns: Columns, goal: Goal, moves: Sequence[Move]) -> list[Move]:
    """Leave out moves away from hosts that the plan does not free, and moves that made room for those."""
    if goal.kind != FREE_HOSTS:
        return list(moves)
    freed = {columns.hosts[host] for host in goals.freed(columns, _at(columns, moves))}
    kept = [each for each in moves if each.source in freed]
    while True:
        receive = {each.destination for each in kept}
        more = [each for each in moves if each not in kept and each.source in receive]
        if not more:
            return [each for each in moves if each in kept]
        kept += more


def _at(columns: Columns, moves: Sequence[Move]) -> numpy.ndarray:
    number_of = _numbers(columns)
    at = columns.problem.start.copy()
    for each in moves:
        at[number_of[each.instance_uuid]] = columns.row_of[each.destination]
    return at


def _numbers(columns: Columns) -> Mapping[str, int]:
    """Return the numbers of the guests, by uuid."""
    return {each.uuid: number for number, each in enumerate(columns.guests)}


def _demands(columns: Columns, request_of: RequestOf) -> dict[str, Demand | errors.FleetError]:
    found: dict[str, Demand | errors.FleetError] = {}
    for each in columns.guests:
        try:
            found[each.uuid] = request_of(each.uuid)
        except errors.FleetError as gone:
            found[each.uuid] = gone
    return found
