# SPDX-License-Identifier: Apache-2.0
"""Daemons are paused and continued, and daemons with much work are stopped."""

from __future__ import annotations

import functools
import random
import signal
import time

from tests.chaos.run import Scenario
from tests.chaos.world import ChaosWorld

#: Longer than service_down_time: others have given the daemon up by then.
ASLEEP_S = 12
BACKLOG = 1000
SMALL = {"vcpus": 1, "memory_mb": 16, "root_gb": 0}


def stop_and_continue(world: ChaosWorld, chance: random.Random, victim: str) -> None:
    """SIGSTOP past the lease, then SIGCONT: the daemon wakes in the middle of work that others have taken over."""
    world.unruly({"host": "*", "do": "hang", "seconds": 0.5})
    for _request in range(4):
        world.boot(5)
    time.sleep(chance.uniform(0, 1))
    world.trio.signal(victim, signal.SIGSTOP)
    time.sleep(ASLEEP_S)
    world.trio.signal(victim, signal.SIGCONT)
    world.settle()


def end_with_backlog(world: ChaosWorld, chance: random.Random, victim: str) -> None:
    """SIGTERM in the middle of a thousand builds: it ends within its limit, and every build ends all the same."""
    world.unruly({"host": "*", "do": "hang", "seconds": 0.2})
    world.boot(BACKLOG, flavor=SMALL)
    world.until(lambda: len(world.builds()) == BACKLOG)
    # A thousand on this machine take longer than a build may; how long is not what is asked here.
    world.sql("UPDATE instances SET deadline = deadline + interval '120 seconds' WHERE NOT deleted")
    world.until(lambda: world.count("active") > chance.randrange(10, 60), timeout_s=60)
    status = world.trio.stop(victim)
    world.trio.restart(victim)
    assert status == 0, f"{victim} ended with status {status}"
    world.settle(150)


SCENARIOS = [
    *(
        Scenario(
            f"stop-continue:{victim}",
            functools.wraps(stop_and_continue)(functools.partial(stop_and_continue, victim=victim)),
            short=victim == "agent-a",
        )
        for victim in ("conductor", "scheduler", "agent-a")
    ),
    *(
        Scenario(
            f"sigterm-backlog:{victim}",
            functools.wraps(end_with_backlog)(functools.partial(end_with_backlog, victim=victim)),
        )
        for victim in ("conductor", "agent-a")
    ),
]
