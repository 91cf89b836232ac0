# SPDX-License-Identifier: Apache-2.0
"""kill -9: of a whole daemon in the middle of many builds, and of one process at each failpoint; deletion there, too."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable

from fleet.failpoints import names
from tests.chaos.run import Scenario
from tests.chaos.world import HOSTS, ChaosWorld

BUILDS = 6
TOO_LARGE = {"vcpus": 1, "memory_mb": 10**6, "root_gb": 1}


def kill_daemon(world: ChaosWorld, chance: random.Random, victim: str) -> None:
    """A daemon dies with all its workers while builds are at every step, and comes back."""
    world.unruly({"host": "*", "do": "hang", "seconds": 0.3})
    for _request in range(6):
        world.boot(5)
        if _request == 2:
            time.sleep(chance.uniform(0, 1.5))
            world.trio.kill(victim)
    time.sleep(chance.uniform(0, 2))
    world.trio.restart(victim)
    world.settle()


def kill_at(world: ChaosWorld, chance: random.Random, point: str) -> None:
    """A process dies at this point of a build, and is started again by its parent."""
    prepare = _ROADS.get(_step(point), boots)
    prepare(world, {point: {"action": "exit", "times": 1, "skip": chance.randrange(2)}})
    world.until(lambda: world.fired(point), timeout_s=25)
    world.settle()


def delete_at(world: ChaosWorld, chance: random.Random, point: str) -> None:
    """Everything is deleted, twice, while builds stand still at this point."""
    world.arm({point: {"action": "delay", "seconds": chance.uniform(0.5, 2)}})
    world.boot(BUILDS)
    world.until(lambda: world.fired(point), timeout_s=15)
    for _time in range(2):
        world.terminate([row["uuid"] for row in world.builds()])
    world.until(lambda: not world.builds(), timeout_s=40)


# How a build is led to a step


def boots(world: ChaosWorld, points: dict) -> None:
    """So often that a worker comes to the point twice, however requests fall to the workers."""
    world.arm(points)
    for _request in range(BUILDS):
        world.boot(2)


def boots_too_large(world: ChaosWorld, points: dict) -> None:
    world.arm(points)
    for _request in range(3):
        world.boot(2, flavor=TOO_LARGE)


def loses_the_scheduler(world: ChaosWorld, points: dict) -> None:
    world.arm({**points, "scheduler.decide.before": {"action": "raise", "times": 4}})
    for _request in range(3):
        world.boot(2)


def fails_on_some_hosts(world: ChaosWorld, points: dict) -> None:
    """Some builds have no others: hosts that have failed, in a scenario before, are avoided where there is a choice."""
    world.unruly({"host": "a*", "do": "fail"})
    boots(world, points)
    world.boot(2, ignore_hosts=[host for host in HOSTS if not host.startswith("a")])


def aborts(world: ChaosWorld, points: dict) -> None:
    world.unruly({"host": "*", "do": "abort"})
    boots(world, points)


def terminates(world: ChaosWorld, points: dict) -> None:
    world.boot(BUILDS)
    world.settle()
    world.arm(points)
    world.terminate([row["uuid"] for row in world.builds()])


def loses_the_hand_out(world: ChaosWorld, points: dict) -> None:
    world.arm({**points, "conductor.hand_out.before": {"action": "raise", "times": 3}})
    for _request in range(3):
        world.boot(2)


def comes_to_its_deadline(world: ChaosWorld, points: dict) -> None:
    """The deadline is brought forward, rather than waited for."""
    world.arm({**points, "scheduler.decide.before": {"action": "raise"}})
    for _request in range(3):
        world.boot(2)
    world.sql(
        "UPDATE instances SET deadline = created_at, step_deadline = created_at"
        " WHERE vm_state = 'building' AND name LIKE :name",
        name=f"{world.name}%",
    )


_ROADS: dict[str, Callable[[ChaosWorld, dict], None]] = {
    "conductor.take": loses_the_hand_out,
    "conductor.fail": boots_too_large,
    "conductor.put_back": loses_the_scheduler,
    "conductor.reschedule": fails_on_some_hosts,
    "conductor.abort": aborts,
    "conductor.terminate": terminates,
    "conductor.destroyed": terminates,
    "conductor.postpone": loses_the_hand_out,
    "conductor.time_out": comes_to_its_deadline,
    "agent.hand_back": fails_on_some_hosts,
    "agent.destroy": terminates,
}


def _step(point: str) -> str:
    return point.rpartition(".")[0]


_DELETE_AT = [
    "conductor.hand_out.after",
    "conductor.select.after",
    "conductor.cast.after",
    "agent.claim.before",
    "agent.claim.after",
    "agent.record.after",
    "agent.spawn.after",
    "agent.finish.after",
    "conductor.finish.before_commit",
]
_SHORT = ("agent.spawn.after", "conductor.claim.after_commit")

SCENARIOS = [
    *(
        Scenario(f"kill-daemon:{victim}", functools.wraps(kill_daemon)(functools.partial(kill_daemon, victim=victim)))
        for victim in ("conductor", "scheduler", "agent-a")
    ),
    *(
        Scenario(f"kill-at:{point}", functools.wraps(kill_at)(functools.partial(kill_at, point=point)), point in _SHORT)
        for point in names.BUILD_NAMES
    ),
    *(
        Scenario(f"delete-at:{point}", functools.wraps(delete_at)(functools.partial(delete_at, point=point)))
        for point in _DELETE_AT
    ),
]
