# SPDX-License-Identifier: Apache-2.0
"""An agent from end to end over the brokerless transport: casts in, calls out."""

from __future__ import annotations

import os
import pathlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest
from oslo_messaging import conffixture

from compute_agent import main
from compute_agent.drivers.fake import FakeDriver
from compute_agent.ledger.reporter import Reporter
from compute_agent.work import recovery
from fleet import errors, states
from fleet.agent import beginning
from fleet.rpc import server
from fleet.rpc.clients import SchedulerAPI
from tests.unit.compute_agent import builders
from tests.worlds.agents_over_rpc import LIMIT_S, AgentsOverRpc


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[AgentsOverRpc]:
    conf = builders.a_conf(reserved_host_memory_mb=0, instances_path=str(tmp_path))
    fixture = conffixture.ConfFixture(conf, transport_url=f"local://test-{uuid.uuid4().hex}")
    fixture.setUp()
    world = AgentsOverRpc(conf)
    yield world
    world.close()
    fixture.cleanUp()


def test_an_agent_builds_and_terminates_on_each_of_its_hosts(world: AgentsOverRpc) -> None:
    """One process, three hosts: each has its queue, its report and its instances."""
    hosts = ["h1", "h2", "h3"]
    world.start_agent("h[1-3]")
    assert hosts == sorted(host for host, _ in world.conductor.reports)
    built = {host: world.build(host) for host in hosts}
    for host, instance in built.items():
        assert world.becomes(instance, states.ACTIVE)
        assert host == world.conductor.rows[instance.uuid].host
    world.terminate(built["h2"], "h2")
    assert world.becomes(built["h2"], states.DELETED)


