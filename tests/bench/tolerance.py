# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.tolerance``: what a tolerance costs, beside the percentage rule that is as safe.

Equal requests, with their lifetimes, go to equal fleets (those of ``packing``, and its sample or trace). One fleet refuses
what would break "1 host"; the others refuse what exceeds a share of all vcpus or of all memory. The smallest share is looked
for with which the drill finds every loss survived each time that it looks. Core-hours placed are compared.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from fleet.objects.survival import Loss
from fleet.objects.tolerance import REFUSE, Tolerance
from fleet.objects.whatif import Demand
from scheduler.compute.planning import survival
from tests import factories
from tests.bench import figures, packing
from tests.bench.admission import Filling, Scheduling
from tests.bench.snapshots import Guest
from tests.configuration import of_scheduler

#: Requests of a sample, those between two proofs, and those between two looks of the drill.
_LENGTH, _PROVED_EVERY, _LOOKED_EVERY = 300, 10, 30
#: Memory is counted in quarters of a GB, as in ``traces``; shares are tried in steps, in per cent.
_QUARTER_MB, _STEP = 256, 2
_PROMISE = Tolerance(policy=REFUSE)


class Found(NamedTuple):
    """:param share: of the core-hours that were asked for; ``broken``: losses that were not survived, over all looks"""

    share: float
    broken: int


def replay(name: str, demands: Sequence[Demand], promised: Sequence[Tolerance], most: float, stops: bool) -> Found:
    """Place and end guests as they come and go.

    :param most: the share of all vcpus, and of all memory, that is not exceeded
    :param stops: end at the first loss that is not survived
    """
    fleet = Filling(packing.cells(name, demands, _QUARTER_MB))
    scheduling = Scheduling(fleet, promised)
    running: list[tuple[float, str, str]] = []
    end_s = demands[-1].at_s
    asked_h = placed_h = 0.0
    broken = number = 0
    for turn, demand in enumerate(demands):
        while running and running[0][0] <= demand.at_s:
            _ends, name_, host = heapq.heappop(running)
            fleet.end(name_, host)
        if promised and turn % _PROVED_EVERY == 0:
            scheduling.prove()
        flavor = demand.request_spec["instance_type"]
        for life_s in demand.lifetimes_s:
            number += 1
            guest = Guest(str(number), 1, flavor["vcpus"], -(-flavor["memory_mb"] // _QUARTER_MB))
            ends_s = end_s if life_s is None else min(demand.at_s + life_s, end_s)
            core_h = guest.vcpus * (ends_s - demand.at_s) / 3600
            asked_h += core_h
            if most < 1 and not _is_within(fleet, guest, most):
                continue
            uuid = factories.uuid(number)
            where = scheduling.place(uuid, guest)
            if where is not None:
                placed_h += core_h
                heapq.heappush(running, (ends_s if life_s is None else demand.at_s + life_s, uuid, where))
        if turn % _LOOKED_EVERY == _LOOKED_EVERY - 1:
            broken += _broken(fleet)
            if broken and stops:
                break
    return Found(placed_h / asked_h, broken)


def _is_within(fleet: Filling, guest: Guest, most: float) -> bool:
    for part, size in enumerate((guest.vcpus, guest.memory_gb)):
        total = sum(cell[part] for each in fleet.cells.values() for cell in each)
        used = total * (1 - fleet.free_share(part))
        if used + size > most * total:
            return False
    return True


def _broken(fleet: Filling) -> int:
    """Return how many hosts' losses are not proved to be survived."""
    losses = [Loss(host, [host]) for host in fleet.cells]
    requests = {name: fleet.demand(name) for on in fleet.on.values() for name in on}
    report = survival.run(of_scheduler(), fleet.read(0), losses, lambda _uuids: requests, lambda _name: None, 5.0)
    return sum(proof.verdict.value != "safe" for proof in report.proofs)


def main() -> int:
    logging.disable(logging.CRITICAL)
    samples = [list(itertools.islice(packing.generated(), _LENGTH))]
    if packing.TRACE in os.environ:
        asked = packing.demands()
        samples += [list(itertools.islice(asked, _LENGTH)) for _sample in range(3)]
    for number, demands in enumerate(samples):
        for name in ("short of cores", "short of both"):
            free = replay(name, demands, (), 1.0, stops=False)
            kept = replay(name, demands, [_PROMISE], 1.0, stops=False)
            share, by_rule = 0, free
            while by_rule.broken and share < 100 - _STEP:
                share += _STEP
                by_rule = replay(name, demands, (), 1 - share / 100, stops=True)
            figures.report(
                "tolerance",
                sample=number,
                fleet=name,
                hosts=len(packing.cells(name, demands, _QUARTER_MB)),
                without=round(free.share, 4),
                losses_broken_without=free.broken,
                tolerance=round(kept.share, 4),
                losses_broken=kept.broken,
                rule=round(by_rule.share, 4),
                percent_free=share,
                core_hours_more=round(kept.share - by_rule.share, 4),
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
