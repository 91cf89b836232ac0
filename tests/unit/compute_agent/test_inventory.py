# SPDX-License-Identifier: Apache-2.0
"""Tests of the inventory and its audit."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from compute_agent.drivers.fake import FakeDriver
from compute_agent.node import inventory
from compute_agent.node.claims import Resources
from compute_agent.node.inventory import HostPolicy
from compute_agent.work import recovery
from fleet import errors
from fleet.objects import HostLimits, HostReport, Image
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST
from tests.worlds.one_host import one_host

GOOD = {"vcpus": 8, "memory_mb": 8192, "local_gb": 100, "numa_topology": None}


def to_report(resources: dict[str, Any]) -> HostReport:
    return inventory.to_report(HOST, HOST, resources, HostPolicy(), orphaned_memory_mb=0, failed_builds=0)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"vcpus": -1}, "vcpus", id="negative"),
        pytest.param({"memory_mb": float("nan")}, "memory_mb", id="not a number"),
        pytest.param({"memory_mb": 0}, "memory_mb", id="no memory at all"),
        pytest.param({"local_gb": None}, "local_gb", id="None"),
        pytest.param({"local_gb": "100"}, "local_gb", id="text"),
        pytest.param({"numa_topology": "{"}, "numa_topology", id="broken JSON"),
        pytest.param({"stats": [1]}, "stats", id="stats that are no mapping"),
    ],
)
def test_a_bad_inventory_is_refused_whole(changes: dict[str, Any], field: str) -> None:
    """The error names what is wrong with it."""
    with pytest.raises(errors.ReportRefused) as refused:
        to_report({**GOOD, **changes})
    assert field == refused.value.field


@pytest.mark.parametrize("key", sorted(GOOD))
def test_a_missing_key_is_named(key: str) -> None:
    """The driver's author reads what is missing."""
    with pytest.raises(errors.ReportRefused) as refused:
        to_report({name: value for name, value in GOOD.items() if name != key})
    assert (key, "is missing") == (refused.value.field, refused.value.reason)


@pytest.mark.parametrize("booted_at", [None, 1_764_000_000])
def test_when_the_machine_was_started(booted_at: int | None) -> None:
    """Of one whose start is not known, nothing is reported."""
    found = inventory.to_report(HOST, HOST, GOOD, HostPolicy(booted_at=booted_at), 0, 0)
    assert booted_at == found.stats.get("booted_at")


def test_json_is_as_good_as_a_structure() -> None:
    """Drivers written nova's way give JSON texts."""
    report = to_report({**GOOD, "numa_topology": '{"cells": []}', "supported_instances": '[["x86_64", "kvm", "hvm"]]'})
    assert {"cells": []} == report.numa_topology
    assert [["x86_64", "kvm", "hvm"]] == report.supported_instances


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            {}, HostPolicy(Resources(512, 0, 0), 16.0, 1.5, 1.0, "127.0.0.1", driver_timeout_s=60), id="defaults"
        ),
        pytest.param(
            {"reserved_host_disk_mb": 1025, "reserved_host_cpus": 2, "reserved_host_memory_mb": 0},
            HostPolicy(Resources(0, 2, 2), host_ip="127.0.0.1", driver_timeout_s=60),
            id="reserved disk is rounded up",
        ),
        pytest.param(
            {
                "cpu_allocation_ratio": 4.0,
                "ram_allocation_ratio": 1.0,
                "disk_allocation_ratio": 2.0,
                "my_ip": "10.0.0.1",
            },
            HostPolicy(Resources(memory_mb=512), 4.0, 1.0, 2.0, "10.0.0.1", driver_timeout_s=60),
            id="ratios of this host",
        ),
    ],
)
def test_policy_from_conf(options: dict[str, Any], expected: HostPolicy) -> None:
    """0.0 is nova's word for the default ratio."""
    assert expected == HostPolicy.from_conf(builders.a_conf(**options))


class ShiftingDriver(FakeDriver):
    """Its inventory is what the test sets."""

    resources: dict[str, Any] | None = None

    def get_available_resource(self, node: str) -> dict[str, Any] | None:
        return self.resources


def test_a_refused_inventory_stops_claims_until_it_is_mended(caplog: pytest.LogCaptureFixture) -> None:
    """The previous report stands, an error is logged, nothing new is claimed; then all is well again."""
    conf = builders.a_conf()
    driver = ShiftingDriver(conf)
    driver.resources = dict(GOOD)
    world = one_host(conf, driver)
    driver.resources = {**GOOD, "memory_mb": -5}
    world.reporter.report()
    assert {} == world.conductor.reports
    assert 1 == len(builders.lines(caplog, logging.ERROR))
    with pytest.raises(errors.ComputeResourcesUnavailable):
        world.tracker.instance_claim(builders.an_instance(), HostLimits())
    driver.resources = dict(GOOD)
    world.reporter.report()
    assert 8192 == world.conductor.reports[HOST, HOST].memory_mb
    world.tracker.instance_claim(builders.an_instance(), HostLimits())


