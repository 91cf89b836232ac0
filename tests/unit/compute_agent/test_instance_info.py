# SPDX-License-Identifier: Apache-2.0
"""Schedulers get hints about arrivals and departures of instances; correctness does not depend on them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from compute_agent.ledger import instance_info
from compute_agent.ledger.instance_info import InstanceInfo, Later
from compute_agent.work import termination
from tests.unit.compute_agent import builders
from tests.worlds.one_host import OneHost, one_host


class FakeScheduler:
    """Stores its messages in order, or raises ``error`` if it is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.requests: list[str] = []
        self._error = error

    def _hear(self, *what: Any) -> None:
        if self._error is not None:
            raise self._error
        self.told.append(what)

    def update_instance_info(self, context: Any, instance_info: list[dict[str, Any]]) -> None:
        said = [(info["host"], info["uuid"], info["node"], info["vm_state"]) for info in instance_info]
        self.requests.append(context.request_id)
        self._hear("update", said)

    def delete_instance_info(self, context: Any, host_name: str, instance_uuid: str) -> None:
        self._hear("delete", host_name, instance_uuid)

    def sync_instance_info(self, context: Any, host_name: str, instance_uuids: list[str]) -> None:
        self._hear("sync", host_name, instance_uuids)


def at_once(_seconds: float, work: Callable[[], None]) -> None:
    work()


class Moments:
    """Deferred work, which runs when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        assert instance_info.GATHER_S == seconds
        self.waiting.append(work)

    def passed(self) -> None:
        due, self.waiting = self.waiting, []
        for work in due:
            work()


def a_telling_host(scheduler: FakeScheduler, later: Later = at_once) -> tuple[OneHost, InstanceInfo]:
    """An agent's parts whose ledger calls send hints to ``scheduler``."""
    world, told = one_host(), InstanceInfo(scheduler, later)  # type: ignore[arg-type]
    world.ledger._told = told
    return world, told


def test_what_is_told() -> None:
    """A build that is over, all that is there, and an instance that is gone; each once the ledger has it."""
    scheduler = FakeScheduler()
    world, told = a_telling_host(scheduler)
    instance = world.conductor.place(builders.an_instance())
    world.build(instance)
    told.sync([world.host])
    termination.terminate(builders.a_context(), world.host, world.ledger, instance.uuid)
    told.sync([world.host])
    host, node = world.host.name, world.tracker.node
    expected = [
        ("update", [(host, instance.uuid, node, "active")]),
        ("sync", host, [instance.uuid]),
        ("delete", host, instance.uuid),
        ("sync", host, []),
    ]
    assert expected == scheduler.told


def test_what_arrives_in_a_moment_is_told_together() -> None:
    """One message, under a request id of its own, has all arrivals; instances that have left again are not in it."""
    scheduler, moments = FakeScheduler(), Moments()
    told = InstanceInfo(scheduler, moments.later)  # type: ignore[arg-type]
    one, other, short = (builders.an_instance(host=f"h{number}", node="n") for number in (1, 2, 3))
    context = builders.a_context()
    for instance in (one, other, short):
        told.arrived(context, instance)
    told.gone(context, "h3", short.uuid)
    moments.passed()
    told.arrived(context, one)
    moments.passed()
    ((_delete, *gone), (_update, said), (_update_too, alone)) = scheduler.told
    assert ["h3", short.uuid] == gone
    assert [("h1", one.uuid, "n"), ("h2", other.uuid, "n")] == [each[:3] for each in said]
    assert [one.uuid] == [each[1] for each in alone]
    assert [False, True] == [request == context.request_id for request in scheduler.requests]


def test_what_has_gone_again_is_not_told() -> None:
    scheduler, moments = FakeScheduler(), Moments()
    told = InstanceInfo(scheduler, moments.later)  # type: ignore[arg-type]
    instance = builders.an_instance(host="h1")
    told.arrived(builders.a_context(), instance)
    told.gone(builders.a_context(), "h1", instance.uuid)
    moments.passed()
    assert [("delete", "h1", instance.uuid)] == scheduler.told


def test_it_is_told_at_once_if_there_is_no_thread_for_it() -> None:
    def refused(_seconds: float, _work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    scheduler = FakeScheduler()
    told = InstanceInfo(scheduler, refused)  # type: ignore[arg-type]
    for _again in range(2):
        told.arrived(builders.a_context(), builders.an_instance(host="h1"))
    assert ["update", "update"] == [what for what, *_said in scheduler.told]


def test_it_is_told_soon() -> None:
    """By a thread that does it after the moment."""
    scheduler = FakeScheduler()
    heard = threading.Event()
    scheduler.update_instance_info = lambda *_said: heard.set()  # type: ignore[method-assign]
    InstanceInfo(scheduler).arrived(builders.a_context(), builders.an_instance(host="h1"))  # type: ignore[arg-type]
    assert heard.wait(10)


def test_a_build_that_fails_is_not_told() -> None:
    """It never was there."""
    scheduler = FakeScheduler()
    world, _told = a_telling_host(scheduler)
    world.build(builders.an_instance())  # the ledger knows of no such build
    assert [] == scheduler.told


def test_nobody_need_listen(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that is away is one line; the build goes on."""
    caplog.set_level(logging.INFO)
    world, told = a_telling_host(FakeScheduler(ConnectionError("no broker")))
    instance = world.conductor.place(builders.an_instance())
    world.build(instance)
    told.sync([world.host, world.host])
    assert "active" == world.conductor.rows[instance.uuid].vm_state
    said = "Cannot send a hint to the schedulers (ConnectionError: no broker); they will read the change feed"
    assert 2 == builders.lines(caplog).count(said)
