# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.admission [HOSTS | whole]``: fills fleets that promise to survive any host, and loses each host.

Builds go through the scheduler with the policy ``refuse`` until many in a row are refused; the prover follows by
differences. Then the guests of each host are placed anew by plain numbers: no code of the scheduler is asked. The sizes are
random, or those of a trace (as for ``packing``), or of published requests for hosts with two cells (as for ``survival``).
With ``whole`` it fills all published hosts, which promise to survive any host, then any rack, then nothing.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import logging
import os
import pathlib
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fleet import errors
from fleet.db.feed.feed import Changes
from fleet.objects import RequestSpec
from fleet.objects.tolerance import REFUSE, Tolerance
from fleet.objects.whatif import Demand
from scheduler.compute.drivers.filter_scheduler import FilterScheduler
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.planning.losses import promises
from tests import factories
from tests.bench import figures, packing, snapshots, survival, traces
from tests.bench.promises import HOST, SIZES
from tests.bench.snapshots import Cells, Guest
from tests.configuration import of_scheduler
from tests.unit.scheduler.test_tolerance import Notifications

#: Builds between two proofs, refusals in a row that end it, and orders of guests that are tried for each host.
_PROVED_EVERY, _REFUSED, _ORDERS = 25, 60, 200


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Hosts by name with their cells, and the guests that are asked for. :param racks: by host, its rack"""

    name: str
    cells: dict[str, Cells]
    guests: Iterable[Guest]
    racks: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def losses(self, promised: Sequence[Tolerance]) -> list[list[str]]:
        """Return the hosts that each loss takes: those of a rack, if it is promised, else one host."""
        if not any(each.label for each in promised):
            return [[host] for host in self.cells]
        inside: dict[str, list[str]] = {}
        for host in self.cells:
            inside.setdefault(self.racks[host], []).append(host)
        return list(inside.values())


class Filling:
    """A feed of hosts that shows each claim, and each end, to all its readers."""

    def __init__(self, cells: dict[str, Cells], racks: Mapping[str, str] | None = None) -> None:
        self.cells = cells
        self._racks = racks or {}
        self.free = {host: [list(cell) for cell in each] for host, each in cells.items()}
        self.on: dict[str, dict[str, tuple[Guest, tuple[int, ...]]]] = {host: {} for host in cells}
        self.known: dict[str, Guest] = {}
        self._in_cells = any(len(each) > 1 for each in cells.values())
        self._log: list[tuple[str, str, bool]] = []

    def claim(self, name: str, host: str) -> None:
        guest, free = self.known[name], self.free[host]
        # As the agent does: cells with the fewest busy vcpus first, then with the most memory.
        able = [
            number for number, cell in enumerate(free) if snapshots.fits([cell], [dataclasses.replace(guest, cells=1)])
        ]
        busy = [total[0] - left[0] for total, left in zip(self.cells[host], free, strict=True)]
        taken = tuple(sorted(able, key=lambda number: (busy[number], -free[number][1]))[: guest.cells])
        for cell in taken:
            free[cell][0] -= guest.vcpus
            free[cell][1] -= guest.memory_gb
        assert len(taken) == guest.cells, "the scheduler has chosen a host without room"
        self.on[host][name] = guest, taken
        self._log.append((host, name, True))

    def end(self, name: str, host: str) -> None:
        guest, taken = self.on[host].pop(name)
        for cell in taken:
            self.free[host][cell][0] += guest.vcpus
            self.free[host][cell][1] += guest.memory_gb
        self._log.append((host, name, False))

    def read(self, since: int) -> Changes:
        generation = len(self._log) + 1
        if not since:
            rows = [self._row(host) for host in self.cells]
            placed = [factories.PlacedInstance(name, host, host) for host, on in self.on.items() for name in on]
            return dataclasses.replace(factories.changes(rows, instances=placed), full=True, generation=generation)
        later = self._log[since - 1 :]
        last = {name: (host, is_there) for host, name, is_there in later}
        placed = [
            factories.PlacedInstance(name, host, host)
            if is_there
            else dataclasses.replace(factories.PlacedInstance(name, None, None), vm_state="deleted")
            for name, (host, is_there) in last.items()
        ]
        rows = [self._row(host) for host in sorted({host for host, _name, _is_there in later})]
        return Changes(generation, nodes=rows, instances=placed)

    def read_host(self, host: str) -> Changes:
        raise NotImplementedError

    def _row(self, host: str) -> factories.Node:
        row: factories.Node = survival.row_of(host, self.cells[host], self.free[host])
        return dataclasses.replace(row, labels={"rack": self._racks[host]}) if self._racks else row

    def demand(self, name: str) -> Demand:
        return Demand(survival.request_spec(self.known[name], name, self._in_cells), {}, [None], name=name)

    def asked(self, uuids: Sequence[str]) -> list[dict[str, object]]:
        """As a conductor answers."""
        found = map(self.demand, uuids)
        return [{"uuid": each.name, "request_spec": each.request_spec, "filter_properties": {}} for each in found]

    def survives(self, lost: Sequence[str], chance: random.Random) -> bool:
        """Whether the guests of lost hosts are placed elsewhere, in some order, on the host with the least room."""
        guests = [guest for host in lost for guest, _cells in self.on[host].values()]
        guests.sort(key=lambda each: (-each.memory_gb * each.cells, -each.vcpus * each.cells))
        return any(self._placed(guests, lost, chance) for _order in range(_ORDERS))

    def _placed(self, guests: list[Guest], lost: Sequence[str], chance: random.Random) -> bool:
        left = {host: [list(cell) for cell in each] for host, each in self.free.items() if host not in lost}
        for guest in guests:
            able = [host for host, each in left.items() if snapshots.fits(each, [guest])]
            if not able:
                chance.shuffle(guests)
                return False
            snapshots.take(left[min(able, key=lambda host: (sum(cell[1] for cell in left[host]), host))], guest)
        return True

    def free_share(self, part: int) -> float:
        total = sum(cell[part] for each in self.cells.values() for cell in each)
        return sum(cell[part] for each in self.free.values() for cell in each) / total


class Scheduling:
    """A scheduler over a filling fleet, and its prover."""

    def __init__(self, fleet: Filling, promised: Sequence[Tolerance]) -> None:
        conf = of_scheduler()
        self.fleet = fleet
        self.driver = FilterScheduler(conf, HostManager(fleet, fleet, lambda: factories.NOW), Notifications())
        self.prover = promises.Prover(
            *(conf, self.driver.admission, lambda: promised, lambda: fleet, lambda: factories.NOW),
            fleet.asked,
            booked=self.driver.host_manager.bookings,
        )

    def prove(self) -> None:
        self.prover._rests_until = 0.0
        self.prover.prove()

    def place(self, name: str, guest: Guest) -> str | None:
        """Return the host of the guest, which holds it now; None if it is refused."""
        self.fleet.known[name] = guest
        request = RequestSpec.from_wire(self.fleet.demand(name).request_spec, {})
        try:
            (selection,) = self.driver.select_destinations(None, request)  # type: ignore[arg-type]
        except errors.NoValidHost:
            return None
        self.fleet.claim(name, selection.host)
        return str(selection.host)


def fill(asked: Sizes, seed: int, promised: Sequence[Tolerance]) -> None:
    fleet = Filling(asked.cells, asked.racks)
    scheduling, refused, placed, asked_for = Scheduling(fleet, promised), 0, 0, 0
    began = time.perf_counter()
    for guest in asked.guests:
        if asked_for % _PROVED_EVERY == 0:
            scheduling.prove()
        asked_for += 1
        if scheduling.place(factories.uuid(asked_for), guest) is None:
            refused += 1
            if refused == _REFUSED:
                break
            continue
        refused = 0
        placed += 1
    took_s = time.perf_counter() - began
    chance = random.Random(seed)
    losses = asked.losses(promised)
    lost = [each for each in losses if not fleet.survives(each, chance)]
    figures.report(
        "admission",
        sizes=asked.name,
        hosts=len(fleet.cells),
        seed=seed,
        promised=" ".join(each.what for each in promised),
        asked=asked_for,
        guests=placed,
        free_vcpus=round(fleet.free_share(0), 4),
        free_memory=round(fleet.free_share(1), 4),
        losses=len(losses),
        losses_without_a_place=len(lost),
        seconds=round(took_s, 1),
    )


def _sequences(hosts: int, seed: int) -> Iterator[Sizes]:
    chance = random.Random(seed)
    sizes = (chance.choice(SIZES) for _request in itertools.count())
    guests = (Guest(str(number), 1, *size) for number, size in enumerate(sizes))
    yield Sizes("random", {f"h{number}": [list(HOST)] for number in range(hosts)}, guests)
    if os.environ.get(packing.TRACE):
        later = itertools.islice(traces.requests(), seed * 20_000, None)
        guests = (Guest(str(number), 1, each.vcpus, each.quarters) for number, each in enumerate(later))
        yield Sizes("trace", {f"h{number}": [list(traces.HOST)] for number in range(hosts)}, guests)
    if os.environ.get(survival.DIRECTORY):
        directory = pathlib.Path(os.environ[survival.DIRECTORY])
        published = snapshots.hosts_of(directory, "published").cells
        first = dict(itertools.islice(published.items(), seed * hosts, (seed + 1) * hosts))
        yield Sizes(f"published c{seed + 1}", first, _published(directory / f"requests-c{seed + 1}.csv"))


def _published(path: pathlib.Path) -> Iterator[Guest]:
    """The sizes of the requests; their groups are left out."""
    with path.open() as file:
        for number, row in enumerate(csv.DictReader(file)):
            cells = int(row["numa"])
            yield Guest(str(number), cells, int(row["flavor_vcpus"]) // cells, int(row["flavor_ram"]) // cells)


def _whole() -> None:
    """All published hosts, and their racks in the order of the files. The requests of the clusters come again and again."""
    directory = pathlib.Path(os.environ[survival.DIRECTORY])
    hosts = snapshots.hosts_of(directory, "published")
    for promised in ([Tolerance(policy=REFUSE)], [Tolerance(label="rack", policy=REFUSE)], []):
        files = itertools.cycle(directory / f"requests-c{number}.csv" for number in (1, 2, 3))
        guests = itertools.chain.from_iterable(map(_published, files))
        fill(Sizes("published, whole", hosts.cells, guests, hosts.racks), 0, promised)


def main(argv: Sequence[str]) -> int:
    logging.disable(logging.CRITICAL)
    if argv == ["whole"]:
        _whole()
        return 0
    for seed in range(3):
        for promised in ([Tolerance(policy=REFUSE)], []):
            for asked in _sequences(int(argv[0]) if argv else 200, seed):
                fill(asked, seed, promised)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
