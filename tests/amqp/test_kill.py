# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each daemon during fifty builds: every build ends, and nothing leaks."""

from __future__ import annotations

import collections

import pytest

from tests.amqp.daemons import Trio, eventually
from tests.amqp.invariants import violations

BUILDS = 50


@pytest.mark.timeout(300)
@pytest.mark.parametrize("victim", ["conductor", "scheduler", "agent-a"])
def test_kill(trio: Trio, victim: str) -> None:
    """The victim dies while builds are at every step, and comes back. Each ends ACTIVE, or in ERROR with a fault."""
    uuids = [uuid for _request in range(BUILDS // 5) for uuid in trio.boot(name=f"kill-{victim}", count=5)]
    # Slow spawns: the first few are done when the last are not yet placed.
    eventually(lambda: _count(trio, "active") >= 3, timeout_s=30)
    trio.kill(victim)
    trio.restart(victim)
    at_the_kill = _count(trio, "active")

    ended = trio.wait_for(uuids, "active", "error", timeout_s=150)

    counts = collections.Counter(ended.values())
    print(f"{victim}: {at_the_kill} were done at the kill; all ended {dict(counts)}")
    assert at_the_kill < BUILDS
    assert sum(counts.values()) == BUILDS
    trio.wait_for_hosts(6)
    eventually(lambda: violations(trio) == [], timeout_s=30)


def _count(trio: Trio, vm_state: str) -> int:
    return len(trio.operator("list_instances", filters={"vm_state": vm_state}))
