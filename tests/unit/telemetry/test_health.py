# SPDX-License-Identifier: Apache-2.0
"""The health page over HTTP."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from fleet.service import probes
from fleet.telemetry import conf as telemetry_conf
from fleet.telemetry import health, metrics
from fleet.telemetry.health import HealthServer
from fleet.telemetry.watchdog import Watchdog
from tests.amqp.daemons import eventually
from tests.configuration import configuration


class Broker:
    broken = False

    def __call__(self) -> None:
        if self.broken:
            raise ConnectionError("away")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection of a server that starts later ends for its age."""
    monkeypatch.setattr(health, "LONGEST_S", 1000.0)


@pytest.fixture
def served() -> Iterator[tuple[Broker, Watchdog, str]]:
    broker = Broker()
    watch = Watchdog({"broker": broker}, 10, 30, 0)
    server = HealthServer(watch, "127.0.0.1", 0)
    server.start()
    yield broker, watch, f"http://127.0.0.1:{server.port}"
    server.stop()


def handling() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if "process_request_thread" in each.name]


def test_slow_connections_take_a_few_threads_and_keep_no_probe_out(
    patient: None, served: tuple[Broker, Watchdog, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred that send nothing, or a byte now and then: the oldest gives way."""
    monkeypatch.setattr(health, "EVICTED_AFTER_S", 0.0)
    _broker, _watch, url = served
    place = ("127.0.0.1", int(url.rpartition(":")[2]))
    with contextlib.ExitStack() as slow:
        for _number in range(100):
            slow.enter_context(socket.create_connection(place)).send(b"G")
        assert 200 == requests.get(f"{url}/healthz/live", timeout=5).status_code
        # The threads of replaced connections are ending.
        eventually(lambda: len(handling()) <= health.MOST_CONNECTIONS + 1, timeout_s=30)


def test_a_connection_has_an_end(served: tuple[Broker, Watchdog, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """However it drips."""
    monkeypatch.setattr(health, "LONGEST_S", 0.0)
    with socket.create_connection(("127.0.0.1", int(served[2].rpartition(":")[2])), timeout=30) as slow:
        slow.send(b"G")
        assert b"" == slow.recv(100)


def test_the_page_names_its_daemon() -> None:
    """The pages of two daemons on one machine differ."""
    server = HealthServer(Watchdog({}, 10, 30, 0), "127.0.0.1", 0, {"service": "fleet-scheduler", "host": "h1"})
    server.start()
    try:
        found = requests.get(f"http://127.0.0.1:{server.port}/healthz", timeout=5).json()
    finally:
        server.stop()
    assert ("fleet-scheduler", "h1", True) == (found["service"], found["host"], found["ready"])


def test_services_that_share_a_file_have_ports_of_their_own() -> None:
    """Their ports are as far apart as the option says."""
    conf = configuration(telemetry_conf.register_opts)
    conf.set_override("port", 9100, "health")
    assert [9100, 9120, 9140, 9160, 9180] == [probes.port_of(conf, daemon) for daemon in probes.DAEMONS]


@pytest.mark.parametrize(
    ("path", "broken", "expected"),
    [
        ("/healthz/live", False, 200),
        ("/healthz/live", True, 200),
        ("/healthz/ready", False, 200),
        ("/healthz/ready", True, 503),
        ("/healthz", True, 503),
        ("/healthz/detail?verbose", False, 200),
        ("/metrics", True, 200),
        ("/", False, 404),
    ],
)
def test_status(served: tuple[Broker, Watchdog, str], path: str, broken: bool, expected: int) -> None:
    """Ready fails with the broker, live does not: to start again would not bring the broker back."""
    broker, watch, url = served
    broker.broken = broken
    watch.go_round("broker")
    assert expected == requests.get(url + path, timeout=5).status_code


def test_detail_names_what_is_wrong(served: tuple[Broker, Watchdog, str]) -> None:
    """It has the part and its message."""
    broker, watch, url = served
    broker.broken = True
    watch.go_round("broker")
    said = requests.get(url + "/healthz", timeout=5).json()
    assert (False, "ConnectionError: away") == (said["ready"], said["parts"]["broker"]["problem"])


def test_metrics_are_prometheus_text(served: tuple[Broker, Watchdog, str]) -> None:
    """What was counted is shown, under its full name."""
    metrics.CLAIMS.labels("held").inc(0)
    text = requests.get(served[2] + "/metrics", timeout=5).text
    assert 'fleet_compute_claims_total{result="held"}' in text
    assert "process_resident_memory_bytes" in text


def test_a_taken_port_costs_the_page_only(caplog: Any) -> None:
    """One ERROR that names the option and the port; the daemon goes on."""
    with socket.create_server(("127.0.0.1", 0)) as taken, caplog.at_level(logging.ERROR):
        port = taken.getsockname()[1]
        server = HealthServer(Watchdog({}, 10, 30, 0), "127.0.0.1", port)
        server.start()
        server.stop()
    assert [f"[health] port {port} cannot be opened: Address already in use. There is no health page"] == [
        record.getMessage() for record in caplog.records
    ]


def test_a_port_beyond_the_last_costs_the_page_only(caplog: Any) -> None:
    """With [health] port = 65530 the scheduler's first port would be 65550."""
    with caplog.at_level(logging.ERROR):
        server = HealthServer(Watchdog({}, 10, 30, 0), "127.0.0.1", 65550)
        server.start()
        server.stop()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("[health] port 65550 cannot be opened: ")
