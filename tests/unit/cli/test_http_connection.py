# SPDX-License-Identifier: Apache-2.0
"""Calls over HTTP: a real client, a real server and the application of fleet-api, with a conductor in memory behind them."""

from __future__ import annotations

import json
import pathlib
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from wsgiref import simple_server

import bcrypt
import oslo_messaging
import pytest
from oslo_config import cfg

from fleet import errors
from fleet.client.calls import CommandFailed
from fleet.client.http_connection import HttpConnection
from fleet_api import conf as api_conf
from fleet_api.application import application
from fleet_api.requests import calls as api_calls
from tests.configuration import configuration

Answer = Callable[..., Any]


class Remote(errors.NotFound):
    """As oslo.messaging raises an error of another process."""


Remote.__name__ = "NotFound_Remote"


class FakeCalls(api_calls.Calls):
    """``answer_with`` answers each call; ``taken`` are context and arguments."""

    def __init__(self) -> None:
        self.taken: list[tuple[Any, dict[str, Any]]] = []
        self.answer_with: Answer = lambda *_: {"well": "done"}
        self._operator = self  # type: ignore[assignment]
        self._bus = SimpleNamespace(_driver=None)  # type: ignore[assignment]
        self._known = {("compute_task", "create"): self.create, ("scheduler", "explain"): self._explain}

    def call(self, context: Any, method: str, **arguments: Any) -> Any:
        self.taken.append((context, {"method": method, **arguments}))
        return self.answer_with()

    def create(self, context: Any, request: dict[str, Any], client_token: str | None = None) -> Any:
        return self.call(context, "create", request=request, client_token=client_token)

    def _explain(self, context: Any, request_spec: dict[str, Any], best: int) -> Any:
        return self.call(context, "explain", request_spec=request_spec, best=best)


class Called:
    def __init__(self) -> None:
        self.calls = FakeCalls()


class _Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *_args: object) -> None:
        """Not in the log of the test."""


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    return configuration(api_conf.register_opts)


@pytest.fixture
def conductor() -> Called:
    return Called()


@pytest.fixture
def url(conductor: Called, conf: cfg.ConfigOpts) -> Iterator[str]:
    app = application(conductor, conf)  # type: ignore[arg-type]
    with simple_server.make_server("127.0.0.1", 0, app, handler_class=_Quiet) as served:  # type: ignore[arg-type]
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


@pytest.fixture
def there(url: str) -> Iterator[HttpConnection]:
    made = HttpConnection(url + "/")
    yield made
    made.close()


def test_a_call(there: HttpConnection, conductor: Called) -> None:
    """With the project and the user that it is for, and a request id; by default for nobody."""
    assert {"well": "done"} == there.ask("list_hosts")
    there.act_for("web", "alice")
    there.create({"name": "x"}, "mine")
    (first, listed), (second, created) = conductor.calls.taken
    assert ({"method": "list_hosts"}, None) == (listed, first.project_id)
    assert {"method": "create", "request": {"name": "x"}, "client_token": "mine"} == created
    assert ("web", "alice") == (second.project_id, second.user_id)
    assert second.request_id.startswith("req-")


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (Remote(kind="Instance", name="web"), errors.NotFound, "Instance web"),
        (errors.InvalidInput(field="x", reason="is wrong"), errors.InvalidInput, "x is wrong"),
        (oslo_messaging.MessagingTimeout("late"), oslo_messaging.MessagingTimeout, "late"),
        (oslo_messaging.MessageDeliveryFailure("nobody"), oslo_messaging.MessageDeliveryFailure, "nobody"),
        (oslo_messaging.RemoteError("KeyError", "k"), oslo_messaging.RemoteError, "KeyError"),
        (oslo_messaging.RemoteError("NoSuchMethod", "none such"), oslo_messaging.RemoteError, "none such"),
    ],
)
def test_failures_are_those_of_the_broker(
    there: HttpConnection, conductor: Called, failure: Exception, kind: type[Exception], message: str
) -> None:
    """So a command does not care which way its calls take."""

    def fail() -> Any:
        raise failure

    conductor.calls.answer_with = fail
    with pytest.raises(kind, match=message) as raised:
        there.ask("show_instance", name="web")
    assert kind is type(raised.value)


def test_a_request_whose_answer_is_lost_is_repeated_with_its_token(there: HttpConnection, conductor: Called) -> None:
    answers = iter([oslo_messaging.MessagingTimeout("late"), None])

    def once_late() -> Any:
        if failure := next(answers):
            raise failure
        return {"instances": []}

    conductor.calls.answer_with = once_late
    assert {"instances": []} == there.create({"name": "x"})
    first, second = (arguments["client_token"] for _, arguments in conductor.calls.taken)
    assert (first, 36) == (second, len(second))


