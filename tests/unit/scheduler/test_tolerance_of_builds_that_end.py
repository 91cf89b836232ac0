# SPDX-License-Identifier: Apache-2.0
"""Promises, and builds that leave their hosts before a proof has seen them."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors, states
from fleet.objects import RequestSpec
from fleet.objects.tolerance import REFUSE, Tolerance
from scheduler.compute.drivers.filter_scheduler import FilterScheduler
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.planning.hypothetical import FixedFeed
from tests.factories import NOW, uuid
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_rebalance import FilledHosts, spec
from tests.unit.scheduler.test_tolerance import Notifications, Stage
from tests.unit.scheduler.test_tolerance_in_flight import Placing


def test_builds_that_are_deleted_between_two_proofs_take_no_room() -> None:
    """All hosts are empty each time. Of 9 such guests at once b and c would take 6 if a was lost."""
    placing = Placing(a=16, b=16, c=16)
    placing.prove()
    for _build in range(8):
        placing.fleet.end(placing.claimed(5, "a"), "a")
    placing.claimed(5, "a")


def test_a_proof_drops_builds_that_have_gone() -> None:
    """No other build is asked for: its place goes with the next proof."""
    placing = Placing(a=16, b=16, c=16)
    placing.prove()
    placing.fleet.end(placing.claimed(5, "a"), "a")
    placing.prove()
    assert {"a": {}, "b": {}, "c": {}} == placing.plans()
    assert [] == list(placing.driver.admission._admitted)


def test_a_build_that_is_placed_again_gives_its_former_places_back() -> None:
    """Two hosts have refused it. Three guests of 8 at once would find no place on three hosts of 8."""
    stage = Stage({"a": [], "b": [], "c": []}, Tolerance(policy=REFUSE))
    tried: list[list[str]] = []
    for attempt in (1, 2, 3):
        properties: dict[str, Any] = {"retry": {"num_attempts": attempt, "hosts": tried}}
        asked = RequestSpec.from_wire(spec(uuid(900), 8), properties)
        (selection,) = stage.driver.select_destinations(None, asked)
        tried.append([selection.host, selection.host])
    assert ["a", "b", "c"] == sorted(host for host, _node in tried)
    assert 1 == len(list(stage.driver.admission._admitted))


def test_room_that_was_taken_all_the_same_is_not_shared() -> None:
    """6 of 8 are kept on one host for the guest of a. An administrator puts 4 there: it takes one guest of 3, not two."""
    stage = Stage({"a": [6], "b": [], "c": []}, Tolerance(policy=REFUSE))
    guard = stage.driver.admission._guard
    assert guard is not None
    (kept,) = (host for host, _node in guard.keeping)
    (other,) = {"b", "c"} - {kept}
    stage.build(4, force_hosts=[kept])
    there = {"requested_destination": {"host": other}}
    assert other == stage.build(3, **there)
    with pytest.raises(errors.NoValidHost, match=f"an instance on {other} would find no other host"):
        stage.build(3, **there)


@pytest.mark.parametrize(
    ("task_state", "is_there"),
    [(None, False), (states.RESIZE_PREP, False), (states.RESIZE_MIGRATING, True)],
)
def test_a_claimed_move_is_on_its_destination(task_state: str | None, is_there: bool) -> None:
    """The database shows it on the host that it leaves, until the move ends."""
    fleet = FilledHosts({"a": [2], "b": []}, a={"task_state": task_state})
    feed = FixedFeed(fleet.state)
    driver = FilterScheduler(configuration(), HostManager(feed, feed, lambda: NOW), Notifications())
    driver.host_manager.refresh()
    placed = [(uuid(1), ("b", "b"))]
    assert set(placed if is_there else []) == driver.admission._fleet.there(placed)
