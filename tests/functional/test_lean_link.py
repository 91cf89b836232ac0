# SPDX-License-Identifier: Apache-2.0
"""A connection of the lean driver to a broker that stands still: neither a write nor a read lasts for ever."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Iterator

import amqp
import psutil
import pytest
import trustme

from fleet.rpc.rabbit.lean import link
from fleet.rpc.rabbit.lean.settings import Settings
from fleet_trial import private_servers
from tests.chaos.proxy import Proxy, to_port
from tests.chaos.servers import proxied
from tests.functional.test_lean_driver import LEAN, opened
from tests.functional.test_lean_survival import frame

FRAME_S = 1.0
#: Far more than a socket's buffers.
MESSAGE = bytes(2**25)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def node(authority: trustme.CA) -> Iterator[private_servers.RabbitMQ]:
    """A broker that tests let stand still."""
    issued = authority.issue_cert("localhost")
    chain = "".join(pem.bytes().decode() for pem in issued.cert_chain_pems)
    certificate = private_servers.Certificate(chain, issued.private_key_pem.bytes().decode())
    with private_servers.rabbitmq_node(certificate) as made:
        yield made


@pytest.fixture(params=["tcp", "tls"])
def connection(
    request: pytest.FixtureRequest,
    authority: trustme.CA,
    node: private_servers.RabbitMQ,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[link.Link]:
    """A connection, whose broker then stands still."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setattr(link, "FRAME_S", FRAME_S)
    port, more = node.port, ""
    if request.param == "tls":
        port, more = node.tls_port, f"?ssl=1&ssl_ca_file={tmp_path}/ca.pem"
    with opened(f"rabbit://guest:{node.password}@localhost:{port}/{more}", LEAN) as bus:
        settings = Settings.parse(bus.conf, bus._driver._url)
        made = link.opened_to(settings.brokers[0], settings)
    parent = psutil.Process(node.pid)
    processes = [parent, *parent.children(recursive=True)]
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.suspend()
    while any(_runs(each) for each in processes):
        time.sleep(0.01)
    yield made
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.resume()
    made.close()


def _runs(process: psutil.Process) -> bool:
    """Return False of one that has ended meanwhile: the broker looks at its disk with short programs."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    return False


@pytest.mark.long  # the node of its own takes 13 s of processor time to start
def test_a_write_ends(connection: link.Link) -> None:
    """With an error, after which the driver opens another connection."""
    began = time.monotonic()
    with pytest.raises(OSError), connection.lock:
        connection.write(MESSAGE)
    assert FRAME_S <= time.monotonic() - began + 0.1


@pytest.mark.long
def test_a_read_ends(connection: link.Link) -> None:
    """One that waits for an answer."""
    with pytest.raises(OSError), connection.lock:
        connection.connection.channel()


@pytest.fixture
def behind_a_proxy(broker: private_servers.RabbitMQ) -> Iterator[tuple[link.Link, Proxy]]:
    with proxied(to_port(broker.port)) as between:
        with opened(f"rabbit://guest:{broker.password}@localhost:{between.port}/", LEAN) as bus:
            settings = Settings.parse(bus.conf, bus._driver._url)
        made = link.opened_to(settings.brokers[0], settings)
        made._heard_at -= made.connection.heartbeat
        made._beat_at = 0.0
        yield made, between
        made.close()


@pytest.mark.long
def test_a_silent_broker_is_lost_after_the_limit_of_heartbeats(behind_a_proxy: tuple[link.Link, Proxy]) -> None:
    """Not after twice the limit."""
    with pytest.raises(amqp.exceptions.ConnectionForced, match="silent for 1"):
        behind_a_proxy[0].heartbeat()


def test_a_process_that_was_slow_reads_before_it_calls_the_broker_silent(
    behind_a_proxy: tuple[link.Link, Proxy],
) -> None:
    """A heartbeat has come, and no thread has read it yet."""
    made, between = behind_a_proxy
    between.inject(frame(8, 0, b""))
    while not made.wait(1.0):
        pass
    before = made._heard_at
    made.heartbeat()
    made.read()
    assert made._heard_at > before
