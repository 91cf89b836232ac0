# SPDX-License-Identifier: Apache-2.0
"""An agent from end to end over the brokerless transport: casts in, calls out."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from compute_agent import main
from compute_agent.agent import Agent
from fleet import errors, states
from fleet.objects import FailedAttempt, Instance
from fleet.rpc import endpoint, server, versions
from fleet.rpc import transport as rpc_transport
from fleet.rpc.clients import ComputeAPI, SchedulerAPI
from tests.unit.compute_agent import builders
from tests.worlds.agent_ledger import FakeConductor
from tests.worlds.move_ledger import FakeMoves

LIMIT_S = 10.0


class Endpoint:
    """Puts ``conductor`` behind a topic and tells of each call when it has been answered."""

    def __init__(
        self, conductor: FakeConductor | FakeMoves, answered: threading.Condition, namespace: str | None
    ) -> None:
        self.target = oslo_messaging.Target(version=versions.CURRENT["conductor"], namespace=namespace)
        self._conductor = conductor
        self._answered = answered

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._conductor, name)

        @endpoint.expected_errors
        def call(*args: Any, **kwargs: Any) -> Any:
            if name in ("reschedule", "abort_build"):
                parts = {each.name: kwargs.pop(each.name) for each in dataclasses.fields(FailedAttempt)}
                kwargs["failed"] = FailedAttempt(**parts)
            try:
                return method(*args, **kwargs)
            finally:
                with self._answered:
                    self._answered.notify_all()

        return call


class World:
    """A conductor in memory behind RPC, and agents started beside it."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.options = conf
        self.transport = rpc_transport.get_transport(conf)
        self.conductor = FakeConductor()
        self._answered = threading.Condition()
        endpoints = [Endpoint(self.conductor, self._answered, namespace) for namespace in (None, "compute_task")]
        endpoints.append(Endpoint(FakeMoves(), self._answered, "migration"))
        self._server = server.get_server(self.transport, "conductor", "one", endpoints)
        self._server.start()
        self._agents: list[Agent] = []

    def start_agent(self, *hosts: str) -> Agent:
        agent = main.build_agents(self.options, self.transport, hosts)
        self._agents.append(agent)
        agent.start()
        assert agent.ready.wait(LIMIT_S)
        return agent

    def build(self, host: str, **values: Any) -> Instance:
        """A row that is being placed, and its order on the way to ``host``."""
        instance = self.conductor.place(builders.an_instance(**values))
        ComputeAPI(self.transport, self.options).build_and_run_instance(
            builders.a_context(),
            host,
            instance=instance.to_wire(),
            node=host,
            limits={},
            attempt=1,
            deadline=None,
            alternates=[],
            filter_properties={},
        )
        return instance

    def terminate(self, instance: Instance, host: str) -> None:
        self.conductor.put(self.conductor.rows[instance.uuid], task_state=states.DELETING)
        ComputeAPI(self.transport, self.options).terminate_instance(builders.a_context(), host, instance.uuid)

    def becomes(self, instance: Instance, vm_state: str) -> bool:
        with self._answered:
            return self._answered.wait_for(
                lambda: self.conductor.rows[instance.uuid].vm_state == vm_state, timeout=LIMIT_S
            )

    def close(self) -> None:
        for agent in self._agents:
            agent.stop()
            agent.wait()
        self._server.stop()
        self._server.wait()
        self.transport.cleanup()


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    conf = builders.a_conf(reserved_host_memory_mb=0, instances_path=str(tmp_path))
    fixture = conffixture.ConfFixture(conf, transport_url=f"local://test-{uuid.uuid4().hex}")
    fixture.setUp()
    world = World(conf)
    yield world
    world.close()
    fixture.cleanUp()


def test_an_agent_builds_and_terminates_on_each_of_its_hosts(world: World) -> None:
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


def test_an_order_without_an_agent_is_undeliverable(world: World) -> None:
    """A host that no agent ever served has no queue: the order fails at once."""
    with pytest.raises(oslo_messaging.MessageUndeliverable):
        world.build("h1")


def test_an_order_for_an_agent_that_is_gone_fails_at_once(world: World) -> None:
    """Its queue goes with it, so that the conductor can try the next host now; the next agent has a queue again."""
    agent = world.start_agent("h1")
    agent.stop()
    agent.wait()
    with pytest.raises(oslo_messaging.MessageUndeliverable):
        world.build("h1")
    world.start_agent("h1")
    assert world.becomes(world.build("h1"), states.ACTIVE)


def test_a_stopping_agent_hands_back_what_it_has_not_begun(world: World) -> None:
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


def test_a_second_agent_takes_a_host_over(world: World, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_host_is_served_by_one_process_of_a_machine(world: World) -> None:
    """A second process is refused with the pid of the first. When that has ended, the next one gets the same identity."""
    first = world.start_agent("h1")
    with pytest.raises(errors.HostTaken) as taken:
        main.build_agents(world.options, world.transport, ["h0", "h1"])
    assert ("h1", os.getpid()) == (taken.value.host, taken.value.kwargs["pid"])
    first.stop()
    first.wait()
    assert "leave" in world.conductor.calls
    world.start_agent("h0", "h1")


def test_a_malformed_order_is_one_line(world: World, caplog: pytest.LogCaptureFixture) -> None:
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
def test_schedulers_are_told_at_start(tracks: bool, expected: list[Any], world: World) -> None:
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
