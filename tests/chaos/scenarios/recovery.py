# SPDX-License-Identifier: Apache-2.0
"""Hosts die with their guests, and conductors recover them by themselves: whatever the fence does, and whoever else dies."""

from __future__ import annotations

import contextlib
import functools
import random
import signal
from collections.abc import Iterator

from tests.chaos.run import Scenario
from tests.chaos.world import HOSTS, ChaosWorld
from tests.invariants import drivers

#: A rack: the hosts of one agent.
RACK = tuple(host for host in HOSTS if host.startswith("a"))
GUESTS = 50
_AGGREGATE = "recovered"


@contextlib.contextmanager
def _recovered(world: ChaosWorld, guests: int) -> Iterator[list[str]]:
    """Guests on the hosts of the rack, which conductors may recover meanwhile."""
    world.trio.operator("create_aggregate", name=_AGGREGATE, metadata={"recovery": "on"})
    try:
        for host in HOSTS:
            world.trio.operator("add_aggregate_host", name=_AGGREGATE, host=host)
        for number, host in enumerate(RACK):
            share = len(range(number, guests, len(RACK)))
            world.boot_until_told(share, availability_zone=f"nova:{host}")
        world.settle()
        uuids = [row["uuid"] for row in world.builds()]
        assert guests == len(uuids) == world.count("active")
        yield uuids
    finally:
        for host in HOSTS:
            world.trio.operator("remove_aggregate_host", name=_AGGREGATE, host=host)
        world.trio.operator("delete_aggregate", name=_AGGREGATE)


def _recoveries(world: ChaosWorld) -> dict[str, dict]:
    """The open or newest recovery of each host of the rack."""
    listed = world.trio.operator("list_recoveries", limit=20)["recoveries"]
    return {each["host"]: each for each in reversed(listed) if each["host"] in RACK}


def _statuses(world: ChaosWorld) -> set[str]:
    return {each["status"] for each in _recoveries(world).values()}


def _all_moved(world: ChaosWorld) -> bool:
    rows = world.builds()
    return all(row["host"] not in RACK and (row["vm_state"], row["task_state"]) == ("active", None) for row in rows)


def _nothing_moved(world: ChaosWorld, uuids: list[str]) -> None:
    there = drivers.guests(world.trio.instances_path)
    moved = [uuid for uuid in uuids for host in HOSTS if host not in RACK and uuid in there.get(host, {})]
    assert [] == moved, f"spawned elsewhere, without a fence: {moved}"


def _measure(world: ChaosWorld) -> None:
    """Seconds from the last heartbeat of the rack until its last guest is ACTIVE elsewhere."""
    seen = max(each["silent_since"] for each in _recoveries(world).values())
    world.measured["recovery_s"] = world.seconds_since(seen)


def rack(world: ChaosWorld, chance: random.Random) -> None:
    """An agent of three hosts dies with 50 guests: each host is fenced once, and all guests run elsewhere, once each."""
    world.fence("off")
    began = len(world.fences())
    with _recovered(world, GUESTS) as uuids:
        world.trio.kill("agent-a")
        world.until(lambda: _all_moved(world), timeout_s=180)
        _measure(world)
        world.until(lambda: _statuses(world) == {"done"}, timeout_s=30)
        assert sorted(["off", host] for host in RACK) == sorted(world.fences()[began:])
        # When the rack is back, its stale guests go.
        world.trio.restart("agent-a")
        world.until(lambda: not _left(world, uuids), timeout_s=60)


def _left(world: ChaosWorld, uuids: list[str]) -> list[str]:
    there = drivers.guests(world.trio.instances_path)
    return [uuid for uuid in uuids for host in RACK if uuid in there.get(host, {})]


def conductors(world: ChaosWorld, chance: random.Random) -> None:
    """All conductors die in the middle of a recovery, while guests are moved. It goes on, and nothing is moved twice."""
    world.fence("off")
    with _recovered(world, GUESTS) as uuids:
        world.trio.kill("agent-a")
        world.until(lambda: sum(row["host"] not in RACK for row in world.builds()) >= chance.randrange(3, 20))
        world.trio.kill("conductor")
        world.trio.restart("conductor")
        world.until(lambda: _all_moved(world), timeout_s=240)
        world.until(lambda: _statuses(world) == {"done"}, timeout_s=60)
        # One evacuation each that succeeded.
        done = [row for row in world.trio.operator("list_migrations", filters={"migration_type": "evacuation"})
                if row["instance_uuid"] in uuids and row["status"] in ("done", "completed")]  # fmt: skip
        assert len(uuids) == len(done)


def bad_fence(world: ChaosWorld, chance: random.Random, how: str) -> None:
    """The fence hangs, fails or succeeds late: nothing is moved until an operator has it mended, and resumes."""
    world.fence(how)
    with _recovered(world, 6) as uuids:
        world.trio.kill("agent-a")
        world.until(lambda: _statuses(world) == {"held"}, timeout_s=180)
        _nothing_moved(world, uuids)
        world.fence("off")
        for host in RACK:
            world.trio.operator("pause_recovery", paused=False, name=host)
        world.until(lambda: _all_moved(world), timeout_s=120)


def partition(world: ChaosWorld, chance: random.Random) -> None:
    """60 % of the hosts of a room are silent at once, and their guests run on: nothing is fenced, and nothing moved."""
    world.fence("off")
    for host in (*RACK, "b1", "b2"):
        world.trio.operator("set_host_labels", host=host, labels={"room": "one"})
    began = len(world.fences())
    try:
        with _recovered(world, 6) as uuids:
            world.trio.signal("agent-a", signal.SIGSTOP)
            world.until(lambda: _stopped(world), timeout_s=60)
            # Longer than it takes to recover a host.
            world.pass_looks(10)
            assert began == len(world.fences())
            _nothing_moved(world, uuids)
            world.trio.signal("agent-a", signal.SIGCONT)
            world.until(lambda: not _stopped(world), timeout_s=60)
            assert began == len(world.fences())
    finally:
        for host in (*RACK, "b1", "b2"):
            world.trio.operator("set_host_labels", host=host, labels={"room": None})


def _stopped(world: ChaosWorld) -> bool:
    return any(each["stopped"] for each in world.trio.operator("list_recoveries", limit=1)["domains"])


SCENARIOS = [
    Scenario("recovery:rack", rack, short=True),
    Scenario("recovery:conductors", conductors),
    *(
        Scenario(f"recovery:fence-{how}", functools.wraps(bad_fence)(functools.partial(bad_fence, how=how)))
        for how in ("hang", "fail", "late")
    ),
    Scenario("recovery:partition", partition),
]
