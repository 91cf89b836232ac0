# SPDX-License-Identifier: Apache-2.0
"""Plans of ``fleet rebalance`` on generated fleets: what they reach, the bound, the gap, and the time.

On the *mixed* fleet hosts have three shapes, guests have 1 to 8 GB a vcpu, and half of the hosts are much fuller than the
mean.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from fleet.db.feed.feed import Changes
from fleet.objects.rebalance import BALANCE, FREE_HOSTS, MAKE_ROOM, UNDO_SKEW, Goal
from fleet.objects.whatif import Demand
from fleet.telemetry import process_memory
from scheduler.compute.planning import rebalance
from tests import factories
from tests.bench import figures, waves
from tests.configuration import of_scheduler

#: Hosts, and the share of a host's vcpus that is in use on average. About 10 guests a host.
_FLEETS = ((100, 0.7), (1000, 0.7), (1000, 0.9))
_ANY = 1_000_000
#: vcpus and GB of memory.
_SHAPES = ((64, 256), (96, 384), (64, 512))


def run() -> None:
    process_memory.collect_rarely()  # as the program fleet does
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
    _of_mixed(1000, 0.8)


def _of_mixed(hosts: int, share: float) -> None:
    chance = random.Random(5)
    nodes, rows = [], []
    requests: dict[str, Demand] = {}
    for number in range(hosts):
        host, (vcpus, memory_gb) = f"h{number:04}", chance.choice(_SHAPES)
        used, used_gb, most = 0, 0, min(1.0, share * chance.uniform(0.6, 1.4))
        while True:
            size = chance.choice((1, 2, 4, 8, 8, 16))
            gb = size * chance.choice((1, 2, 4, 8))
            if used + size > vcpus * most or used_gb + gb > memory_gb * most:
                break
            used, used_gb, uuid = used + size, used_gb + gb, factories.uuid(len(rows) + 1)
            requests[uuid] = waves.request(uuid, size, host, 1024 * gb)
            rows.append(factories.PlacedInstance(uuid, host, host))
        sizes = {"vcpus": vcpus, "memory_mb": 1024 * memory_gb, "local_gb": 1000}
        uses = {"vcpus_used": used, "memory_mb_used": 1024 * used_gb}
        ratios = {"cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0}
        nodes.append(factories.node(host, **sizes, **uses, **ratios))
    state = factories.changes(nodes, instances=rows)
    for name, goal in (("balance", Goal(_ANY, BALANCE)), ("undo skew", Goal(_ANY, UNDO_SKEW, within=0.1))):
        _planned(state, requests.__getitem__, goal, hosts=hosts, guests=len(rows), share="mixed", goal=name)


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
