# SPDX-License-Identifier: Apache-2.0
"""The scheduler's own service record is made, kept alive, and made anew."""

from __future__ import annotations

from typing import Any
from unittest import mock

import oslo_messaging
import pytest

from fleet import errors
from scheduler.peers.registration import Registration


class HostRegistry:
    """Has the hosts that registered; with ``away`` calls time out."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.topics: set[str] = set()
        self.calls: list[str] = []
        self.away = False

    def register_services(self, context: Any, services: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self._answer("register")
        self.topics |= {service["topic"] for service in services}
        self.known |= {service["host"] for service in services}
        return []

    def report_state(
        self,
        context: Any,
        binary: str,
        hosts: list[str],
        incarnation: str,
        rpc_version: str,
        release: str,
        clock_skew_s: float = 0.0,
    ) -> dict[str, list[str]]:
        self._answer("report")
        return {"superseded": [host for host in hosts if host not in self.known]}

    def _answer(self, call: str) -> None:
        self.calls.append(call)
        if self.away:
            raise oslo_messaging.MessagingTimeout()


def test_registers_once_then_beats() -> None:
    """One registration, then heartbeats."""
    conductor = HostRegistry()
    registration = Registration(conductor, "s1")  # type: ignore[arg-type]
    for _beat in range(3):
        registration.beat()
    assert conductor.calls == ["register", "report", "report"]


def test_a_scheduler_of_volumes_registers_with_its_own_topic() -> None:
    """So it is not counted when hosts are divided among schedulers."""
    conductor = HostRegistry()
    Registration(conductor, "s1", topic="volume_scheduler").beat()  # type: ignore[arg-type]
    assert {"volume_scheduler"} == conductor.topics


def test_a_record_that_is_gone_is_made_anew() -> None:
    """An operator removed the record: the answer to a heartbeat shows it, and the next beat registers."""
    conductor = HostRegistry()
    registration = Registration(conductor, "s1")  # type: ignore[arg-type]
    registration.beat()
    conductor.known.clear()
    for _beat in range(2):
        registration.beat()
    assert conductor.calls == ["register", "report", "register"]
    assert conductor.known == {"s1"}


def test_an_absent_conductor_is_asked_again() -> None:
    """After a timeout the registration is repeated at every beat until it is answered."""
    conductor = HostRegistry()
    conductor.away = True
    registration = Registration(conductor, "s1")  # type: ignore[arg-type]
    registration.beat()
    conductor.away = False
    registration.beat()
    assert conductor.calls == ["register", "register"]
    assert conductor.known == {"s1"}


def test_a_conductor_without_its_database_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """Its typed error is a lost heartbeat as a timeout is, not a failed task at each beat."""
    conductor = HostRegistry()
    registration = Registration(conductor, "s1")  # type: ignore[arg-type]
    away = errors.DatabaseUnavailable(kind="DBConnectionError", problem="away")
    with mock.patch.object(conductor, "register_services", side_effect=away):
        for _beat in range(3):
            registration.beat()
    registration.beat()
    assert 1 == len([line for line in caplog.messages if "heartbeats are lost" in line])
    assert ["register"] == conductor.calls
