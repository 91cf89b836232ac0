# SPDX-License-Identifier: Apache-2.0
"""A host that fails build after build loses weight, and recovers; with the scheduler's own code and real rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from conductor_stub.steps.attempt import Attempt, Failure
from fleet.db.engine.database import Database
from fleet.db.feed.feed import ChangeFeed
from fleet.objects import Place
from scheduler.compute.drivers.filter_scheduler import FilterScheduler
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.manager import SchedulerManager
from tests.configuration import of_scheduler
from tests.worlds.conductor import Conductor, context
from tests.worlds.neighbours import FakeNotifier

SPAWN = Failure(step="spawn", code="SpawnFailed", message="no hypervisor")


class Notifier(FakeNotifier):
    def info(self, *_event: object) -> None:
        """Drop the notification."""


@pytest.fixture
def conductor(database: Database) -> Conductor:
    """``big`` has the most memory, so the scheduler prefers it while it works."""
    conf = of_scheduler()
    conductor = Conductor(database)
    feeds = (ChangeFeed(database, conductor.clock) for _feed in range(2))
    hosts = HostManager(*feeds, clock=conductor.clock, service_down_time_s=10**6)
    manager = SchedulerManager(FilterScheduler(conf, hosts, Notifier()))

    def select(context: Any, request_spec: Any, filter_properties: Any) -> Any:
        return manager.select_destinations(context, request_spec=request_spec, filter_properties=filter_properties)

    conductor.placement._kind = dataclasses.replace(conductor.placement._kind, select=select)
    report(conductor, "big", 64_000)
    report(conductor, "small", 8_000)
    return conductor


def report(conductor: Conductor, host: str, memory_mb: int, failed_builds: int = 0) -> None:
    """As its agent's audit does."""
    conductor.add_host(host, memory_mb=memory_mb)
    inventory = {"host": host, "node": host, "vcpus": 8, "memory_mb": memory_mb, "local_gb": 100}
    inventory["stats"] = {"failed_builds": failed_builds}
    conductor.agents.report_hosts([inventory], {host: [host]})


def chosen(conductor: Conductor) -> tuple[str, str, list[Place]]:
    """A new build's uuid, its host, and the alternates."""
    (uuid,) = conductor.create()
    conductor.work()
    host, order = conductor.compute.builds[-1]
    return uuid, host, [Place(**each) for each in order["alternates"]]


def fail(conductor: Conductor) -> None:
    """The next build fails on ``big``, and is built by ``small``."""
    uuid, host, alternates = chosen(conductor)
    assert "big" == host
    conductor.claim(uuid, "big")
    conductor.placement.reschedule(context(), Attempt(uuid, 1, "big", "big"), SPAWN, alternates)
    conductor.claim(uuid, "small", attempt=2)
    conductor.finish(uuid, "small", attempt=2)


def test_a_sick_host_is_passed_over_from_its_first_failure(conductor: Conductor) -> None:
    """The next request already goes elsewhere, without an attempt on it."""
    fail(conductor)
    assert ["small", "small"] == [chosen(conductor)[1] for _request in range(2)]


def test_a_sick_host_recovers_when_its_failures_are_forgotten(conductor: Conductor) -> None:
    """Its agent forgets them after a while, and reports that with its next audit."""
    fail(conductor)
    report(conductor, "big", 64_000, failed_builds=1)
    assert "small" == chosen(conductor)[1]
    report(conductor, "big", 64_000, failed_builds=0)
    assert "big" == chosen(conductor)[1]


def test_a_sick_host_recovers_with_a_success(conductor: Conductor) -> None:
    """A forced build on it succeeds."""
    fail(conductor)
    (uuid,) = conductor.create(availability_zone="nova:big")
    conductor.work()
    conductor.claim(uuid, "big")
    conductor.finish(uuid, "big")
    assert "big" == chosen(conductor)[1]
