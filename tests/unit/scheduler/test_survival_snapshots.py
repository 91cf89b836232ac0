# SPDX-License-Identifier: Apache-2.0
"""Proofs about fleets with groups and cells, checked by numbers that no code of the scheduler has made."""

from __future__ import annotations

import pytest

from fleet.objects.survival import Loss
from scheduler.planning.survival import packing
from tests.bench import snapshots, survival
from tests.bench.snapshots import APART, TOGETHER, Guest, Snapshot


@pytest.mark.parametrize("share", [0.8, 0.93, 0.97])
@pytest.mark.parametrize("seed", [7, 8])
def test_no_safe_is_wrong(share: float, seed: int) -> None:
    """Each host, and each rack of twenty."""
    snapshot = snapshots.generated(seed, 60, share)
    losses = [Loss(host, [host]) for host in snapshot.cells]
    losses += [Loss(rack, [host for host, of in snapshot.racks.items() if of == rack]) for rack in ("r0", "r1", "r2")]
    assert 0 == survival.lose(snapshot, "hosts and racks", losses)


def of_cells() -> Snapshot:
    """Two cells a host; guests of one and of two cells, and a group of each kind."""
    hosts = {name: [[8, 8], [8, 8]] for name in ("h0", "h1", "h2", "h3")}
    made = Snapshot("cells", hosts, dict.fromkeys(hosts, "r0"))
    made.placed = [
        (Guest("1", 2, 3, 3), "h0", (0, 1)),
        (Guest("2", 1, 5, 5), "h0", (0,)),
        (Guest("3", 1, 4, 4, "apart", APART), "h0", (1,)),
        (Guest("4", 1, 4, 4, "apart", APART), "h1", (0,)),
        (Guest("5", 1, 2, 2, "together", TOGETHER), "h1", (0,)),
        (Guest("6", 1, 6, 6, "together", TOGETHER), "h1", (1,)),
        (Guest("7", 1, 8, 8), "h2", (0,)),
    ]
    return made


def test_cells_and_groups_count(capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = of_cells()
    assert 0 == survival.lose(snapshot, "hosts", [Loss(host, [host]) for host in snapshot.cells])
    assert '"safe": 4' in capsys.readouterr().out


def test_members_that_stay_together_find_the_hosts_with_cells_for_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hosts with more vcpus have enough memory in sum for two guests, and a cell for one; three hosts have cells for two.

    The programme over sums, which may find them by chance, is too large.
    """
    monkeypatch.setattr(packing, "MOST_VARIABLES", 0)
    uneven = {f"a{number}": [[9, 12], [9, 4]] for number in range(30)}
    even = {f"b{number}": [[5, 9], [4, 9]] for number in range(3)}
    hosts = {"lost": [[12, 24], [12, 24]], **uneven, **even}
    snapshot = Snapshot("together", hosts, dict.fromkeys(hosts, "r0"))
    for number in range(6):
        snapshot.placed.append((Guest(str(number + 1), 1, 4, 8, f"g{number // 2}", TOGETHER), "lost", (number % 2,)))
    assert 0 == survival.lose(snapshot, "a host", [Loss("lost", ["lost"])])
    assert '"safe": 1' in capsys.readouterr().out


def test_a_plan_that_is_wrong_is_seen() -> None:
    """The checks of this file would not let it pass."""
    snapshot, lost = of_cells(), frozenset({"h0"})
    right = {"1": "h3", "2": "h3", "3": "h2"}
    assert [] == snapshots.checked(snapshot, lost, right)
    assert ["h2 has not the room"] == snapshots.checked(snapshot, lost, {**right, "1": "h2"})
    assert ["group apart"] == snapshots.checked(
        Snapshot("", snapshot.cells, {}, [each for each in snapshot.placed if each[0].name in "234"]),
        *(lost, {"2": "h3", "3": "h1"}),
    )
    assert ["3 has no place"] == snapshots.checked(snapshot, lost, {"1": "h3", "2": "h3"})
    assert ["2 has no place"] == snapshots.checked(snapshot, lost, {**right, "2": "h0"})
