# SPDX-License-Identifier: Apache-2.0
"""Published sequences of requests with groups, decided one after the other: placed, rules broken, and time of a decision.

``FLEET_BENCH_TOPOLOGY`` names the directory of the data set (see :mod:`tests.bench.survival`). Its strategies are read as:

| Strategy | Group |
|---|---|
| ``affinity``, ``anti-affinity`` | nova's policy of this name |
| ``fault_domain`` | a rule ``spread`` by rack with ``max_skew`` 1 |

Beside the scheduler stands a sort: filters like nova's and the same rules, then the host with the fewest free vcpus. The
rules are checked by counting where the instances are, without any code of the scheduler; the part ends with status 1 if one
is broken.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fleet.objects import RequestSpec
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.planning.copied_fleet import CopiedFleet
from tests import factories
from tests.bench import figures, snapshots, survival
from tests.bench.snapshots import APART, TOGETHER, Guest, Snapshot
from tests.configuration import of_scheduler

SPREAD = "spread"
_STRATEGIES = {"affinity": TOGETHER, "anti-affinity": APART, "fault_domain": SPREAD}
#: Multipliers of memory, cores and fragmentation (see :mod:`tests.bench.packing`).
_SETTINGS = {"default": (1.0, 1.0, 0.0), "pack": (-1.0, -1.0, 0.0), "fragmentation, pack": (-0.1, -0.1, 1.0)}


def run() -> None:
    directory = os.environ.get(survival.DIRECTORY)
    if not directory:
        print(f"domains: {survival.DIRECTORY} names no data set", file=sys.stderr)
        return
    broken = 0
    for path in sorted(pathlib.Path(directory).glob("requests-*.csv")):
        guests = read(path)
        empty = snapshots.hosts_of(pathlib.Path(directory), path.stem)
        broken += _report(path.stem, "sort", empty, guests, _Sorted(empty).place, [], [])
        for name, multipliers in _SETTINGS.items():
            decided = _Decided(empty, multipliers)
            broken += _report(path.stem, name, empty, guests, decided.place, decided.with_rule_s, decided.without_s)
    if broken:
        sys.exit(1)


def read(path: pathlib.Path) -> list[Guest]:
    """Return the guests that a sequence asks for, in its order."""
    with path.open() as file:
        return [_guest(str(number), row) for number, row in enumerate(csv.DictReader(file))]


def _guest(name: str, row: Mapping[str, str]) -> Guest:
    count, policy = int(row["numa"]), _STRATEGIES.get(row["strategy"])
    group = f"{policy}-{row['group']}" if policy else None
    return Guest(name, count, int(row["flavor_vcpus"]) // count, int(row["flavor_ram"]) // count, group, policy)


#: Returns the host of a guest, or None.
Place = Callable[[Guest], str | None]


def _report(
    sequence: str,
    setting: str,
    empty: Snapshot,
    guests: Sequence[Guest],
    place: Place,
    with_rule_s: list[float],
    without_s: list[float],
) -> int:
    """Place all guests, report, and return how many rules were broken."""
    checker = _Checker(empty)
    for guest in guests:
        host = place(guest)
        if host is not None:
            checker.add(guest, host)
    cores = sum(guest.vcpus * guest.cells for guest in guests)
    figures.report(
        "domains",
        sequence=sequence,
        setting=setting,
        requests=len(guests),
        placed=checker.placed,
        placed_share=round(checker.placed / len(guests), 4),
        cores_share=round(checker.cores / cores, 4),
        broken=len(checker.broken),
        with_spread_ms=_median_ms(with_rule_s),
        without_ms=_median_ms(without_s),
    )
    for each in checker.broken[:3]:
        print(f"BROKEN: {sequence}, {setting}: {each}", file=sys.stderr)
    return len(checker.broken)


def _median_ms(seconds: Sequence[float]) -> float | None:
    return round(statistics.median(seconds) * 1000, 3) if seconds else None


class _Members:
    """Where the members of each group are."""

    def __init__(self, fleet: Snapshot) -> None:
        self._racks = fleet.racks
        self.hosts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self.racks: dict[str, collections.Counter[str]] = collections.defaultdict(
            lambda: collections.Counter(dict.fromkeys(fleet.racks.values(), 0))
        )

    def add(self, guest: Guest, host: str) -> None:
        if guest.group is not None:
            self.hosts[guest.group][host] += 1
            self.racks[guest.group][self._racks[host]] += 1

    def allows(self, guest: Guest, host: str) -> bool:
        if guest.group is None:
            return True
        hosts, racks = self.hosts[guest.group], self.racks[guest.group]
        if guest.policy == TOGETHER:
            return not hosts or host in hosts
        if guest.policy == APART:
            return host not in hosts
        return racks[self._racks[host]] <= min(racks.values())


class _Checker:
    """Counts what is placed, and names what has no room or breaks its rule."""

    def __init__(self, empty: Snapshot) -> None:
        self._members = _Members(empty)
        self._here: dict[str, list[Guest]] = collections.defaultdict(list)
        self._cells = empty.cells
        self.placed = self.cores = 0
        self.broken: list[str] = []

    def add(self, guest: Guest, host: str) -> None:
        if not self._members.allows(guest, host):
            self.broken.append(f"guest {guest.name} of group {guest.group} on {host}")
        self._members.add(guest, host)
        self.placed += 1
        self.cores += guest.vcpus * guest.cells
        self._here[host].append(guest)
        for part, total in ((0, _vcpus), (1, _memory_gb)):
            if sum(total(each) for each in self._here[host]) > sum(cell[part] for cell in self._cells[host]):
                self.broken.append(f"guest {guest.name} has no room on {host}")


def _vcpus(guest: Guest) -> int:
    return guest.vcpus * guest.cells


def _memory_gb(guest: Guest) -> int:
    return guest.memory_gb * guest.cells


class _Sorted:
    """Filters like nova's, then the host with the fewest free vcpus."""

    def __init__(self, empty: Snapshot) -> None:
        self._free = empty.left()
        self._members = _Members(empty)

    def place(self, guest: Guest) -> str | None:
        hosts = [
            host
            for host, cells in self._free.items()
            if self._members.allows(guest, host) and snapshots.fits(cells, [guest])
        ]
        if not hosts:
            return None
        host = min(hosts, key=lambda each: (sum(cell[0] for cell in self._free[each]), each))
        snapshots.take(self._free[host], guest)
        self._members.add(guest, host)
        return host


