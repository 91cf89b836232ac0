# SPDX-License-Identifier: Apache-2.0
"""Placements in fleets with several promises, of different policies."""

from __future__ import annotations

import pytest

from fleet.objects.tolerance import LAST, REFUSE, WARN, Tolerance
from tests.factories import aggregate
from tests.unit.scheduler.test_tolerance import Stage, refused, survives

RACK = "rack"


@pytest.mark.parametrize("others", [[], [WARN], [LAST]])
def test_a_weaker_promise_that_is_broken_weakens_no_stricter_one(others: list[str]) -> None:
    """All hosts are in one rack, so no plan survives its loss: each build breaks that promise. Of the six halves of the
    hosts two must stay free for the guests of any one host.
    """
    hosts = ["a", "b", "c"]
    promises = [Tolerance(policy=REFUSE), *(Tolerance(label=RACK, policy=each) for each in others)]
    stage = Stage({host: [] for host in hosts}, *promises, aggregates=[aggregate(hosts, 1, rack="r1")])
    for _build in range(4):
        stage.build(4)
    refused(stage, 4)
    assert all(survives(stage.guests, [host]) for host in hosts)


def test_a_build_that_is_placed_with_a_warning_is_in_the_plans_of_all_other_losses() -> None:
    """The rack of a and b has no plan. c has one for the new guest on a if a alone is lost."""
    racks = [aggregate(["a", "b"], 1, rack="r1"), aggregate(["c"], 2, rack="r2")]
    stage = Stage({"a": [4], "b": [6], "c": []}, Tolerance(), Tolerance(label=RACK), aggregates=racks)
    guard = stage.driver.admission._guard
    assert guard is not None
    assert "a" == stage.build(2, requested_destination={"host": "a"})
    assert {"a": 6, "b": 6, "c": 0, "rack=r1": 0} == {
        loss.name: sum(amount[0] for amount in loss.reserved.values())
        for loss in guard.losses
        if loss.name != "rack=r2"
    }