def test_a_beginning_that_is_repeated_ends_no_build(world: AgentsOverRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first report is refused when the host has its queue already. A build has begun meanwhile."""
    monkeypatch.setattr(beginning, "BEGIN_AGAIN_S", 0.0)
    spawn, send, may_end = FakeDriver.spawn, Reporter.send, threading.Event()
    builds: list[Any] = []

    def slow(*arguments: Any) -> None:
        may_end.wait(LIMIT_S)
        spawn(*arguments)

    def refused(_reporter: Reporter, _reports: object) -> None:
        monkeypatch.setattr(Reporter, "send", send)
        builds.append(world.build("h1"))
        assert _eventually(lambda: world.conductor.rows[builds[0].uuid].task_state == states.SPAWNING)
        raise errors.InvalidInput(field="reports", reason="is refused once")

    monkeypatch.setattr(FakeDriver, "spawn", slow)
    monkeypatch.setattr(Reporter, "send", refused)
    world.start_agent("h1")
    may_end.set()
    assert world.becomes(builds[0], states.ACTIVE)
    assert {} == world.conductor.rescheduled


def test_a_beginning_that_is_repeated_reports_once(world: AgentsOverRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads would audit a host at the same time, for as long as the process lives."""
    monkeypatch.setattr(beginning, "BEGIN_AGAIN_S", 0.0)

    failures = [RuntimeError("can't start new thread")]

    def fail(_driver: FakeDriver, _changed: object) -> None:
        if failures:
            raise failures.pop()

    before = set(threading.enumerate())
    monkeypatch.setattr(FakeDriver, "register_event_listener", fail)
    world.start_agent("h1")
    begun = sorted(each.name for each in set(threading.enumerate()) - before)
    assert ["audit", "heartbeat"] == [name for name in begun if name in ("audit", "heartbeat")]


def test_a_host_is_alive_while_its_agent_begins(world: AgentsOverRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a crash has left may take minutes to destroy: a host that counts as down would be fenced with its guests."""
    world.options.set_override("report_interval", 1)
    recover = recovery.recover

    def slowly(*arguments: Any) -> None:
        assert _eventually(lambda: "report_state" in world.conductor.calls)
        recover(*arguments)

    monkeypatch.setattr(recovery, "recover", slowly)
    before = set(threading.enumerate())
    world.start_agent("h1")
    begun = sorted(each.name for each in set(threading.enumerate()) - before)
    assert ["audit", "heartbeat"] == [name for name in begun if name in ("audit", "heartbeat")]


def test_a_host_that_is_taken_over_while_its_agent_begins_is_not_served(
    world: AgentsOverRpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    recover = recovery.recover

    def overtaken(context: Any, host: Any, *arguments: Any) -> None:
        if host.name == "h1":
            host.superseded("Another process serves it now.")
        recover(context, host, *arguments)

    monkeypatch.setattr(recovery, "recover", overtaken)
    agent = world.start_agent("h1", "h2")
    assert [False, True] == [entry.serving for entry in agent._served.values()]


def test_an_order_without_an_agent_is_undeliverable(world: AgentsOverRpc) -> None:
    """A host that no agent ever served has no queue: the order fails at once."""
    with pytest.raises(oslo_messaging.MessageUndeliverable):
        world.build("h1")


def test_an_order_for_an_agent_that_is_gone_fails_at_once(world: AgentsOverRpc) -> None:
    """Its queue goes with it, so that the conductor can try the next host now; the next agent has a queue again."""
    agent = world.start_agent("h1")
    agent.stop()
    agent.wait()
    with pytest.raises(oslo_messaging.MessageUndeliverable):
        world.build("h1")
    world.start_agent("h1")
    assert world.becomes(world.build("h1"), states.ACTIVE)


def test_a_stopping_agent_hands_back_what_it_has_not_begun(world: AgentsOverRpc) -> None:
    """One slot, three builds: the one that is running ends here, the others go elsewhere at once."""
    world.options.set_override("max_concurrent_builds", 1)
    world.options.set_override("spawn_delay", 0.5, group="fake")
    agent = world.start_agent("h1")
    builds = [world.build("h1") for _ in range(3)]
    assert _eventually(lambda: world.conductor.rows[builds[0].uuid].task_state == states.SPAWNING)
    agent.stop()
    agent.wait()
    assert states.ACTIVE == world.conductor.rows[builds[0].uuid].vm_state
    told = {uuid: told["failure"] for uuid, told in world.conductor.rescheduled.items()}
    assert {build.uuid for build in builds[1:]} == told.keys()
    assert {("queue", "AgentStopping")} == {(each["step"], each["code"]) for each in told.values()}


def test_a_second_agent_takes_a_host_over(world: AgentsOverRpc, caplog: pytest.LogCaptureFixture) -> None:
    """The next claim of the first agent is refused with the name of the second.

    The first stops serving the host; the build is not lost.
    """
    first = world.start_agent("h1")
    world.conductor.incarnations["h1"] = "another life"
    world.build("h1")
    told = "Host h1 is served by another process now (started now as pid 1 on elsewhere)."
    assert _eventually(lambda: any(line.startswith(told) for line in builders.lines(caplog)))
    first.stop()
    first.wait()


def test_a_host_is_served_by_one_process_of_a_machine(world: AgentsOverRpc) -> None:
    """A second process is refused with the pid of the first. When that has ended, the next one gets the same identity."""
    first = world.start_agent("h1")
    with pytest.raises(errors.HostTaken) as taken:
        main.build_agents(world.options, world.transport, ["h0", "h1"])
    assert ("h1", os.getpid()) == (taken.value.host, taken.value.kwargs["pid"])
    first.stop()
    first.wait()
    assert "leave" in world.conductor.calls
    world.start_agent("h0", "h1")


def test_a_malformed_order_is_one_line(world: AgentsOverRpc, caplog: pytest.LogCaptureFixture) -> None:
    """The agent says which field is wrong, and goes on."""
    world.start_agent("h1")
    world.build("h1", name="two\nlines")
    good = world.build("h1")
    assert world.becomes(good, states.ACTIVE)
    assert ["Dropping a build order: build.instance.name must not contain control characters"] == [
        line for line in builders.lines(caplog) if "Dropping" in line
    ]
    assert not [record for record in caplog.records if record.exc_info]


def _eventually(ask: Callable[[], bool]) -> bool:
    """Whether ``ask`` came true in time."""
    end = time.monotonic() + LIMIT_S
    while not ask() and time.monotonic() < end:
        threading.Event().wait(0.01)
    return ask()


class Listener:
    """A scheduler that only listens, up to a message about ``the end``."""

    target = oslo_messaging.Target(version="4.2")

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.ended = threading.Event()

    def sync_instance_info(self, context: Any, host_name: str, instance_uuids: list[str]) -> None:
        if host_name == "the end":
            self.ended.set()
        else:
            self.heard.append((host_name, instance_uuids))


@pytest.mark.parametrize(("tracks", "expected"), [(True, [("h1", [])]), (False, [])])
def test_schedulers_are_told_at_start(tracks: bool, expected: list[Any], world: AgentsOverRpc) -> None:
    """Of all that is on a host, unless the operator does not want it."""
    world.options.set_override("scheduler_tracks_instance_changes", tracks)
    listener = Listener()
    scheduler = server.get_server(world.transport, "scheduler", "one", [listener])
    scheduler.start(override_pool_size=1)
    try:
        world.start_agent("h1")
        SchedulerAPI(world.transport, world.options).sync_instance_info(builders.a_context(), "the end", [])
        assert listener.ended.wait(LIMIT_S)
        assert expected == listener.heard
    finally:
        scheduler.stop()
        scheduler.wait()
