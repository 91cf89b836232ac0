# SPDX-License-Identifier: Apache-2.0
"""Plans of ``fleet rebalance`` on generated fleets: what they reach, the bound, the gap, and the time."""

from __future__ import annotations

import time
from collections.abc import Callable

from fleet.db.feed.feed import Changes
from fleet.objects.rebalance import BALANCE, FREE_HOSTS, MAKE_ROOM, UNDO_SKEW, Goal
from fleet.objects.whatif import Demand
from scheduler.compute.planning import rebalance
from tests.bench import figures, waves
from tests.configuration import of_scheduler

#: Hosts, and the share of a host's vcpus that is in use on average. About 10 guests a host.
_FLEETS = ((100, 0.7), (1000, 0.7), (1000, 0.9))
_ANY = 1_000_000


def run() -> None:
    for hosts, share in _FLEETS:
        state, sizes, where = waves.fleet(hosts, share, most=8)
        requests = {uuid: waves.request(uuid, sizes[uuid], where[uuid]) for uuid in sizes}
        room = waves.new(10, 48)
        for name, goal in (
            ("free hosts, 50 moves", Goal(50, FREE_HOSTS)),
            ("free hosts", Goal(_ANY, FREE_HOSTS)),
            ("make room for 10 of 48 vcpus", Goal(_ANY, MAKE_ROOM, room_for=room)),
            ("balance, 200 moves", Goal(200, BALANCE)),
            ("undo skew", Goal(_ANY, UNDO_SKEW, within=0.1)),
        ):
            _planned(state, requests.__getitem__, goal, hosts=hosts, guests=len(sizes), share=share, goal=name)


def _planned(state: Changes, request_of: Callable[[str], Demand], wanted: Goal, **about: object) -> None:
    began = time.perf_counter()
    plan = rebalance.run(of_scheduler(), state, wanted, request_of, lambda _doing: None)
    first = plan.measures[0]
    figures.report(
        "rebalance",
        **about,
        reached=first.reached,
        bound=first.bound,
        gap_percent=round(100 * first.gap, 1),
        more=[str(each) for each in plan.measures[1:]],
        moves=len(plan.moves),
        steps=max((each.step for each in plan.moves), default=0),
        refused=len(plan.dropped),
        seconds=round(time.perf_counter() - began, 2),
    )
