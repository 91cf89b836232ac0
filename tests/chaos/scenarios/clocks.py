# SPDX-License-Identifier: Apache-2.0
"""Each daemon in turn runs with a clock that is one hour off. Deadlines, leases and liveness follow the database's clock."""

from __future__ import annotations

import functools
import random

from tests.chaos.run import Scenario
from tests.chaos.world import ChaosWorld

HOUR_S = 3600
BUILDS = 24


def off(world: ChaosWorld, chance: random.Random, name: str, offset_s: int) -> None:
    """All builds end ACTIVE on all hosts, no host counts as down, and the log names the clock that is off."""
    said = len(world.trio.log(name))
    world.skewed(name, offset_s)
    try:
        world.wait_until_up()
        for _request in range(4):
            world.boot_until_told(BUILDS // 4)
        world.settle()
        assert world.count("active") == BUILDS
        assert {row["host"][0] for row in world.builds()} == {"a", "b"}, "hosts were taken for dead"
        world.until(lambda: "max_clock_skew is" in world.trio.log(name)[said:])
        direction = "ahead of" if offset_s > 0 else "behind"
        assert f"3600.0 s {direction} the database's" in world.trio.log(name)[said:]
        services = world.trio.operator("list_services")
        assert all(each["state"] == "up" for each in services)
        world.until(lambda: any(each["clock_skew_s"] == offset_s for each in world.trio.operator("list_services")))
    finally:
        world.straight(name)
        world.wait_until_up()


SCENARIOS = [
    Scenario(
        f"clocks:{name}-{'ahead' if offset_s > 0 else 'behind'}",
        functools.wraps(off)(functools.partial(off, name=name, offset_s=offset_s)),
    )
    for name in ("conductor", "scheduler", "agent-a")
    for offset_s in (HOUR_S, -HOUR_S)
]
