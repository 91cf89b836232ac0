# SPDX-License-Identifier: Apache-2.0
"""Placements of guests with cells that keep a promise: sums of vcpus and memory do not tell whether they fit."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from fleet.objects.tolerance import REFUSE, Tolerance
from scheduler.compute.tolerance import admission, hardware
from tests import factories
from tests.bench.admission import Filling, Scheduling
from tests.bench.snapshots import Guest

#: Builds, and how many of them come between two proofs.
_BUILDS, _PROVED_EVERY = 40, 8


def broken(seed: int) -> Iterator[str]:
    """Yield the hosts whose loss is not survived, after each build, by numbers of the test's own."""
    chance = random.Random(seed)
    fleet = Filling({f"h{number}": [[8, 16], [8, 16]] for number in range(5)})
    scheduling = Scheduling(fleet, [Tolerance(policy=REFUSE)])
    for number in range(_BUILDS):
        if number % _PROVED_EVERY == 0:
            scheduling.prove()
        cells = chance.choice([1, 1, 2])
        guest = Guest(str(number), cells, chance.choice([2, 3, 5]), chance.choice([2, 4, 6]))
        if scheduling.place(factories.uuid(number + 1), guest) is not None:
            yield from (host for host in fleet.cells if not fleet.survives([host], chance))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_admitted_is_survived(seed: int) -> None:
    assert [] == list(broken(seed))


def test_by_sums_alone_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail."""
    for module in (admission, hardware):
        monkeypatch.setattr(module, "has_hardware", lambda _request: False)
    assert any(host for seed in range(8) for host in broken(seed))


def test_hosts_without_kept_cells_take_what_others_may_not() -> None:
    """The plans of all racks lead to the hosts with most room, which take no further guest with cells, and are more than
    the choices that admission tries. The other hosts have room.
    """
    chance = random.Random(3)
    hosts = [f"h{number:03}" for number in range(150)]
    racks = {host: f"r{number // 15}" for number, host in enumerate(hosts)}
    cells = {host: [[vcpus, 2 * vcpus] for vcpus in chance.choices([4, 8, 16, 32], k=2)] for host in hosts}
    fleet = Filling(cells, racks)
    scheduling = Scheduling(fleet, [Tolerance(label="rack", policy=REFUSE)])
    refused = []
    for number in range(230):
        if number % 25 == 0:
            scheduling.prove()
        guest = Guest(str(number), 1, *chance.choice([(2, 4), (4, 8), (8, 16), (8, 32)]))
        if scheduling.place(factories.uuid(number + 1), guest) is None:
            refused.append(guest)
    assert [] == refused
    assert all(fleet.survives([host for host in hosts if racks[host] == rack], chance) for rack in set(racks.values()))
