# SPDX-License-Identifier: Apache-2.0
"""Fleets with guests, for proofs about lost hosts: plain numbers, made without any code of the scheduler.

A host has cells, each with free vcpus and GB; a guest takes equal parts of some cells of one host, and may be in a group.
``checked`` judges a plan by these numbers alone.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import itertools
import pathlib
import random
from collections.abc import Mapping, Sequence

APART, TOGETHER = "anti-affinity", "affinity"
Cells = list[list[int]]


@dataclasses.dataclass(frozen=True)
class Guest:
    """:param cells: how many cells it takes parts of; ``vcpus`` and ``memory_gb`` are of each of them"""

    name: str
    cells: int
    vcpus: int
    memory_gb: int
    group: str | None = None
    policy: str | None = None


@dataclasses.dataclass
class Snapshot:
    """:param cells: by host, total vcpus and GB of each cell
    :param racks: by host, its rack
    :param placed: guest, its host, and the cells that it takes
    """

    name: str
    cells: dict[str, Cells]
    racks: dict[str, str]
    placed: list[tuple[Guest, str, tuple[int, ...]]] = dataclasses.field(default_factory=list)
    refused: int = 0

    def left(self, without: frozenset[str] = frozenset()) -> dict[str, Cells]:
        """What is free by cell on the hosts that are not lost."""
        free = {host: [list(cell) for cell in cells] for host, cells in self.cells.items() if host not in without}
        for guest, host, cells in self.placed:
            for cell in cells if host in free else ():
                free[host][cell][0] -= guest.vcpus
                free[host][cell][1] -= guest.memory_gb
        return free

    @property
    def free_share(self) -> float:
        """Of all vcpus."""
        total = sum(cell[0] for cells in self.cells.values() for cell in cells)
        return sum(cell[0] for cells in self.left().values() for cell in cells) / total


def fits(free: Cells, guests: Sequence[Guest]) -> bool:
    """Whether these guests find cells on one host together: tries all of them."""
    if not guests:
        return True
    first = guests[0]
    for chosen in itertools.combinations(range(len(free)), first.cells):
        if all(free[cell][0] >= first.vcpus and free[cell][1] >= first.memory_gb for cell in chosen):
            less = [
                [cell[0] - first.vcpus, cell[1] - first.memory_gb] if number in chosen else cell
                for number, cell in enumerate(free)
            ]
            if fits(less, guests[1:]):
                return True
    return False


def checked(snapshot: Snapshot, lost: frozenset[str], plan: Mapping[str, str]) -> list[str]:
    """What is wrong with a plan: hosts that have not the room, groups whose rule is broken, guests without a place."""
    gone = [guest for guest, host, _cells in snapshot.placed if host in lost]
    free = snapshot.left(lost)
    wrong = [f"{guest.name} has no place" for guest in gone if plan.get(guest.name) not in free]
    arriving: dict[str, list[Guest]] = collections.defaultdict(list)
    for guest in gone:
        arriving[plan.get(guest.name, "")].append(guest)
    wrong += [
        f"{host} has not the room" for host, guests in arriving.items() if host in free and not fits(free[host], guests)
    ]
    members: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    policies = {}
    for guest, host, _cells in snapshot.placed:
        if guest.group is not None:
            members[guest.group][plan.get(guest.name, host)] += 1
            policies[guest.group] = guest.policy
    for group, hosts in members.items():
        broken = len(hosts) > 1 if policies[group] == TOGETHER else max(hosts.values()) > 1
        wrong += [f"group {group}"] * broken
    return wrong


def fits_in_sum(snapshot: Snapshot, lost: frozenset[str]) -> bool:
    """Whether what the guests of lost hosts have is free elsewhere in sum: what rules of percentages and slots look at."""
    gone = [guest for guest, host, _cells in snapshot.placed if host in lost]
    free = [cell for cells in snapshot.left(lost).values() for cell in cells]
    asked = sum(each.vcpus * each.cells for each in gone), sum(each.memory_gb * each.cells for each in gone)
    return all(sum(cell[part] for cell in free) >= asked[part] for part in (0, 1))


def alone_nowhere(snapshot: Snapshot, lost: frozenset[str]) -> list[str]:
    """The guests of lost hosts that fit on no other host, even alone and whatever their group says."""
    free = snapshot.left(lost)
    gone = [guest for guest, host, _cells in snapshot.placed if host in lost]
    return [guest.name for guest in gone if not any(fits(cells, [guest]) for cells in free.values())]


def generated(seed: int, hosts: int, share: float) -> Snapshot:
    """Hosts of two kinds, filled at random to this share of their vcpus with the sizes of common flavors."""
    chance = random.Random(seed)
    cells = {f"host-{number}": [[48, 192]] if number % 3 else [[64, 512]] for number in range(hosts)}
    racks = {host: f"r{number // 20}" for number, host in enumerate(cells)}
    found = Snapshot(f"generated {share:.0%} seed {seed}", cells, racks)
    sizes = [(1, 2), (2, 4), (2, 8), (4, 8), (4, 16), (8, 16), (8, 32), (8, 64), (16, 32), (16, 128), (32, 64)]
    free = found.left()
    total = used = sum(cell[0] for each in cells.values() for cell in each)
    used = 0
    names, misses = list(cells), 0
    while used < share * total and misses < 2000:
        vcpus, memory_gb = chance.choice(sizes)
        group = f"g{chance.randrange(hosts)}" if chance.random() < 0.2 else None
        host = chance.choice(names)
        there = {guest.group for guest, where, _cells in found.placed if where == host} if group else set()
        guest = Guest(f"{len(found.placed)}", 1, vcpus, memory_gb, group, APART if group else None)
        if not fits(free[host], [guest]) or (group and group in there):
            misses += 1
            continue
        misses = 0
        free[host][0][0] -= vcpus
        free[host][0][1] -= memory_gb
        found.placed.append((guest, host, (0,)))
        used += vcpus
    return found


def published(directory: pathlib.Path, sequence: str) -> Snapshot:
    """The hosts of the data set, and its requests in their order, each on the host that they leave the least of.

    Racks are those of the first hosts of its list. The strategy fault_domain is not a rule of servers' groups: it is left
    out. Affinity holds while the group's host has room.
    """
    found = hosts_of(directory, f"published {sequence}")
    free = found.left()
    homes: dict[str, set[str]] = collections.defaultdict(set)
    with (directory / f"requests-{sequence}.csv").open() as file:
        for number, row in enumerate(csv.DictReader(file)):
            _take(found, free, homes, number, row)
    return found


def hosts_of(directory: pathlib.Path, name: str) -> Snapshot:
    """Return the hosts of the data set, without guests."""
    with (directory / "hosts.csv").open() as file:
        rows = [[int(value) for value in row.values()] for row in csv.DictReader(file)]
    cells = {f"host-{number}": [row[:2], row[2:]] for number, row in enumerate(rows)}
    with (directory / "racks.csv").open() as file:
        racks = {row["host"]: row["rack"] for row in csv.DictReader(file)}
    return Snapshot(name, cells, {host: racks[host] for host in cells})


def take(free: Cells, guest: Guest) -> tuple[int, ...]:
    """Take the guest's room from the fullest cells that have it, and return their numbers."""
    able = [n for n, cell in enumerate(free) if cell[0] >= guest.vcpus and cell[1] >= guest.memory_gb]
    chosen = tuple(sorted(able, key=lambda cell: free[cell])[: guest.cells])
    for cell in chosen:
        free[cell][0] -= guest.vcpus
        free[cell][1] -= guest.memory_gb
    return chosen


def _take(
    found: Snapshot, free: dict[str, Cells], homes: dict[str, set[str]], number: int, row: Mapping[str, str]
) -> None:
    count = int(row["numa"])
    policy = row["strategy"] if row["strategy"] in (APART, TOGETHER) else None
    group = f"{policy}-{row['group']}" if policy else None
    guest = Guest(str(number), count, int(row["flavor_vcpus"]) // count, int(row["flavor_ram"]) // count, group, policy)
    hosts = [host for host, cells in free.items() if fits(cells, [guest])]
    if group is not None and homes[group]:
        hosts = [host for host in hosts if (host in homes[group]) == (policy == TOGETHER)]
    if not hosts:
        found.refused += 1
        return
    host = min(hosts, key=lambda each: (sum(cell[0] for cell in free[each]), each))
    found.placed.append((guest, host, take(free[host], guest)))
    if group is not None:
        homes[group].add(host)
