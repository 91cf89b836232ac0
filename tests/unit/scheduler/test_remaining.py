# SPDX-License-Identifier: Apache-2.0
"""How many instances fit after a loss, when the guests of the lost hosts are elsewhere."""

from __future__ import annotations

from fleet.objects.survival import Loss, Remaining
from scheduler.compute.planning import remaining
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_rebalance import demand
from tests.unit.scheduler.test_survival import Drill


def after(drill: Drill, size: int, *losses: list[str]) -> list[Remaining]:
    asked = demand(1, size)
    wanted = [Loss("+".join(hosts), hosts) for hosts in losses]
    return remaining.run(configuration(), drill.fleet.state, wanted, drill.requests_of, asked, lambda _name: None, 10.0)


def test_guests_take_room_elsewhere() -> None:
    """a's 4 of 8 are on b then: 4 are left there, and 6 on c. Losing c leaves 4 on a and 6 on b; d is empty, and stays."""
    found = after(Drill({"a": [4], "b": [], "c": [2], "d": []}), 2, ["a"], ["c"], ["d"])
    assert [(2 + 4 + 3, "safe"), (2 + 4 + 3, "safe"), (2 + 4 + 3, "safe")] == [
        (each.fits, each.verdict) for each in found
    ]


def test_losses_are_counted_one_by_one() -> None:
    """What is planned for one loss is no guest in the next."""
    first, second = after(Drill({"a": [6], "b": [6], "c": []}), 1, ["a"], ["b"])
    assert (4, 4) == (first.fits, second.fits)
    (alone,) = after(Drill({"a": [6], "b": [6], "c": []}), 1, ["b"])
    assert second == alone


def test_nothing_fits_after_a_loss_that_is_not_survived() -> None:
    (found,) = after(Drill({"a": [6], "b": [4], "c": [4]}), 1, ["a"])
    assert (0, "unsafe") == (found.fits, found.verdict)


def test_a_rack() -> None:
    (found,) = after(Drill({"a": [2], "b": [2], "c": []}), 4, ["a", "b"])
    assert (1, "a+b") == (found.fits, found.lost)
