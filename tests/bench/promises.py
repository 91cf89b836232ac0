# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.promises [HOSTS GUESTS]``: what it costs to keep a promise proved while the fleet changes.

The fleet is read once; then some hosts change, and only what rests on them is proved again. The times of looks are those of
the processor.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import random
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from fleet.db.feed.feed import Changes
from fleet.objects import RequestSpec
from fleet.objects.tolerance import REFUSE, Tolerance
from fleet.objects.whatif import Demand
from scheduler.compute.drivers.filter_scheduler import FilterScheduler
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.planning.losses import promises
from scheduler.compute.planning.losses.promised_losses import Follower
from tests import factories
from tests.bench import figures
from tests.configuration import of_scheduler
from tests.unit.scheduler.test_tolerance import Notifications

#: vcpus and GB of hosts, and of guests.
HOST, SIZES = (64, 256), [(1, 2), (2, 4), (4, 8), (2, 8), (8, 16), (8, 32), (16, 64)]
_MB = 1024


class ChangingHosts:
    """A feed of hosts filled at random; ``turn_over`` deletes a guest of some hosts, and puts another one on them."""

    def __init__(self, hosts: int, guests: int, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        self.names = [f"h{number}" for number in range(hosts)]
        self._on: dict[str, list[tuple[str, tuple[int, int]]]] = {name: [] for name in self.names}
        self.size_of: dict[str, tuple[int, int]] = {}
        self._generation, self._disk_gb = 1, 100_000
        self._later: Changes | None = None
        misses = 0
        while len(self.size_of) < guests and misses < 100_000:
            misses += not self._put(self._chance.choice(self.names), self._chance.choice(SIZES))

    def _put(self, host: str, size: tuple[int, int]) -> bool:
        used = [sum(each[1][part] for each in self._on[host]) for part in (0, 1)]
        if used[0] + size[0] > HOST[0] or used[1] + size[1] > HOST[1]:
            return False
        name = factories.uuid(len(self.size_of))
        self.size_of[name] = size
        self._on[host].append((name, size))
        return True

    def turn_over(self, number: int) -> None:
        self._generation += 1
        chosen = self._chance.sample([name for name in self.names if self._on[name]], number)
        gone = []
        for host in chosen:
            name, size = self._on[host].pop(self._chance.randrange(len(self._on[host])))
            gone.append(dataclasses.replace(factories.PlacedInstance(name, None, None), vm_state="deleted"))
            self._put(host, size)
        rows = [self._row(host) for host in chosen]
        placed = [factories.PlacedInstance(self._on[host][-1][0], host, host) for host in chosen]
        self._later = Changes(self._generation, nodes=rows, instances=[*gone, *placed])

    def touch(self, number: int) -> None:
        """Let hosts report again, with less disk: no guest has come or gone."""
        self._generation += 1
        self._disk_gb -= 1
        self._later = Changes(self._generation, nodes=[self._row(host) for host in self.names[:number]])

    def _row(self, host: str) -> Any:
        used = [sum(each[1][part] for each in self._on[host]) for part in (0, 1)]
        return factories.node(
            host,
            vcpus=HOST[0],
            vcpus_used=used[0],
            memory_mb=HOST[1] * _MB,
            memory_mb_used=used[1] * _MB,
            local_gb=self._disk_gb,
        )

    def read(self, since: int) -> Changes:
        if since:
            later, self._later = self._later, None
            return later or Changes(self._generation)
        rows = [self._row(host) for host in self.names]
        placed = [factories.PlacedInstance(name, host, host) for host, on in self._on.items() for name, _size in on]
        return dataclasses.replace(factories.changes(rows, instances=placed), full=True, generation=self._generation)

    def read_host(self, host: str) -> Changes:
        raise NotImplementedError

    def requests_of(self, uuids: Sequence[str]) -> dict[str, Demand]:
        return {name: self._demand(name) for name in uuids}

    def _demand(self, name: str) -> Demand:
        vcpus, gigabytes = self.size_of[name]
        flavor = {"vcpus": vcpus, "memory_mb": gigabytes * _MB}
        spec = {"instance_type": flavor, "num_instances": 1, "instance_uuids": [name], "instance_properties": {}}
        return Demand(spec, {}, [None], name=name)


def _decisions(fleet: ChangingHosts, promised: Sequence[Tolerance]) -> tuple[float, float]:
    """Milliseconds of a decision without a promise, and with one: medians of builds that take turns."""
    conf = of_scheduler()
    driver = FilterScheduler(conf, HostManager(fleet, fleet, lambda: factories.NOW), Notifications())
    prover = promises.Prover(
        *(conf, driver.admission, lambda: promised, lambda: fleet, lambda: factories.NOW),
        lambda uuids: [
            {"uuid": name, "request_spec": each.request_spec, "filter_properties": each.filter_properties}
            for name, each in fleet.requests_of(uuids).items()
        ],
        booked=driver.host_manager.bookings,
    )
    prover.prove()
    admission, guard = driver.admission, driver.admission._guard
    took: dict[bool, list[float]] = {False: [], True: []}
    for number in range(900):
        name = factories.uuid(10_000_000 + number)
        fleet.size_of[name] = SIZES[number % 3]
        request = RequestSpec.from_wire(fleet.requests_of([name])[name].request_spec, {})
        is_kept = number % 6 >= 3
        admission._admitted.guard = guard if is_kept else None
        began = time.perf_counter()
        driver.select_destinations(None, request)  # type: ignore[arg-type]
        took[is_kept].append(time.perf_counter() - began)
    without, with_one = (round(statistics.median(took[is_kept]) * 1000, 3) for is_kept in (False, True))
    return without, with_one


def main(argv: Sequence[str]) -> int:
    logging.disable(logging.CRITICAL)
    hosts, guests = (int(each) for each in argv) if argv else (10_000, 100_000)
    fleet = ChangingHosts(hosts, guests)
    used = sum(size[0] for on in fleet._on.values() for _name, size in on)
    began = time.perf_counter()
    follower = Follower(of_scheduler(), fleet, lambda: factories.NOW, fleet.requests_of)
    promised = [Tolerance(policy=REFUSE)]
    follower.look(promised)
    first_s = time.perf_counter() - began
    found: dict[str, Any] = {}
    few = (1, 10, 100, min(1000, hosts // 2))
    for what, changed in ((None, 0), *(("changed", each) for each in few), *(("touched", each) for each in few)):
        if what == "touched":
            fleet.touch(changed)
        elif what == "changed":
            fleet.turn_over(changed)
        else:
            follower._anew_at = 0.0  # all plans anew, with nothing read again
            fleet.turn_over(1)
        began = time.process_time()
        lost = follower.look(promised)
        assert lost is not None
        looked_s = time.process_time() - began
        began = time.process_time()
        if follower.is_whole:
            guard = promises.guard_of(lost, follower, "nova")
        else:
            guard.renew([promises.renewal_of(number, follower) for number in follower.standing.renewed])
        found[f"{what} {changed}" if what else "all anew"] = {
            "look_ms": round(looked_s * 1000, 1),
            "guard_ms": round((time.process_time() - began) * 1000, 1),
            "renewed": len(follower.standing.renewed),
        }
    found["decision_ms"], found["with_a_promise_ms"] = _decisions(fleet, promised)
    verdicts = collections.Counter(each.verdict.value for each in follower.standing.findings)
    late = sum(each.is_late for each in follower.standing.findings)
    figures.report(
        "promises",
        hosts=hosts,
        guests=len(fleet.size_of),
        used_vcpus=round(used / hosts / HOST[0], 3),
        first_s=round(first_s, 2),
        late=late,
        **verdicts,
        **found,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
