# SPDX-License-Identifier: Apache-2.0
"""Metrics of hosts by state, and of use against limits."""

from __future__ import annotations

import datetime

import prometheus_client
import pytest

from conductor_stub.agents.gauges import HostGauges
from fleet.db.hosts import totals
from tests.worlds.conductor import Conductor

DOWN_TIME_S = 60.0


def read(conductor: Conductor) -> dict[tuple[bool, bool], totals.Totals]:
    return conductor.database.read(totals.read, conductor.clock(), DOWN_TIME_S)


def report(conductor: Conductor, host: str, **numbers: float) -> None:
    node = {"host": host, "node": host, "vcpus": 8, "memory_mb": 1000, "local_gb": 100, **numbers}
    (answer,) = conductor.agents.report_hosts([node], {host: [host]})
    assert answer["accepted"]


def test_use_counts_against_limits_and_not_against_what_is_physical(conductor: Conductor) -> None:
    conductor.add_host("h1")
    report(
        conductor, "h1", reserved_vcpus=2, cpu_allocation_ratio=4.0, reserved_memory_mb=100, ram_allocation_ratio=1.5
    )
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    (found,) = read(conductor).values()
    assert (1, 1.0, 24.0) == (found.hosts, found.used["vcpus"], found.limit["vcpus"])
    assert 1350.0 == found.limit["memory_mb"]


def test_hosts_are_counted_by_state_and_status(conductor: Conductor) -> None:
    conductor.add_hosts(["h1", "h2", "h3", "h4", "h5"])
    conductor.operator.update_service(host="h2", disabled=True)
    conductor.operator.force_down(host="h3", forced=True)
    conductor.operator.update_service(host="h3", disabled=True)
    conductor.operator.force_down(host="h4", forced=True)
    expected = {(True, True): 2, (True, False): 1, (False, False): 1, (False, True): 1}
    assert expected == {state: each.hosts for state, each in read(conductor).items()}
    conductor.clock.now += datetime.timedelta(seconds=DOWN_TIME_S + 1)
    assert {(False, True): 3, (False, False): 2} == {state: each.hosts for state, each in read(conductor).items()}


def test_a_state_that_has_no_hosts_any_more_is_zero(conductor: Conductor) -> None:
    gauges = HostGauges(conductor.database, DOWN_TIME_S, conductor.clock)
    conductor.add_host("h1")
    gauges.read()
    conductor.operator.force_down(host="h1", forced=True)
    gauges.read()
    assert (0.0, 1.0) == (sample("fleet_conductor_hosts", "up"), sample("fleet_conductor_hosts", "down"))
    limits = {"resource": "vcpus", "kind": "limit"}
    assert (0.0, True) == (
        sample("fleet_conductor_resources", "up", **limits),
        sample("fleet_conductor_resources", "down", **limits) > 0,
    )


def sample(name: str, state: str, **labels: str) -> float:
    found = prometheus_client.REGISTRY.get_sample_value(name, {"state": state, "status": "enabled", **labels})
    if found is None:
        pytest.fail(f"there is no {name} for {state}")
    return found
