# SPDX-License-Identifier: Apache-2.0
"""Builds that wait for room: a process dies at each of their steps, or all daemons die while they wait."""

from __future__ import annotations

import functools
import random

from fleet.failpoints.names import AFTER_COMMIT, BEFORE_COMMIT
from tests.chaos.run import Scenario
from tests.chaos.world import HOSTS, ChaosWorld

#: One of these fills a host.
LARGE = {"vcpus": 1, "memory_mb": 30_000, "root_gb": 1}
WAITERS = 4
_POINTS = [f"{step}.{when}" for step in ("conductor.queue", "conductor.wake") for when in (BEFORE_COMMIT, AFTER_COMMIT)]


def _fill(world: ChaosWorld) -> list[str]:
    uuids = world.boot_until_told(len(HOSTS), flavor=LARGE)
    world.settle()
    return uuids


def _queued(world: ChaosWorld) -> list[str]:
    return [row["uuid"] for row in world.builds() if row["task_state"] == "queued"]


def _wait(world: ChaosWorld) -> None:
    for _each in range(WAITERS):
        world.boot_until_told(flavor=LARGE, wait_for_capacity_s=300)
    world.until(lambda: len(_queued(world)) == WAITERS, timeout_s=60)


def _free(world: ChaosWorld, uuids: list[str]) -> None:
    """Make room for all that wait. None may be left behind."""

    def gone() -> bool:
        left = [row["uuid"] for row in world.builds() if row["uuid"] in uuids]
        for uuid in left:
            # Repeated: the conductor may die before it answers.
            world.terminate([uuid])
        return not left

    world.until(gone, timeout_s=60)
    world.until(lambda: not _queued(world) and world.count("active") == WAITERS, timeout_s=90)
    world.settle()


def kill_at(world: ChaosWorld, chance: random.Random, point: str) -> None:
    """A conductor dies at this point, and is started again by its parent."""
    there = _fill(world)
    world.arm({point: {"action": "exit", "times": 1, "skip": chance.randrange(2)}})
    _wait(world)
    _free(world, there)


def kill_all(world: ChaosWorld, chance: random.Random) -> None:
    """All daemons die while builds wait, and room is freed before the conductor is back."""
    there = _fill(world)
    _wait(world)
    for name in ("conductor", "scheduler", "agent-a", "agent-b"):
        world.trio.kill(name)
    for name in ("agent-a", "agent-b", "scheduler", "conductor"):
        world.trio.restart(name)
    world.wait_until_up()
    _free(world, there)


SCENARIOS = [
    *(
        Scenario(
            f"kill-in-wait:{point}",
            functools.wraps(kill_at)(functools.partial(kill_at, point=point)),
            point == f"conductor.wake.{AFTER_COMMIT}",
        )
        for point in _POINTS
    ),
    Scenario("kill-in-wait:all", kill_all),
]
