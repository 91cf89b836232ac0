# SPDX-License-Identifier: Apache-2.0
"""Proofs about fleets with groups and cells, checked by numbers that no code of the scheduler has made."""

from __future__ import annotations

import pytest

from fleet.objects.survival import Loss
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
