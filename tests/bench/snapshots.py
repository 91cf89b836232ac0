# SPDX-License-Identifier: Apache-2.0
"""Fleets with guests, for proofs about lost hosts: plain numbers, made without any code of the scheduler.

A host has cells, each with free vcpus and GB; a guest takes equal parts of some cells of one host, and may be in a group.
``checked`` judges a plan by these numbers alone.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import functools
import itertools
import pathlib
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy

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


@dataclasses.dataclass(eq=False)
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


class _Index:
    """What is free, and who is where, of a snapshot that is complete."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.free = snapshot.left()
        self.on: dict[str, list[Guest]] = collections.defaultdict(list)
        self.members: dict[str, dict[str, str]] = collections.defaultdict(dict)
        for guest, host, _cells in snapshot.placed:
            self.on[host].append(guest)
            if guest.group is not None:
                self.members[guest.group][guest.name] = host
        self.free_in_sum = self.sum_of(self.free)

    def gone(self, lost: Collection[str]) -> list[Guest]:
        return [guest for host in lost for guest in self.on.get(host, ())]

    def sum_of(self, hosts: Iterable[str]) -> tuple[int, int]:
        cells = [cell for host in hosts for cell in self.free[host]]
        return sum(cell[0] for cell in cells), sum(cell[1] for cell in cells)


@functools.lru_cache(1)
def _index(snapshot: Snapshot, _guests: int) -> _Index:
    return _Index(snapshot)


def _of(snapshot: Snapshot) -> _Index:
    return _index(snapshot, len(snapshot.placed))


def checked(snapshot: Snapshot, lost: frozenset[str], plan: Mapping[str, str]) -> list[str]:
    """What is wrong with a plan: hosts that have not the room, groups whose rule is broken, guests without a place."""
    known = _of(snapshot)
    gone = known.gone(lost)
    arriving: dict[str, list[Guest]] = collections.defaultdict(list)
    for guest in gone:
        arriving[plan.get(guest.name, "")].append(guest)
    there = {host for host in arriving if host in known.free and host not in lost}
    wrong = [f"{guest.name} has no place" for guest in gone if plan.get(guest.name) not in there]
    wrong += [f"{host} has not the room" for host, guests in arriving.items()
              if host in there and not fits(known.free[host], guests)]  # fmt: skip
    for group, policy in {guest.group: guest.policy for guest in gone if guest.group is not None}.items():
        hosts = collections.Counter(plan.get(name, host) for name, host in known.members[group].items())
        broken = len(hosts) > 1 if policy == TOGETHER else max(hosts.values()) > 1
        wrong += [f"group {group}"] * broken
    return wrong


def fits_in_sum(snapshot: Snapshot, lost: frozenset[str]) -> bool:
    """Whether what the guests of lost hosts have is free elsewhere in sum: what rules of percentages and slots look at."""
    known = _of(snapshot)
    gone = known.gone(lost)
    asked = sum(each.vcpus * each.cells for each in gone), sum(each.memory_gb * each.cells for each in gone)
    left = [every - there for every, there in zip(known.free_in_sum, known.sum_of(lost), strict=True)]
    return all(each >= need for each, need in zip(left, asked, strict=True))


def alone_nowhere(snapshot: Snapshot, lost: frozenset[str]) -> list[str]:
    """The guests of lost hosts that fit on no other host, even alone and whatever their group says."""
    known = _of(snapshot)
    return [
        guest.name
        for guest in known.gone(lost)
        if not any(fits(cells, [guest]) for host, cells in known.free.items() if host not in lost)
    ]


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
    filling = _Filling(found)
    for row in _requests(directory, sequence):
        filling.take(row, "")
    return found


def all_racks(directory: pathlib.Path, sequences: Sequence[str], times: int) -> Snapshot:
    """All hosts of the list of racks, which have the sizes of the other list in turn; its requests come so many times."""
    sizes = list(hosts_of(directory, "").cells.values())
    with (directory / "racks.csv").open() as file:
        racks = {row["host"]: row["rack"] for row in csv.DictReader(file)}
    cells = {host: sizes[number % len(sizes)] for number, host in enumerate(racks)}
    found = Snapshot("published, all racks", cells, racks)
    filling = _Filling(found)
    for turn in range(times):
        for sequence in sequences:
            for row in _requests(directory, sequence):
                filling.take(row, f"-{sequence}-{turn}")
    return found


def _requests(directory: pathlib.Path, sequence: str) -> Iterator[Mapping[str, str]]:
    with (directory / f"requests-{sequence}.csv").open() as file:
        yield from csv.DictReader(file)


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


class _Filling:
    """Puts guests on the hosts of a snapshot."""

    def __init__(self, found: Snapshot) -> None:
        self._found = found
        self._names = list(found.cells)
        #: Hosts × cells × (vcpus, GB).
        self._free = numpy.array(list(found.cells.values()))
        #: The order of the names, which decides between equal hosts.
        self._order = numpy.argsort(numpy.argsort(numpy.array(self._names)))
        self._homes: dict[str, set[int]] = collections.defaultdict(set)
        self._number = 0

    def take(self, row: Mapping[str, str], turn: str) -> None:
        count, number = int(row["numa"]), self._number
        self._number += 1
        policy = row["strategy"] if row["strategy"] in (APART, TOGETHER) else None
        group = f"{policy}-{row['group']}{turn}" if policy else None
        vcpus, memory_gb = int(row["flavor_vcpus"]) // count, int(row["flavor_ram"]) // count
        able = ((self._free >= (vcpus, memory_gb)).all(axis=2).sum(axis=1)) >= count
        if group is not None and (homes := self._homes[group]):
            at_home = numpy.isin(numpy.arange(len(able)), list(homes))
            able &= at_home if policy == TOGETHER else ~at_home
        rows = numpy.flatnonzero(able)
        if not len(rows):
            self._found.refused += 1
            return
        host = int(rows[numpy.lexsort((self._order[rows], self._free[rows, :, 0].sum(axis=1)))[0]])
        guest = Guest(str(number), count, vcpus, memory_gb, group, policy)
        free = self._free[host].tolist()
        self._found.placed.append((guest, self._names[host], take(free, guest)))
        self._free[host] = free
        if group is not None:
            self._homes[group].add(host)
