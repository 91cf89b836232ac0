# SPDX-License-Identifier: Apache-2.0
"""Slow, greedy and vanished clients of fleet-api: they lose their connections, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from fleet_api import conf as api_conf
from fleet_api.own.events import Streams
from fleet_api.serving.http_server import HTTPServer
from fleet_trial.private_servers.process import free_ports
from tests.configuration import configuration
from tests.many_files import many_files  # noqa: F401  (a fixture)

#: More than the kernels of both sides keep, and with another of its kind more than waitress keeps.
LARGE = 12_000_000
#: As the whole body, which is one piece, and as one of many pieces.
WHOLE, PIECES = b"GET /whole HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n"


class Application:
    """Answers ``ok``, or much."""

    def __init__(self) -> None:
        #: The paths of requests that were begun, and how many answers in pieces, or without an end, have ended.
        self.begun: list[str] = []
        self.ended = threading.Semaphore(0)

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        self.begun.append(path)
        if path == "/pieces":
            start_response("200 OK", [])
            return self._pieces()
        if path == "/endless":
            start_response("200 OK", [])
            return self._endless(environ["waitress.client_disconnected"])
        body = bytes(LARGE) if path == "/whole" else b"ok"
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]

    def _pieces(self) -> Iterator[bytes]:
        try:
            for _piece in range(4):
                yield bytes(LARGE)
        finally:
            self.ended.release()

    def _endless(self, has_gone: Callable[[], bool]) -> Iterator[bytes]:
        """Say something once, then nothing while the client is there."""
        yield b"first"
        while not has_gone():
            time.sleep(0.01)
        self.ended.release()


@contextlib.contextmanager
def serving(application: Application, **options: object) -> Iterator[int]:
    """The port of a server with few connections for an address."""
    conf = configuration(api_conf.register_opts)
    (found,) = free_ports(1)
    given = {"port": found, "connections_per_address": 5, "connection_limit": 50, "auth_strategy": "http_basic"}
    for name, value in {**given, **options}.items():
        conf.set_override(name, value, "api")
    server = HTTPServer(application, conf, Streams(2))
    server.start()
    try:
        yield found
    finally:
        server.stop()
        server.wait()


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
def port(application: Application) -> Iterator[int]:
    """Of a server with a second for a request."""
    with serving(application, request_timeout=1) as found:
        yield found


def get(port: int, source: str = "127.0.0.1") -> int:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, 30, (source, 0))) as connection:
        connection.request("GET", "/")
        return connection.getresponse().status


def greedy(port: int, source: str, sent: bytes) -> socket.socket:
    """A client that asks for much and does not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.bind((source, 0))
    connection.connect(("127.0.0.1", port))
    connection.sendall(sent)
    return connection


def is_cut(connection: socket.socket, patience_s: float = 60) -> bool:
    """Whether the server ends the connection in time, though nothing is read."""
    waiting = select.poll()
    waiting.register(connection, 0)
    return bool(waiting.poll(patience_s * 1000))


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


def test_clients_that_read_no_answer_take_no_thread(application: Application) -> None:
    """Each has one answer at a time, however many requests it sends at once. It gets the others when it reads."""
    sources = [f"127.0.0.{number}" for number in range(2, 8)]
    with serving(application, threads=2) as port, contextlib.ExitStack() as held:
        clients = [held.enter_context(greedy(port, source, 5 * WHOLE)) for source in sources]
        assert [200] * 5 == [get(port, "127.0.0.9") for _request in range(5)]
        assert len(sources) >= application.begun.count("/whole")
        with clients[0].makefile("rb") as answers:
            for _answer in range(5):
                headers = http.client.parse_headers(answers) if b"200 OK" in answers.readline() else {}
                assert LARGE == len(answers.read(int(headers["Content-Length"])))


@pytest.mark.parametrize("sent", [WHOLE, 5 * WHOLE], ids=["nothing waits", "requests wait"])
def test_a_client_that_takes_nothing(application: Application, sent: bytes) -> None:
    """Its connection is closed like an idle one, also while requests wait behind the answer."""
    with serving(application, idle_timeout=1) as port, greedy(port, "127.0.0.2", sent) as client:
        assert is_cut(client)
    assert ["/whole"] == application.begun


def test_a_thread_whose_client_takes_nothing(application: Application) -> None:
    """It waits for room in the middle of an answer. It is free when the connection is closed."""
    with serving(application, idle_timeout=1) as port, greedy(port, "127.0.0.2", PIECES) as client:
        assert is_cut(client)
        assert application.ended.acquire(timeout=60)


def test_a_client_that_reads_slowly(application: Application) -> None:
    """It may take longer than an idle connection lasts, if it goes on reading."""
    with serving(application, idle_timeout=2) as port, greedy(port, "127.0.0.2", WHOLE) as client:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            assert client.recv(8192)
            time.sleep(0.05)
        assert not is_cut(client, 0)


@pytest.mark.parametrize("behind", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["nothing", "a request"])
def test_a_client_that_has_gone(application: Application, behind: bytes) -> None:
    """An answer that has nothing to say can see it, whatever the client sent behind its request. One that waits goes on."""
    with serving(application) as port:
        with socket.create_connection(("127.0.0.1", port), 30) as client, client.makefile("rb") as answer:
            client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n" + behind)
            while b"first" not in answer.readline():
                pass
            assert not application.ended.acquire(timeout=0.1)
        assert application.ended.acquire(timeout=60)


def test_a_request_that_waits_for_a_word_before_its_body(port: int) -> None:
    """It is asked for the body. One without a body is answered, and one whose body is too long is refused, at once."""
    for length, expected in ((None, b"200 OK"), (0, b"200 OK"), (2, b"100 Continue"), (999_999_999, b"413 ")):
        sent = b"" if length is None else b"Content-Length: %d\r\n" % length
        with socket.create_connection(("127.0.0.1", port), 30) as client, client.makefile("rb") as answer:
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n%s\r\n" % sent)
            assert answer.readline().startswith(b"HTTP/1.1 " + expected), length
            if length == 2:
                client.sendall(b"ab")
                assert [b"\r\n", b"HTTP/1.1 200 OK\r\n"] == [answer.readline() for _line in range(2)]
