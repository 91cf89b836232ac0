# SPDX-License-Identifier: Apache-2.0
"""The reports that an agent sends by itself."""

from __future__ import annotations

import dataclasses
import logging
import threading
from typing import Any

import oslo_messaging
import pytest

from compute_agent.drivers.fake import FakeDriver
from compute_agent.ledger import reporter
from fleet import states
from fleet.clock import seconds, utcnow
from fleet.clock.skew import ClockSkew
from tests import leftovers
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST
from tests.worlds.one_host import one_host

TIMEOUT = oslo_messaging.MessagingTimeout("silence")


def test_register_waits_for_the_conductor() -> None:
    """An agent may be started before its conductor."""
    world = one_host()
    world.conductor.incarnations.clear()
    world.conductor.script("register_services", TIMEOUT, times=20)
    world.reporter.register()
    assert {HOST: builders.INCARNATION} == world.conductor.incarnations


def test_a_lost_conductor_is_one_warning_and_one_line_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    """The operator's log does not fill while the broker is away."""
    caplog.set_level(logging.INFO)
    world = one_host()
    caplog.clear()
    world.conductor.script("report_state", TIMEOUT, times=5)
    world.conductor.script("report_hosts", TIMEOUT, times=2)
    for _ in range(2):
        world.reporter.heartbeat()
        world.reporter.report()
    for _ in range(4):
        world.reporter.heartbeat()
    assert [
        "The conductor does not answer (MessagingTimeout); work here goes on",
        "The conductor answers again",
    ] == builders.lines(caplog)


def test_an_agent_compares_its_clock_with_the_databases(caplog: pytest.LogCaptureFixture) -> None:
    """The answer to its heartbeat has the time. One hour off gives one log line, and the next heartbeat reports it."""
    world = one_host()
    skew = ClockSkew(5.0)
    world.reporter._presence._skew = skew
    world.conductor.now = (utcnow() - seconds(3600)).isoformat()
    for _beat in range(2):
        world.reporter.heartbeat()
    assert 3600 == skew.reported_s
    (line,) = builders.lines(caplog, logging.ERROR)
    assert "ahead of the database's" in line
    world.conductor.now = None
    world.reporter.heartbeat()
    assert 3600 == skew.reported_s


def test_a_superseded_host_is_told() -> None:
    """The answer to a heartbeat shows that another process serves the host. It sends no more heartbeats for it."""
    world = one_host()
    world.conductor.incarnations[HOST] = "another life"
    world.reporter.heartbeat()
    assert 1 == len(world.superseded)
    world.reporter.forget(HOST)
    world.reporter.heartbeat()
    world.reporter.report()
    assert ["report_state"] == world.conductor.calls


def test_all_nodes_of_a_host_are_reported() -> None:
    """The conductor learns the whole list of nodes with the reports."""
    conf = builders.a_conf(fake={"fake_nodes": 3, "numa_cells": 2, "vcpus": 5, "memory_mb": 1001})
    world = one_host(conf)
    world.reporter.report()
    nodes = [f"{HOST}-1", f"{HOST}-2", f"{HOST}-3"]
    assert {HOST: nodes} == world.conductor.nodes
    assert [(HOST, node) for node in nodes] == list(world.conductor.reports)
    cells = world.conductor.reports[HOST, nodes[0]].numa_topology["cells"]
    assert [([0, 1], 500), ([2, 3, 4], 501)] == [(cell["cpuset"], cell["memory"]) for cell in cells]


def test_a_report_that_the_conductor_refuses_stops_claims(caplog: pytest.LogCaptureFixture) -> None:
    """The conductor has the last word on an inventory."""
    world = one_host()
    world.conductor.refused_nodes[HOST] = "it shrank"
    world.reporter.report()
    instance = world.conductor.place(builders.an_instance())
    world.build(instance)
    assert "it shrank" in world.conductor.rescheduled[instance.uuid]["failure"]["message"]
    assert 1 == len(builders.lines(caplog, logging.ERROR))


