# SPDX-License-Identifier: Apache-2.0
"""The broker goes away, comes back, falls silent, is full, or has lost a queue."""

from __future__ import annotations

import random
import time

from tests.chaos.run import Scenario
from tests.chaos.world import ChaosWorld


def restart_idle(world: ChaosWorld, chance: random.Random) -> None:
    """The broker is restarted while nothing is under way: all find back to it by themselves."""
    world.broker.stop()
    world.broker.start()
    world.wait_until_up()
    world.boot(6)
    world.settle()
    assert world.count("active") == 6


def kill_with_backlog(world: ChaosWorld, chance: random.Random) -> None:
    """kill -9 of the broker while builds are at every step."""
    world.unruly({"host": "*", "do": "hang", "seconds": 0.5})
    for _request in range(6):
        world.boot(5)
    time.sleep(chance.uniform(0, 1))
    world.broker.kill()
    world.broker.start()
    world.settle()


def outage(world: ChaosWorld, chance: random.Random) -> None:
    """No broker for a minute, with builds under way: they end in time all the same, if only in ERROR with a fault."""
    world.unruly({"host": "*", "do": "hang", "seconds": 0.5})
    world.boot(12)
    world.broker.stop()
    time.sleep(60)
    world.broker.start()
    world.boot_until_told(6)
    world.settle()


def outage_past_the_lease(world: ChaosWorld, chance: random.Random) -> None:
    """The broker is away until all hosts look down. Waiting builds and builds requested right after it end ACTIVE."""
    world.boot(6)
    world.broker.stop()
    time.sleep(chance.uniform(10, 14))
    world.broker.start()
    uuids = world.boot_until_told(6)
    world.settle()
    states = {row["uuid"]: row["vm_state"] for row in world.builds()}
    assert {"active"} == set(states.values()), states
    assert set(uuids) <= set(states)


def half_open(world: ChaosWorld, chance: random.Random) -> None:
    """Connections to the broker stay open and carry nothing for fifteen seconds; then all of them end."""
    world.boot(6)
    world.to_broker.freeze()
    time.sleep(15)
    world.to_broker.heal()
    world.to_broker.cut()
    world.boot_until_told(6)
    world.settle()


def frozen_a_moment(world: ChaosWorld, chance: random.Random) -> None:
    """Everything that was sent arrives, eight seconds late."""
    for _request in range(4):
        world.boot(3)
    time.sleep(chance.uniform(0, 0.5))
    world.to_broker.freeze()
    time.sleep(8)
    world.to_broker.heal()
    world.settle()


def slow(world: ChaosWorld, chance: random.Random) -> None:
    """Each packet takes a twentieth of a second longer."""
    world.to_broker.slow(0.05)
    world.boot_until_told(6)
    world.settle()


def memory_alarm(world: ChaosWorld, chance: random.Random) -> None:
    """The broker accepts no messages for ten seconds: publishers block."""
    world.boot(6)
    world.broker.ctl("set_vm_memory_high_watermark", "absolute", "1")
    time.sleep(10)
    world.broker.ctl("set_vm_memory_high_watermark", "0.4")
    world.boot_until_told(6)
    world.settle()


def queue_deleted(world: ChaosWorld, chance: random.Random) -> None:
    """Queues are deleted under their consumers, which declare them again."""
    world.boot(6)
    listed = world.broker.ctl("list_queues", "name", "--no-table-headers").split()
    of_hosts = [name for name in listed if name.startswith(("compute.a1_", "compute.b2_"))]
    assert 2 == len(of_hosts), listed
    for queue in ("conductor", "conductor_ledger", "scheduler", *of_hosts):
        world.broker.ctl("delete_queue", queue)
    world.boot_until_told(6)
    world.settle()


def agent_queue_missing(world: ChaosWorld, chance: random.Random) -> None:
    """An agent has died: its queues are gone with it, and all builds go to others, without waiting for it."""
    world.trio.kill("agent-a")
    began = time.monotonic()
    uuids = world.boot_until_told(6)
    world.until(lambda: not world.unsettled(), timeout_s=40)
    took = time.monotonic() - began
    world.trio.restart("agent-a")
    assert took < 10, f"builds took {took:.0f} s although the missing queues are known at once"
    assert world.count("active") == len(uuids)


SCENARIOS = [
    Scenario("broker:restart-idle", restart_idle),
    Scenario("broker:kill-with-backlog", kill_with_backlog, short=True),
    Scenario("broker:outage-past-lease", outage_past_the_lease),
    Scenario("broker:outage-60s", outage),
    Scenario("broker:half-open", half_open),
    Scenario("broker:frozen-8s", frozen_a_moment),
    Scenario("broker:slow", slow),
    Scenario("broker:memory-alarm", memory_alarm),
    Scenario("broker:queue-deleted", queue_deleted, short=True),
    Scenario("broker:agent-queue-missing", agent_queue_missing),
]
