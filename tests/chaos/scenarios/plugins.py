# SPDX-License-Identifier: Apache-2.0
"""A user's filter that raises, hangs, or takes the scheduler with it."""

from __future__ import annotations

import random
import time

from tests.chaos.run import Scenario
from tests.chaos.world import ChaosWorld

HANG_S = 15


def raises(world: ChaosWorld, chance: random.Random) -> None:
    """The request ends in ERROR with the filter's name; others are built meanwhile."""
    _beside(world, "raise")
    ledger = world.ledger()
    for row in _unruly(world):
        assert "UnrulyFilter" in ledger.faults[row["uuid"]][-1]["message"]


def hangs(world: ChaosWorld, chance: random.Random) -> None:
    """A filter hangs. Until it returns, requests are refused at once with its name: the policy is ``fail``."""
    began = time.monotonic()
    world.boot(2, scheduler_hints={"unruly": f"hang {HANG_S}"})
    world.boot_until_told(4)
    world.settle()
    took = time.monotonic() - began
    ledger = world.ledger()
    for row in world.builds():
        assert row["vm_state"] == "error"
        assert "UnrulyFilter" in ledger.faults[row["uuid"]][-1]["message"]
    assert took < HANG_S, f"the builds waited {took:.0f} s for a filter that hung"
    time.sleep(max(0.0, HANG_S + 2 - took))


def poison(world: ChaosWorld, chance: random.Random) -> None:
    """A request crashes every scheduler that decides it. It ends in ERROR by its deadline; the other requests are built."""
    _beside(world, "crash")


def _beside(world: ChaosWorld, order: str) -> None:
    world.boot(2, scheduler_hints={"unruly": order})
    uuids = [uuid for _request in range(4) for uuid in world.boot_until_told(2)]
    world.settle()
    by_uuid = {row["uuid"]: row for row in world.builds()}
    built = [uuid for uuid in uuids if by_uuid[uuid]["vm_state"] == "active"]
    assert len(built) == len(uuids), f"only {len(built)} of {len(uuids)} builds beside the bad one ended ACTIVE"


def _unruly(world: ChaosWorld) -> list:
    ledger = world.ledger()
    return [row for row in world.builds() if "unruly" in ledger.spec(row).get("scheduler_hints", {})]


SCENARIOS = [
    Scenario("plugins:filter-raises", raises),
    Scenario("plugins:filter-hangs", hangs),
    Scenario("plugins:poison-message", poison),
]
