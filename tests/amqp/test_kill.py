# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each daemon during fifty builds: every build ends, and nothing leaks."""

from __future__ import annotations

import collections

import pytest

from tests.amqp.daemons import Trio, eventually
from tests.amqp.invariants import come_to_rest

BUILDS = 50


@pytest.mark.parametrize("victim", ["conductor", "scheduler", "agent-a"])
def test_kill(trio: Trio, victim: str) -> None:
    """The victim dies while builds are at every step, and comes back. Each ends ACTIVE, or in ERROR with a fault.

    Two hosts hold their spawns until the victim is back, so builds are certain to be under way when it dies.
    """
    trio.unruly({"host": "*3", "do": "hold"})
    uuids = [uuid for _request in range(BUILDS // 5) for uuid in trio.boot(name=f"kill-{victim}", count=5)]
    eventually(lambda: _count(trio, "active") >= 3 and _held(trio) >= 2)
    done = _count(trio, "active")
    trio.kill(victim)
    trio.restart(victim)
    trio.unruly()

    ended = trio.wait_for(uuids, "active", "error")

    counts = collections.Counter(ended.values())
    print(f"{victim}: {done} were done just before the kill; all ended {dict(counts)}")
    assert done < BUILDS
    assert sum(counts.values()) == BUILDS
    trio.wait_for_hosts(6)
    come_to_rest(trio)


def _count(trio: Trio, vm_state: str) -> int:
    return len(trio.operator("list_instances", filters={"vm_state": vm_state}))


def _held(trio: Trio) -> int:
    """How many builds stand still in the driver, on agents of either process."""
    building = trio.operator("list_instances", filters={"vm_state": "building"})
    return len({each["host"] for each in building if each["host"] in ("a3", "b3")})