class _Decided:
    """The scheduler's own decisions, on a copy of the fleet. Processor time of those with a spread is kept."""

    def __init__(self, empty: Snapshot, multipliers: Sequence[float]) -> None:
        ram, cpu, fragmentation = multipliers
        conf = of_scheduler(
            ram_weight_multiplier=ram,
            cpu_weight_multiplier=cpu,
            fragmentation_weight_multiplier=fragmentation,
            disk_weight_multiplier=0.0,
        )
        state = survival.state(empty)
        state = dataclasses.replace(
            state, nodes=[dataclasses.replace(node, labels={"rack": empty.racks[node.host]}) for node in state.nodes]
        )
        self._fleet = CopiedFleet(loading.load_pipeline(conf), state, conf.service_down_time, HostManager)
        self._two_cells = any(len(cells) > 1 for cells in empty.cells.values())
        self._members: dict[str, list[str]] = collections.defaultdict(list)
        self.with_rule_s: list[float] = []
        self.without_s: list[float] = []

    def place(self, guest: Guest) -> str | None:
        uuid = factories.uuid(int(guest.name))
        if guest.policy == SPREAD:
            without = factories.uuid(10**6 + int(guest.name))
            host, took_s = self._decide(guest, without, {})
            self._fleet.release(without)
            self.without_s.append(took_s)
        host, took_s = self._decide(guest, uuid, self._group(guest))
        if guest.policy == SPREAD:
            self.with_rule_s.append(took_s)
        if host is not None and guest.group is not None:
            self._members[guest.group].append(uuid)
        return host

    def _decide(self, guest: Guest, uuid: str, group: Mapping[str, Any]) -> tuple[str | None, float]:
        spec = survival.request_spec(guest, uuid, self._two_cells)
        request = RequestSpec.from_wire(spec, group)
        began = time.process_time()
        made = self._fleet.decide(request)
        took_s = time.process_time() - began
        return (made.picks[0].key[0] if made.complete else None), took_s

    def _group(self, guest: Guest) -> dict[str, Any]:
        if guest.group is None:
            return {}
        rule = {"policy": SPREAD, "label": "rack"}
        kind = {"group_rules": [rule]} if guest.policy == SPREAD else {"group_policies": [guest.policy]}
        return {**kind, "group_uuid": guest.group, "group_members": list(self._members[guest.group])}
