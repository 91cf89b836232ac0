# SPDX-License-Identifier: Apache-2.0
"""How much of the fleet was in use, from when instances began and ended."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors
from tests.worlds.conductor import Conductor, context

HOSTS = ("h1",)
HOUR_S = 3600
SMALL = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}
LARGE = {"vcpus": 4, "memory_mb": 2048, "root_gb": 8, "ephemeral_gb": 2}


def running(conductor: Conductor, flavor: dict[str, Any]) -> str:
    uuid = conductor.place("h1", flavor=flavor)
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    return uuid


def deleted(conductor: Conductor, uuid: str) -> None:
    conductor.termination.terminate(context(), [uuid])
    conductor.agents.destroyed(context(), uuid, "h1")


def test_the_last_hours(conductor: Conductor) -> None:
    """Two began before, one of which ended; one began and ended between two times, and one is still there."""
    old, ends = running(conductor, SMALL), running(conductor, LARGE)
    conductor.clock.advance(5 * HOUR_S)
    deleted(conductor, ends)
    conductor.clock.advance(0.3 * HOUR_S)
    deleted(conductor, running(conductor, SMALL))
    conductor.clock.advance(1.1 * HOUR_S)
    running(conductor, LARGE)
    conductor.create(flavor=SMALL)  # it does not run yet
    conductor.clock.advance(0.8 * HOUR_S)
    found = conductor.operator.use_over_time(hours=4, points=5)
    assert [2, 2, 1, 1, 2] == found["instances"]
    assert [5, 5, 1, 1, 5] == found["vcpus"]
    assert [2560, 2560, 512, 512, 2560] == found["memory_mb"]
    assert [11, 11, 1, 1, 11] == found["disk_gb"]
    assert sorted(found["times"]) == found["times"]
    assert old


def test_what_hosts_may_give_away(conductor: Conductor) -> None:
    """Without what is reserved, with the ratio; nothing was in use."""
    found = conductor.operator.use_over_time()
    (node,) = conductor.operator.show_host("h1")["nodes"]
    expected = (node["vcpus"] - node["reserved_vcpus"]) * node["cpu_allocation_ratio"]
    assert (expected, [0] * 97) == (found["limits"]["vcpus"], found["vcpus"])


@pytest.mark.parametrize("asked", [{"hours": 0}, {"hours": 745}, {"points": 1}, {"points": 1001}, {"hours": "many"}])
def test_bounds(conductor: Conductor, asked: dict[str, Any]) -> None:
    (field,) = asked
    with pytest.raises(errors.InvalidInput, match=field):
        conductor.operator.use_over_time(**asked)


def test_since_when_there_is_a_fleet(conductor: Conductor) -> None:
    """Readers draw no zeros before it."""
    began = conductor.operator.use_over_time()["began"]
    conductor.clock.advance(HOUR_S)
    running(conductor, SMALL)
    found = conductor.operator.use_over_time(hours=4)
    assert began == found["began"]
    assert found["times"][0] < began < found["times"][-1]
