# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.admission [HOSTS]``: fills a fleet that promises to survive any host, and loses each host.

Builds go through the scheduler with the policy ``refuse`` until many in a row are refused; the prover follows by
differences. Then the guests of each host are placed anew by plain numbers: no code of the scheduler is asked.
"""

from __future__ import annotations

import logging
import random
import sys
import time
from collections.abc import Iterator, Sequence

from fleet import errors
from fleet.db.feed.feed import Changes
from fleet.objects import RequestSpec
from fleet.objects.tolerance import REFUSE, Tolerance
from scheduler.compute.drivers.filter_scheduler import FilterScheduler
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.planning.losses import promises
from tests import factories
from tests.bench import figures
from tests.bench.promises import HOST, SIZES, Fleet
from tests.configuration import of_scheduler
from tests.unit.scheduler.test_tolerance import Notifications

#: Builds between two proofs, refusals in a row that end it, and orders of guests that are tried for each host.
_PROVED_EVERY, _REFUSED, _ORDERS = 25, 60, 200


class Filling(Fleet):
    """A feed that shows each claim to all its readers."""

    def __init__(self, hosts: int) -> None:
        super().__init__(hosts, 0)
        self._log: list[tuple[str, str]] = []

    def claim(self, name: str, host: str) -> None:
        self._on[host].append((name, self.size_of[name]))
        self._log.append((host, name))
        self._generation += 1

    def read(self, since: int) -> Changes:
        if not since:
            return super().read(0)
        later = self._log[since - self._generation :] if since < self._generation else []
        placed = [factories.PlacedInstance(name, host, host) for host, name in later]
        rows = [self._row(host) for host in sorted({host for host, _name in later})]
        return Changes(self._generation, nodes=rows, instances=placed)

    def free(self) -> dict[str, list[int]]:
        return {
            host: [HOST[part] - sum(size[part] for _name, size in on) for part in (0, 1)]
            for host, on in self._on.items()
        }

    def survives(self, lost: str, chance: random.Random) -> bool:
        """Whether the guests of a host are placed elsewhere, in some order, on the host with the least room."""
        sizes = sorted((size for _name, size in self._on[lost]), key=lambda size: (-size[1], -size[0]))
        left = self.free()
        del left[lost]
        for _order in range(_ORDERS):
            if _placed(sizes, {host: list(free) for host, free in left.items()}):
                return True
            chance.shuffle(sizes)
        return False

    def requests(self, chance: random.Random) -> Iterator[tuple[str, RequestSpec]]:
        while True:
            name = factories.uuid(len(self.size_of))
            self.size_of[name] = chance.choice(SIZES)
            yield name, RequestSpec.from_wire(self.requests_of([name])[name].request_spec, {})


def _placed(sizes: Sequence[tuple[int, int]], free: dict[str, list[int]]) -> bool:
    for vcpus, gigabytes in sizes:
        able = [host for host, left in free.items() if left[0] >= vcpus and left[1] >= gigabytes]
        if not able:
            return False
        host = min(able, key=lambda each: (free[each][1], free[each][0]))
        free[host][0] -= vcpus
        free[host][1] -= gigabytes
    return True


def fill(hosts: int, seed: int, promised: Sequence[Tolerance]) -> None:
    chance, fleet, conf = random.Random(seed), Filling(hosts), of_scheduler()
    driver = FilterScheduler(conf, HostManager(fleet, fleet, lambda: factories.NOW), Notifications())
    prover = promises.Prover(
        *(conf, driver.admission, lambda: promised, lambda: fleet, lambda: factories.NOW),
        lambda uuids: [
            {"uuid": name, "request_spec": each.request_spec, "filter_properties": each.filter_properties}
            for name, each in fleet.requests_of(uuids).items()
        ],
    )
    refused = placed = 0
    began = time.perf_counter()
    for number, (name, request) in enumerate(fleet.requests(chance)):
        if number % _PROVED_EVERY == 0:
            prover._rests_until = 0.0
            prover.prove()
        try:
            (selection,) = driver.select_destinations(None, request)  # type: ignore[arg-type]
        except errors.NoValidHost:
            refused += 1
            if refused == _REFUSED:
                break
            continue
        refused = 0
        placed += 1
        fleet.claim(name, selection.host)
    took_s = time.perf_counter() - began
    lost = [host for host in fleet.names if not fleet.survives(host, chance)]
    free = sum(left[0] for left in fleet.free().values()) / hosts / HOST[0]
    figures.report(
        "admission",
        hosts=hosts,
        seed=seed,
        promised=bool(promised),
        guests=placed,
        free_vcpus=round(free, 4),
        free_memory=round(sum(left[1] for left in fleet.free().values()) / hosts / HOST[1], 4),
        losses_without_a_place=len(lost),
        seconds=round(took_s, 1),
    )


def main(argv: Sequence[str]) -> int:
    logging.disable(logging.CRITICAL)
    for seed in range(3):
        for promised in ([Tolerance(policy=REFUSE)], []):
            fill(int(argv[0]) if argv else 200, seed, promised)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
