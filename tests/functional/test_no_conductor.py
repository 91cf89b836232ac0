# SPDX-License-Identifier: Apache-2.0
"""Commands on a live broker where no conductor takes messages: they do not wait for an answer."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Callable, Iterator
from urllib import parse

import kombu
import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet.client import connection
from fleet_cli import main
from fleet_trial import private_servers

#: Longer than the time limit of a test: a command that waits for an answer fails it.
FOR_EVER_S = 3600
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture) -> Iterator[Run]:
    """Runs ``fleet`` on a broker; returns the exit status and what was printed."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def run_fleet(url: str, *argv: str) -> tuple[int, str]:
        config = tmp_path / "fleet.conf"
        config.write_text(f"[DEFAULT]\ntransport_url = {url}\nrpc_response_timeout = {FOR_EVER_S}\n")
        conf = cfg.ConfigOpts()
        # oslo.messaging registers some of its options on the global configuration only.
        conffixture.ConfFixture(conf)
        status = main.FleetApp(conf).run(["--config-file", str(config), *argv])
        return status, "".join(capsys.readouterr())

    yield run_fleet
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="module")
def quiet_url(broker: private_servers.RabbitMQ) -> str:
    """URL of a virtual host that no other test uses."""
    return broker.vhost("no-conductor")


@pytest.fixture(params=["no queue", "a queue that a conductor has left"])
def deserted(request: pytest.FixtureRequest, quiet_url: str) -> Iterator[str]:
    """A broker without a conductor."""
    if request.param == "no queue":
        yield quiet_url
        return
    with kombu.Connection(quiet_url.replace("rabbit://", "amqp://")) as connection:
        channel = connection.channel()
        channel.queue_declare("conductor", durable=True, auto_delete=False)
        yield quiet_url
        channel.queue_delete("conductor")


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["server", "list"], id="list"),
        pytest.param(["boot", "--flavor", "small", "web"], id="boot"),
        pytest.param(["server", "delete", "web"], id="delete"),
        pytest.param(["explain", "web"], id="explain"),
    ],
)
def test_nobody_takes_messages(run: Run, deserted: str, argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command names the daemon that is missing."""
    monkeypatch.setattr(connection, "TAKER_TIMEOUT_S", 0.1)
    status, said = run(deserted, *argv)
    assert 1 == status
    assert "no daemon serves topic conductor; start fleet-conductor" in said


def test_a_wrong_password_is_refused_once(run: Run, quiet_url: str) -> None:
    """In one line: trying again would not help."""
    parts = parse.urlsplit(quiet_url)
    wrong = quiet_url.replace(f":{parts.password}@", ":wrong@")
    status, said = run(wrong, "server", "list")
    assert 1 == status
    assert 1 == len(said.strip().splitlines())
    assert f"{parts.hostname}:{parts.port}" in said
    assert "ACCESS_REFUSED" in said
    assert "check transport_url" in said


def test_a_dead_broker_is_named(run: Run) -> None:
    """A person is not kept waiting for a broker that is not there."""
    status, said = run("rabbit://127.0.0.1:1/", "server", "list")
    assert 1 == status
    assert "no message broker accepts a connection: 127.0.0.1:1 (Connection refused)" in said
