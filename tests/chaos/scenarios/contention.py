# SPDX-License-Identifier: Apache-2.0
"""Many requests compete for the last slots or the same group, or a scheduler has outdated host states."""

from __future__ import annotations

import collections
import random
from concurrent import futures

from tests.chaos.run import Scenario
from tests.chaos.world import HOSTS, ChaosWorld

SCHEDULERS = 8
SLOTS = 100
WANTED = 1000
_MORE_TIME = (
    "UPDATE instances SET deadline = timezone('utc', now()) + interval '120 seconds' WHERE vm_state = 'building'"
)
#: Requests between two extensions: few enough for a machine that is busy with other things.
BATCH = 25
#: 500 GB a host: twenty fit on each of five hosts.
LARGE = {"vcpus": 1, "memory_mb": 64, "root_gb": 25}


def last_slots(world: ChaosWorld, chance: random.Random) -> None:
    """Eight schedulers, a thousand parallel builds, a hundred slots: a hundred ACTIVE, the rest CAPACITY."""
    for number in range(2, SCHEDULERS + 1):
        world.start(f"scheduler-{number}", "fleet-scheduler")
    with futures.ThreadPoolExecutor(16) as clients:
        for count, requests in ((5, WANTED // 10), (1, WANTED // 2)):
            for _batch in range(requests // BATCH):
                list(clients.map(lambda number: world.boot(number, flavor=LARGE, ignore_hosts=["b3"]), [count] * BATCH))
                _more_time(world)
    world.settle(150)
    states = collections.Counter(row["vm_state"] for row in world.builds())
    reasons = _reasons(world)
    assert states["active"] == SLOTS, f"{dict(states)}: {dict(reasons)}"
    assert set(reasons) == {"CAPACITY"}, dict(reasons)


def _more_time(world: ChaosWorld) -> None:
    """A thousand builds move meanwhile, in orders of their own: of a deadlock this statement may be the victim."""
    world.until(lambda: _gave_more_time(world))


def _gave_more_time(world: ChaosWorld) -> bool:
    world.sql(_MORE_TIME)
    return True


def frozen_cache(world: ChaosWorld, chance: random.Random) -> None:
    """One of two schedulers reads the hosts once and never again. Claims are refused; no host is overcommitted."""
    config = world.directory / "frozen.conf"
    config.write_text(
        "[DEFAULT]\nhost = frozen\nscheduler_driver = caching_scheduler\nscheduler_driver_task_period = 3600\n"
    )
    world.start("scheduler-frozen", "fleet-scheduler", "--config-file", str(config))
    world.until(lambda: "is ready" in world.trio.log("scheduler-frozen"), timeout_s=30)
    for _request in range(30):
        world.boot(4, flavor={"vcpus": 1, "memory_mb": 64, "root_gb": 30})
    world.settle()


def anti_affinity(world: ChaosWorld, chance: random.Random) -> None:
    """Twelve parallel builds into a group that must not meet, on six hosts: at most one on each."""
    _group(world, "anti-affinity", 12)
    active = [row for row in world.builds() if row["vm_state"] == "active"]
    assert len(active) == len({row["host"] for row in active}), "two members have met"
    assert len(active) >= len(HOSTS) - 1, f"only {len(active)} of {len(HOSTS)} hosts were found"


def affinity(world: ChaosWorld, chance: random.Random) -> None:
    """Twelve parallel builds into a group that must not part: all on one host."""
    _group(world, "affinity", 12)
    active = {row["host"] for row in world.builds() if row["vm_state"] == "active"}
    assert len(active) == 1, f"the group is on {sorted(active)}"


def _group(world: ChaosWorld, policy: str, members: int) -> None:
    name = f"g-{world.name}"
    world.trio.operator("create_group", name=name, policy=policy)
    with futures.ThreadPoolExecutor(members) as clients:
        list(clients.map(lambda _member: world.boot(1, group=name), range(members)))
    world.settle()


def _reasons(world: ChaosWorld) -> collections.Counter[str]:
    ledger = world.ledger()
    return collections.Counter(
        (ledger.faults[row["uuid"]][-1]["details"] or {}).get("reason_code", "none")
        for row in world.builds()
        if row["vm_state"] == "error" and ledger.faults.get(row["uuid"])
    )


SCENARIOS = [
    Scenario("contention:last-slots", last_slots),
    Scenario("contention:frozen-cache", frozen_cache),
    Scenario("contention:anti-affinity", anti_affinity, short=True),
    Scenario("contention:affinity", affinity),
]