def test_wrong_arguments_are_named(there: HttpConnection) -> None:
    with pytest.raises(errors.InvalidInput, match="request_spec"):
        there.explain({}, 1)
    with pytest.raises(errors.InvalidInput, match="arguments.context"):
        there.ask("list_hosts", context="mine")
    with pytest.raises(CommandFailed, match="404: There is no call compute/describe_host"):
        there.describe_host("h1")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://127.0.0.1", "not the URL of a fleet-api"),
        ("127.0.0.1:8774", "not the URL of a fleet-api"),
        ("http://", "not the URL of a fleet-api"),
    ],
)
def test_what_is_no_url(url: str, message: str) -> None:
    with pytest.raises(CommandFailed, match=message):
        HttpConnection(url).ask("list_hosts")


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(CommandFailed, match=f"http://127.0.0.1:{port} cannot be reached: Connection refused"):
        HttpConnection(f"http://127.0.0.1:{port}").ask("list_hosts")


def test_a_server_that_does_not_answer() -> None:
    """The time limit is that of the caller."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = HttpConnection(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with there.impatient(1), pytest.raises(oslo_messaging.MessagingTimeout, match="within 1 s"):
            there.ask("list_hosts")
        there.close()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="the connection is closed"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", id="half of an answer"),
        pytest.param(
            # Without "close" the repeated request could go to this connection, before its end has arrived.
            b"HTTP/1.1 504 Gateway Timeout\r\nConnection: close\r\nContent-Length: 6\r\n\r\n<html>",
            id="a proxy waits no longer",
        ),
    ],
)
def test_a_request_whose_connection_is_lost_is_repeated_with_its_token(answer: bytes) -> None:
    """The conductor may have accepted it. After "cannot be reached", a user would build everything a second time."""
    bodies: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        thread = threading.Thread(target=_answer_each, args=(listening, answer, bodies))
        thread.start()
        there = HttpConnection(f"http://127.0.0.1:{listening.getsockname()[1]}")
        with pytest.raises(
            CommandFailed, match="may have been accepted: it can be repeated with --client-token"
        ) as said:
            there.create({"name": "x"})
        there.close()
        thread.join()
    first, second = (each["arguments"]["client_token"] for each in bodies)
    assert first == second
    assert str(said.value).endswith(first)
    assert "within 75 s" not in str(said.value)


def _answer_each(listening: socket.socket, answer: bytes, bodies: list[Any], most: int = 2) -> None:
    for _number in range(most):
        connection, _address = listening.accept()
        with connection, connection.makefile("rb") as received:
            length = 0
            while (line := received.readline().strip().lower()) != b"":
                length = int(line.partition(b":")[2]) if line.startswith(b"content-length:") else length
            bodies.append(json.loads(received.read(length)))
            connection.sendall(answer)


@pytest.mark.parametrize(("text", "said"), [(b"<html>", "without JSON"), (b"[]", "no reason given")])
def test_another_server(text: bytes, said: str) -> None:
    def page(_environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [("Content-Type", "text/html"), ("Content-Length", str(len(text)))])
        return [text]

    with simple_server.make_server("127.0.0.1", 0, page, handler_class=_Quiet) as served:
        thread = threading.Thread(target=served.handle_request)
        thread.start()
        there = HttpConnection(f"http://127.0.0.1:{served.server_port}")
        with pytest.raises(CommandFailed, match=said):
            there.ask("list_hosts")
        there.close()
        thread.join()


class TestUsers:
    """With passwords: who is no administrator learns it in a sentence."""

    @pytest.fixture
    def conf(self, tmp_path: pathlib.Path) -> cfg.ConfigOpts:
        known, projects = tmp_path / "htpasswd", tmp_path / "projects"
        hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(10)).decode()
        other = bcrypt.hashpw("пароль".encode(), bcrypt.gensalt(10)).decode()
        known.write_text(f"alice:{hashed}\nroot:{hashed}\nзоя:{other}\n", encoding="utf-8")
        known.chmod(0o600)
        projects.write_text("[alice]\nroles = member\n[root]\nroles = admin\n[зоя]\nroles = admin\n", encoding="utf-8")
        conf = configuration(api_conf.register_opts)
        for name, value in (("auth_strategy", "http_basic"), ("basic_auth_file", known), ("projects_file", projects)):
            conf.set_override(name, str(value), "api")
        return conf

    @pytest.mark.parametrize(
        ("username", "password", "message"),
        [
            (None, None, "401.*FLEET_USERNAME"),
            ("root", "wrong", "401.*FLEET_USERNAME"),
            ("alice", "secret", "403: This is for administrators"),
        ],
    )
    def test_who_may_not(self, url: str, conductor: Called, username: str, password: str, message: str) -> None:
        there = HttpConnection(url, username, password)
        with pytest.raises(CommandFailed, match=message):
            there.ask("list_hosts")
        there.close()
        assert [] == conductor.calls.taken

    @pytest.mark.parametrize(("name", "password"), [("root", "secret"), ("зоя", "пароль")])
    def test_an_administrator(self, url: str, name: str, password: str) -> None:
        """Names and passwords may have any characters."""
        there = HttpConnection(url, name, password)
        assert {"well": "done"} == there.ask("list_hosts")
        there.close()

    def test_a_password_of_netrc(self, url: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login root password secret\n")
        monkeypatch.setenv("NETRC", str(netrc))
        there = HttpConnection(url)
        assert {"well": "done"} == there.ask("list_hosts")
        there.close()
