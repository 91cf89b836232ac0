# SPDX-License-Identifier: Apache-2.0
"""Schedulers are told what comes to a host and leaves it, and nothing depends on it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from compute_agent import termination
from compute_agent.instance_info import InstanceInfo
from tests.unit.compute_agent import builders


class FakeScheduler:
    """What it was told, in order; raises ``error`` instead if there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.told: list[tuple[Any, ...]] = []
        self._error = error

    def _hear(self, *what: Any) -> None:
        if self._error is not None:
            raise self._error
        self.told.append(what)

    def update_instance_info(self, context: Any, host_name: str, instance_info: list[dict[str, Any]]) -> None:
        self._hear("update", host_name, [(info["uuid"], info["node"], info["vm_state"]) for info in instance_info])

    def delete_instance_info(self, context: Any, host_name: str, instance_uuid: str) -> None:
        self._hear("delete", host_name, instance_uuid)

    def sync_instance_info(self, context: Any, host_name: str, instance_uuids: list[str]) -> None:
        self._hear("sync", host_name, instance_uuids)


def a_telling_stand(scheduler: FakeScheduler) -> tuple[builders.Stand, InstanceInfo]:
    """An agent's parts whose ledger tells ``scheduler``."""
    stand, told = builders.a_stand(), InstanceInfo(scheduler)  # type: ignore[arg-type]
    stand.ledger._told = told
    return stand, told


def test_what_is_told() -> None:
    """A build that is over, all that is there, and an instance that is gone; each once the ledger has it."""
    scheduler = FakeScheduler()
    stand, told = a_telling_stand(scheduler)
    instance = stand.conductor.place(builders.an_instance())
    stand.build(instance)
    told.sync([stand.host])
    termination.terminate(builders.a_context(), stand.host, stand.ledger, instance.uuid)
    told.sync([stand.host])
    host, node = stand.host.name, stand.tracker.node
    expected = [
        ("update", host, [(instance.uuid, node, "active")]),
        ("sync", host, [instance.uuid]),
        ("delete", host, instance.uuid),
        ("sync", host, []),
    ]
    assert expected == scheduler.told


def test_a_build_that_fails_is_not_told() -> None:
    """It never was there."""
    scheduler = FakeScheduler()
    stand, _told = a_telling_stand(scheduler)
    stand.build(builders.an_instance())  # the ledger knows of no such build
    assert [] == scheduler.told


def test_nobody_need_listen(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that is away is one line; the build goes on."""
    caplog.set_level(logging.INFO)
    stand, told = a_telling_stand(FakeScheduler(ConnectionError("no broker")))
    instance = stand.conductor.place(builders.an_instance())
    stand.build(instance)
    told.sync([stand.host, stand.host])
    assert "active" == stand.conductor.rows[instance.uuid].vm_state
    said = "The schedulers were not told (ConnectionError: no broker); they will read it"
    assert 2 == builders.lines(caplog).count(said)