def test_a_driver_that_fails_at_the_first_audit_gets_no_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim without an inventory holds nothing: the ledger would count none of what its instance uses."""
    world = one_host(audited=False)

    def fail(node: str) -> None:
        raise RuntimeError("out of order")

    with monkeypatch.context() as patched:
        patched.setattr(world.driver, "get_available_resource", fail)
        world.reporter.report()
    refused = world.conductor.place(builders.an_instance())
    world.build(refused)
    assert "its inventory is not known: the driver failed with RuntimeError" == world.conductor.alarms[HOST]
    assert "its inventory is not known" in world.conductor.rescheduled[refused.uuid]["failure"]["message"]
    world.reporter.report()
    built = world.conductor.place(builders.an_instance())
    world.build(built)
    assert 512 == world.conductor.rows[built.uuid].claimed_memory_mb


@pytest.mark.parametrize("nothing", [None, {}])
def test_a_known_node_without_resources_gets_no_builds(nothing: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedulers know the node, and claims that are not tested would hold nothing."""
    world = one_host()
    world.reporter.report()
    with monkeypatch.context() as patched:
        patched.setattr(world.driver, "get_available_resource", lambda node: nothing)
        world.reporter.report()
    refused = world.conductor.place(builders.an_instance())
    world.build(refused)
    assert "the driver reports no resources" in world.conductor.alarms[HOST]
    assert "the driver reports no resources" in world.conductor.rescheduled[refused.uuid]["failure"]["message"]
    world.reporter.report()
    built = world.conductor.place(builders.an_instance())
    world.build(built)
    assert 512 == world.conductor.rows[built.uuid].claimed_memory_mb


@pytest.mark.parametrize("call", ["get_available_nodes", "get_per_instance_usage", "get_available_resource"])
def test_a_driver_that_hangs_gets_no_builds_until_it_answers(
    call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As with a file system that is away. Each build would end in ERROR, since its clean-up could not be confirmed."""

    class Hypervisor(FakeDriver):
        simulated = False

    conf = builders.a_conf(reserved_host_memory_mb=0)
    world, hung, goes_on, calls = one_host(conf, Hypervisor(conf)), threading.Event(), threading.Event(), []
    patient = world.host.policy
    world.host.policy = dataclasses.replace(patient, driver_timeout_s=0.05)

    def hang(*_arguments: Any, **_options: Any) -> Any:
        calls.append(call)
        hung.set()
        goes_on.wait()
        raise OSError("it has come back")

    with monkeypatch.context() as away:
        away.setattr(world.driver, call, hang)
        for _twice in range(2):
            world.reporter.report()
        assert "cannot be read: the driver does not answer" in world.conductor.alarms[HOST]
        assert hung.wait(60)  # a busy machine begins the question late
        assert ([call], True) == (calls, world.host.hangs)
        refused = world.conductor.place(builders.an_instance())
        world.build(refused)
        assert "does not answer" in world.conductor.rescheduled[refused.uuid]["failure"]["message"]
        goes_on.set()
        leftovers.join("driver")
    assert 1 == len(builders.lines(caplog, logging.ERROR))
    world.host.policy = patient
    world.reporter.report()
    assert ("", False) == (world.conductor.alarms[HOST], world.host.hangs)
    built = world.conductor.place(builders.an_instance())
    world.build(built)
    assert states.ACTIVE == world.conductor.rows[built.uuid].vm_state


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([1, 1, 1], [2, 1], id="hosts share a message"),
        pytest.param([3, 1], [3, 1], id="a large host goes by itself, whole"),
        pytest.param([1, 2, 1], [1, 2, 1], id="never a host in two messages"),
    ],
)
def test_batches(sizes: list[int], expected: list[int]) -> None:
    """At most two reports a message here, except for a host that has more."""
    reports = [
        builders.a_report(host=f"host{number}", node=f"node{number}-{node}")
        for number, nodes in enumerate(sizes)
        for node in range(nodes)
    ]
    batches = reporter.batches(reports, size=2)
    assert expected == [len(batch) for batch in batches]
    assert reports == [report for batch in batches for report in batch]
