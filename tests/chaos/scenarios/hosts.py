# SPDX-License-Identifier: Apache-2.0
"""Hosts that are slow, hang, fail, or swallow builds."""

from __future__ import annotations

import random

from tests.chaos.run import Scenario
from tests.chaos.world import HOSTS, ChaosWorld


def slow(world: ChaosWorld, chance: random.Random) -> None:
    """Every spawn takes two seconds; builds wait their turn and end ACTIVE."""
    world.unruly({"host": "*", "do": "hang", "seconds": 2})
    world.boot(30)
    world.settle()
    assert world.count("active") == 30


def hung(world: ChaosWorld, chance: random.Random) -> None:
    """On one host a spawn takes longer than the conductor waits: the attempt is given up, another host takes the build."""
    world.unruly({"host": "a1", "do": "hang", "seconds": 22})
    world.boot(6)
    world.settle()


def hung_destroy(world: ChaosWorld, chance: random.Random) -> None:
    """On one host nothing can be destroyed for ten seconds, and everything is deleted twice."""
    world.boot(12)
    world.settle()
    world.unruly({"host": "a1", "do": "hang-destroy", "seconds": 10})
    for _time in range(2):
        world.terminate([row["uuid"] for row in world.builds()])
    world.until(lambda: not world.builds(), timeout_s=45)


def all_fail(world: ChaosWorld, chance: random.Random) -> None:
    """No host can spawn: every build ends in ERROR and its fault lists the hosts that were tried."""
    world.unruly({"host": "*", "do": "fail"})
    world.boot(6)
    world.settle()
    ledger = world.ledger()
    for row in world.builds():
        (fault,) = ledger.faults[row["uuid"]]
        assert row["vm_state"] == "error"
        assert fault["error"] == "MaxRetriesExceeded"
        assert len({each["host"] for each in fault["details"]["attempts"]}) == 3


def black_hole(world: ChaosWorld, chance: random.Random) -> None:
    """One empty host fails every spawn at once, and so looks the emptiest: all builds end ACTIVE elsewhere."""
    victim = chance.choice(HOSTS)
    world.unruly({"host": victim, "do": "fail"})
    for _request in range(8):
        world.boot(5)
    world.settle()
    assert world.count("active") == 40
    assert not [row for row in world.builds() if row["host"] == victim]


SCENARIOS = [
    Scenario("hosts:slow-spawn", slow),
    Scenario("hosts:hung-spawn", hung),
    Scenario("hosts:hung-destroy", hung_destroy),
    Scenario("hosts:all-fail", all_fail),
    Scenario("hosts:black-hole", black_hole),
]