def test_an_inventory_that_shrinks_below_what_is_held_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and the conductor gets the reason. A smaller inventory that still suffices is accepted."""
    conf = builders.a_conf(reserved_host_memory_mb=0)
    driver = ShiftingDriver(conf)
    driver.resources = dict(GOOD)
    world = one_host(conf, driver)
    world.tracker.instance_claim(builders.an_instance(flavor=builders.a_flavor(memory_mb=6000)), HostLimits())
    for memory_mb in (3000, 3000):
        driver.resources = {**GOOD, "memory_mb": memory_mb}
        world.reporter.report()
    (line,) = builders.lines(caplog, logging.ERROR)
    assert "memory_mb has shrunk from 8192 to 3000, of which 0 are reserved; instances hold 6000" in line
    assert "has shrunk from 8192 to 3000" in world.conductor.alarms[HOST]
    assert {} == world.conductor.reports
    driver.resources = {**GOOD, "memory_mb": 4000}
    world.reporter.report()
    assert 4000 == world.conductor.reports[HOST, HOST].memory_mb
    assert "" == world.conductor.alarms[HOST]


def test_an_inventory_that_shrank_while_the_agent_was_down_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """A new process compares its first inventory with the ledger's; one that suffices is taken."""
    conf = builders.a_conf(reserved_host_memory_mb=0)
    driver = ShiftingDriver(conf)
    driver.resources = {**GOOD, "memory_mb": 3000}
    world = one_host(conf, driver, audited=False)
    world.conductor.reports[HOST, HOST] = builders.a_report()
    flavor = builders.a_flavor(memory_mb=6000)
    world.conductor.put(
        builders.an_instance(flavor=flavor), vm_state="active", host=HOST, node=HOST, claimed_memory_mb=6000
    )
    world.reporter.register()
    recovery.recover(builders.a_context(), world.host, world.ledger)
    caplog.clear()
    world.reporter.report()
    (line,) = builders.lines(caplog, logging.ERROR)
    assert "memory_mb has shrunk from 8192 to 3000, of which 0 are reserved; instances hold 6000" in line
    assert 8192 == world.conductor.reports[HOST, HOST].memory_mb
    assert "has shrunk from 8192 to 3000" in world.conductor.alarms[HOST]
    driver.resources = {**GOOD, "memory_mb": 4096}
    world.reporter.report()
    assert 4096 == world.conductor.reports[HOST, HOST].memory_mb
    assert "" == world.conductor.alarms[HOST]


def test_a_node_without_resources_is_not_reported() -> None:
    """If the driver cannot read its resources, the node is neither tracked nor reported, and raises no alarm."""
    conf = builders.a_conf()
    world = one_host(conf, ShiftingDriver(conf))
    world.reporter.report()
    assert ({}, {HOST: ""}) == (world.conductor.reports, world.conductor.alarms)


def test_orphans_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """An orphan is one warning, not one an audit."""
    world = one_host()
    orphan = builders.an_instance(node=HOST)
    world.driver.spawn(builders.a_context(), orphan, Image())
    world.reporter.report()
    world.reporter.report()
    assert 1 == len([line for line in builders.lines(caplog, logging.WARNING) if orphan.uuid in line])
    assert 512 == world.conductor.reports[HOST, HOST].orphaned_memory_mb


def test_a_guest_that_goes_during_the_audit_is_no_orphan() -> None:
    """A termination between the two looks of the audit must not leave a ghost behind."""

    class Racing(FakeDriver):
        def get_per_instance_usage(self) -> dict[str, dict[str, Any]]:
            usage = super().get_per_instance_usage()
            for uuid in usage:
                super().destroy(builders.a_context(), uuid)
                world.host.release(uuid)
            return usage

    conf = builders.a_conf(reserved_host_memory_mb=0)
    driver = Racing(conf)
    world = one_host(conf, driver)
    instance = builders.an_instance(node=HOST)
    world.tracker.instance_claim(instance, HostLimits())
    driver.spawn(builders.a_context(), instance, Image())
    world.reporter.report()
    assert 0 == world.conductor.reports[HOST, HOST].orphaned_memory_mb
