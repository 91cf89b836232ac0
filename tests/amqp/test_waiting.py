# SPDX-License-Identifier: Apache-2.0
"""Builds that wait for room, with real daemons: the order, the number of decisions, and the death of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from fleet.context import new_context
from fleet_trial.private_servers import RabbitMQ
from tests.amqp.daemons import Trio, eventually, running
from tests.amqp.invariants import come_to_rest
from tests.shared_servers import create_database

pytestmark = pytest.mark.long
NAME = "waiting"
#: Two hosts hold two of these each.
FLAVOR = {"vcpus": 1, "memory_mb": 1024, "root_gb": 1}
DAEMONS = ("conductor", "scheduler", "agent")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, postgresql_url: str, broker: RabbitMQ) -> Iterator[Trio]:
    """Daemons of their own."""
    url = create_database(postgresql_url, NAME)
    default, fake = "ram_allocation_ratio = 1.0\nreserved_host_memory_mb = 0\n", "memory_mb = 2048\n"
    directory = tmp_path_factory.mktemp(NAME)
    with running(Trio(directory, broker.vhost(NAME), url, default=default, fake=fake)) as trio:
        trio.manage("db", "sync")
        trio.start("conductor", "fleet-conductor")
        trio.start("scheduler", "fleet-scheduler")
        trio.start("agent", "fleet-compute", "--hosts", "h[1-2]")
        trio.wait_for_hosts(2)
        trio.wait_for_service("fleet-scheduler")
        yield trio


def boot(trio: Trio, project: str, **request: object) -> str:
    asked = {"flavor": FLAVOR, "name": project, **request}
    (instance,) = trio.tasks.create(new_context(project_id=project), asked)["instances"]
    return instance["uuid"]


def queue(trio: Trio, project: str) -> str:
    """A build that waits, and whose turn is after those before it."""
    uuid = boot(trio, project, wait_for_capacity_s=600)
    eventually(lambda: trio.show(uuid)["instance"]["task_state"] == "queued")
    return uuid


def decisions(trio: Trio) -> list[str]:
    """What the scheduler has answered."""
    return re.findall(r"(Placed|No valid host for) 1 instance", trio.log("scheduler"))


def queued(trio: Trio) -> list[str]:
    return [each["uuid"] for each in trio.operator("list_queue")["builds"]]


def test_waiting(full: Trio) -> None:
    """Four instances fill the fleet. Of five builds that wait, each freed slot wakes one, and one decision is made. Then all
    daemons are killed, and a host joins."""
    trio = full
    running_ = [boot(trio, "first") for _each in range(4)]
    assert {"active"} == set(trio.wait_for(running_, "active", "error").values())
    a = [queue(trio, "a") for _each in range(3)]
    b = [queue(trio, "b") for _each in range(2)]
    assert [a[0], b[0], a[1], b[1], a[2]] == queued(trio)

    # The first of each project was tried. A line is written after the answer: all must be there before more are counted.
    eventually(lambda: len(decisions(trio)) >= len(running_) + 2)
    made = len(decisions(trio))
    order = []
    for over in running_:
        waiting = queued(trio)
        trio.terminate([over])
        eventually(lambda waiting=waiting: len(queued(trio)) < len(waiting))  # type: ignore[misc]
        (woken,) = set(waiting) - set(queued(trio))
        assert "active" == trio.wait_for([woken], "active", "error")[woken]
        made += 1
        eventually(lambda made=made: len(decisions(trio)) >= made)  # type: ignore[misc]
        assert ["Placed"] == decisions(trio)[made - 1 :]
        order.append(woken)
    assert [a[0], b[0], a[1], b[1]] == order
    come_to_rest(trio)

    for name in DAEMONS:
        trio.kill(name)
    for name in DAEMONS:
        trio.restart(name)
    trio.wait_for_hosts(2)
    assert [a[2]] == queued(trio)
    trio.start("agent-c", "fleet-compute", "--hosts", "h3")
    assert "active" == trio.wait_for([a[2]], "active", "error")[a[2]]
    assert ("h3", []) == (trio.show(a[2])["instance"]["host"], queued(trio))
    come_to_rest(trio)
    assert "Traceback" not in trio.log("conductor")
