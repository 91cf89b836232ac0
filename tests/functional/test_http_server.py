# SPDX-License-Identifier: Apache-2.0
"""Slow and greedy clients of fleet-api: they lose their connections, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fleet_api import conf as api_conf
from fleet_api.own.events import Streams
from fleet_api.serving.http_server import HTTPServer
from fleet_trial.private_servers.process import free_ports
from tests.configuration import configuration
from tests.many_files import many_files  # noqa: F401  (a fixture)


def answer(_environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server with few connections for an address, and a second for a request."""
    conf = configuration(api_conf.register_opts)
    (found,) = free_ports(1)
    for name, value in {
        "port": found,
        "request_timeout": 1,
        "connections_per_address": 5,
        "connection_limit": 50,
        "auth_strategy": "http_basic",
    }.items():
        conf.set_override(name, value, "api")
    server = HTTPServer(answer, conf, Streams(2))
    server.start()
    yield found
    server.stop()
    server.wait()


def get(port: int, source: str = "127.0.0.1") -> int:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, 30, (source, 0))) as connection:
        connection.request("GET", "/")
        return connection.getresponse().status


def is_closed(connection: socket.socket, patience_s: float = 60) -> bool:
    """Whether the server closes the connection in time."""
    connection.settimeout(patience_s)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9999\r\n\r\nab"]
)
def test_a_request_that_never_comes_whole(port: int, sent: bytes) -> None:
    """Neither its beginning nor its headers nor its body may take for ever, also if a byte comes now and then."""
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(sent)
        end = time.monotonic() + 60
        with contextlib.suppress(ConnectionError):
            while sent and time.monotonic() < end:
                slow.sendall(b"x")
                slow.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    assert b"" == slow.recv(1)
                    break
        assert is_closed(slow)


def test_a_connection_that_is_kept_alive_is_not_closed(port: int) -> None:
    """Between two requests only the limit for idle connections counts."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, 30)) as connection:
        for pause_s in (2.5, 0):
            connection.request("GET", "/")
            assert b"ok" == connection.getresponse().read()
            time.sleep(pause_s)


def test_an_address_has_so_many_connections(port: int) -> None:
    """Further ones are closed; other addresses are served."""
    held = [socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)) for _ in range(5)]
    try:
        with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)) as more:
            assert is_closed(more)
        assert 200 == get(port, "127.0.0.3")
    finally:
        for each in held:
            each.close()


def test_a_process_with_many_open_files(port: int, many_files: None) -> None:  # noqa: F811
    """A connection whose number is above those that select() knows is served, and so are later ones."""
    assert [200, 200] == [get(port) for _connection in range(2)]
