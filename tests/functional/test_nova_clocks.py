# SPDX-License-Identifier: Apache-2.0
"""The feed over nova's tables while clocks are wrong: the scheduler's, or that of a host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.clock import seconds
from scheduler.nova.cell_feed import RETRY_SOON_S
from tests.factories import uuid
from tests.functional import nova_schema
from tests.functional.nova_schema import Databases
from tests.functional.test_nova_feed import FeedOverNova


@pytest.fixture
def world(nova: Databases) -> Iterator[FeedOverNova]:
    made = FeedOverNova(nova)
    yield made
    made.close()


def test_a_host_whose_clock_was_ahead_once(world: FeedOverNova) -> None:
    """It is up again with its next heartbeat."""
    world.nova.update(nova_schema.SERVICES, 1, last_seen_up=world.clock.now + seconds(3600))
    world.later(6)
    assert ["cmp2"] == world.up()
    world.nova.update(nova_schema.SERVICES, 1, last_seen_up=world.clock.now)
    world.later(6)
    assert ["cmp1", "cmp2"] == world.up()


@pytest.mark.parametrize("ahead_s", [3600, -3600])
def test_the_schedulers_clock_is_wrong_for_a_minute(world: FeedOverNova, ahead_s: int) -> None:
    """What changed meanwhile and what changes later is read when the clock is right again, and so are heartbeats."""
    world.later(60)
    world.step_clock(ahead_s)
    for number in (1, 2):
        world.later()
        true_now = world.clock.now - seconds(ahead_s)
        world.nova.update(nova_schema.NODES, number, memory_mb_used=1024, updated_at=true_now)
        world.later(29)
    world.step_clock(-ahead_s)
    world.nova.add_instance(1, "cmp1", world.clock.now)
    for number in (1, 2):
        world.nova.update(nova_schema.SERVICES, number, last_seen_up=world.clock.now)
    world.later(6)
    assert {"cmp1": 7168, "cmp2": 7168} == world.free_ram()
    assert {uuid(1)} == world.instances("cmp1")
    assert ["cmp1", "cmp2"] == world.up()


def test_an_aggregate_is_made_after_the_schedulers_clock_was_ahead(world: FeedOverNova) -> None:
    """The layout is read every five seconds, whatever the clock shows."""
    world.step_clock(3600)
    world.later(6)
    world.step_clock(-3600)
    world.nova.delete(nova_schema.HOST_MAPPINGS, 2)
    world.later(6)
    assert {"cmp1"} == set(world.free_ram())


def test_a_cell_answers_again_after_the_schedulers_clock_was_ahead(world: FeedOverNova) -> None:
    """The next attempt is not put off until the wrong time is reached."""
    world.step_clock(3600)
    world.lose_the_cell()
    world.later()
    world.step_clock(-3600)
    world.nova.update(nova_schema.NODES, 1, memory_mb_used=1024, updated_at=world.clock.now)
    world.cell_is_down = False
    world.later(RETRY_SOON_S)
    assert 7168 == world.free_ram()["cmp1"]
