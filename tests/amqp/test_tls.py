# SPDX-License-Identifier: Apache-2.0
"""TLS to the broker: a trusted authority must sign its certificate, and the certificate must name its host."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
import trustme

from fleet_trial import private_servers
from fleet_trial.private_servers import RabbitMQ
from tests.amqp.daemons import eventually

pytestmark = pytest.mark.long
REFUSED = ["not reachable", "no answer"]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module", params=["localhost", "elsewhere.example"])
def node(request: pytest.FixtureRequest, authority: trustme.CA) -> Iterator[tuple[str, RabbitMQ]]:
    """A broker with a certificate for the host of the parameter."""
    issued = authority.issue_cert(request.param)
    chain = "".join(pem.bytes().decode() for pem in issued.cert_chain_pems)
    certificate = private_servers.Certificate(chain, issued.private_key_pem.bytes().decode())
    try:
        with private_servers.rabbitmq_node(certificate) as node:
            yield request.param, node
    except private_servers.ServerMissing as missing:
        if os.environ.get("CI") == "true" or os.environ.get("FLEET_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def echo(directory: pathlib.Path, node: RabbitMQ, ca_file: pathlib.Path | None) -> list[str]:
    """The output of a program that talks to the broker with TLS."""
    config = directory / "fleet.conf"
    trusted = f"ssl_ca_file = {ca_file}\n" if ca_file else ""
    config.write_text(
        f"[DEFAULT]\ntransport_url = rabbit://guest:{node.password}@localhost:{node.tls_port}/\n"
        f"[oslo_messaging_rabbit]\nssl = true\n{trusted}[health]\nround_trip_limit = 8\n"
    )
    program = pathlib.Path(__file__).parent / "tls_echo.py"
    command = [sys.executable, "-u", str(program), "--config-file", str(config)]
    printed = directory / "printed"
    with printed.open("w") as output:
        program_ = subprocess.Popen(command, stdout=output)
    try:
        eventually(lambda: printed.read_text().endswith(("answer\n", "answered\n")))
    finally:
        # It may go on trying to connect, as a daemon does.
        program_.kill()
        program_.wait()
    return [line for line in printed.read_text().splitlines() if line.endswith(("reachable", "answer", "answered"))]


def test_only_the_right_broker_is_talked_to(
    tmp_path: pathlib.Path, node: tuple[str, RabbitMQ], authority: trustme.CA
) -> None:
    """A certificate for another host, or of an unknown authority, is refused, also without ssl_ca_file."""
    name, broker = node
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    if name == "localhost":
        assert ["reachable", "answered"] == echo(tmp_path, broker, ca_file)
        assert REFUSED == echo(tmp_path, broker, None)
    else:
        assert REFUSED == echo(tmp_path, broker, ca_file)
