# SPDX-License-Identifier: Apache-2.0
"""The brokerless transport behaves as RabbitMQ does, inside a process and over its socket."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet import context, errors
from fleet.rpc import clients, endpoint, serializer, server, transport

PATIENCE_S = 10
EXCHANGE = "fleet"


class Endpoint:
    """Answers, refuses, breaks or keeps a caller waiting; remembers what it was sent."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.news = threading.Condition()
        self.gate = threading.Event()

    def echo(self, ctxt: context.RequestContext, value: object) -> object:
        with self.news:
            self.seen.append(value)
            self.news.notify_all()
        return value

    def whose(self, ctxt: context.RequestContext) -> str:
        return ctxt.request_id

    @endpoint.expected_errors
    def refuse(self, ctxt: context.RequestContext) -> None:
        raise errors.NoValidHost(reason="Full.", details={"considered": 3})

    def broken(self, ctxt: context.RequestContext) -> None:
        raise OSError("disk on fire")

    def hang(self, ctxt: context.RequestContext) -> str:
        self.gate.wait(PATIENCE_S)
        return "at last"

    def wait_for(self, count: int) -> list[object]:
        with self.news:
            assert self.news.wait_for(lambda: len(self.seen) >= count, PATIENCE_S)
            return list(self.seen)


Connect = Callable[[], oslo_messaging.Transport]
Serve = Callable[..., Endpoint]


@pytest.fixture
def url() -> str:
    return f"local://test-{uuid.uuid4().hex}"


@pytest.fixture
def connect(url: str) -> Iterator[Connect]:
    """Opens transports on ``url``."""
    oslo_messaging.set_transport_defaults(EXCHANGE)
    conf = cfg.ConfigOpts()
    fixture = conffixture.ConfFixture(conf, transport_url=url)
    fixture.setUp()
    conf([], project="fleet")
    opened: list[oslo_messaging.Transport] = []

    def open_one() -> oslo_messaging.Transport:
        opened.append(transport.get_transport(conf))
        return opened[-1]

    yield open_one
    for each in opened:
        each.cleanup()
    fixture.cleanUp()


@pytest.fixture
def serve(connect: Connect) -> Iterator[Serve]:
    """Starts servers on topic ``work``."""
    started: list[oslo_messaging.RPCServer] = []
    endpoints: list[Endpoint] = []

    def start(name: str = "one") -> Endpoint:
        endpoints.append(Endpoint())
        started.append(server.get_server(connect(), "work", name, [endpoints[-1]]))
        started[-1].start()
        return endpoints[-1]

    yield start
    for each in endpoints:
        each.gate.set()
    for each in started:
        each.stop()
        each.wait()


def client(opened: oslo_messaging.Transport, **target: object) -> oslo_messaging.rpc.client.RPCClient:
    return oslo_messaging.get_rpc_client(
        opened,
        oslo_messaging.Target(topic="work", **target),
        serializer=serializer.ContextSerializer(),
        timeout=PATIENCE_S,
    )


def test_a_call_is_answered(connect: Connect, serve: Serve) -> None:
    """The result of the method comes back, JSON in and JSON out."""
    serve()
    sent = {"text": "ä", "list": [1, None, 2.5]}
    assert sent == client(connect()).call(context.new_context(), "echo", value=sent)


def test_values_are_copied(connect: Connect, serve: Serve) -> None:
    """As over a real wire, the receiver gets its own copy and tuples arrive as lists."""
    endpoint = serve()
    sent = {"hosts": ("a", "b")}
    client(connect()).cast(context.new_context(), "echo", value=sent)
    assert [{"hosts": ["a", "b"]}] == endpoint.wait_for(1)


def test_the_request_id_travels(connect: Connect, serve: Serve) -> None:
    """The handler works under the caller's request id."""
    serve()
    ctxt = context.new_context()
    assert ctxt.request_id == client(connect()).call(ctxt, "whose")


def test_an_expected_error_arrives_as_itself(connect: Connect, serve: Serve) -> None:
    """Class and facts of a refusal survive the way back."""
    serve()
    with pytest.raises(errors.NoValidHost) as refused:
        client(connect()).call(context.new_context(), "refuse")
    assert ("No valid host was found. Full.", {"considered": 3}) == (refused.value.message, refused.value.details)


def test_a_bug_arrives_as_an_error(connect: Connect, serve: Serve) -> None:
    """An unexpected exception of the server is raised at the caller, not taken for a dead transport."""
    serve()
    with pytest.raises(OSError, match="disk on fire"):
        client(connect()).call(context.new_context(), "broken")


def test_a_call_nobody_answers_times_out(connect: Connect, serve: Serve) -> None:
    """The caller waits as long as it said."""
    serve()
    with pytest.raises(oslo_messaging.MessagingTimeout):
        client(connect()).prepare(timeout=0.05).call(context.new_context(), "hang")


def test_heartbeats_keep_a_long_call_alive(connect: Connect, serve: Serve) -> None:
    """With call monitoring, a call may take longer than the monitor's patience while the server shows life."""
    endpoint = serve()
    opener = threading.Timer(6, endpoint.gate.set)  # more than the monitor's patience
    opener.start()
    watched = client(connect()).prepare(timeout=60, call_monitor_timeout=5)
    assert "at last" == watched.call(context.new_context(), "hang")
    opener.join()


def test_without_a_sign_of_life_a_monitored_call_fails_early(connect: Connect, serve: Serve) -> None:
    """A server that took the call and died is noticed after the monitor's patience, not after the whole timeout."""
    endpoint = serve()
    started = time.monotonic()
    with pytest.raises(oslo_messaging.MessagingTimeout):
        client(connect(), server="absent").prepare(timeout=60, call_monitor_timeout=0.1).call(
            context.new_context(), "echo", value=1
        )
    assert [] == endpoint.seen
    assert time.monotonic() - started < PATIENCE_S


def test_a_topic_is_shared_and_a_fanout_reaches_all(connect: Connect, serve: Serve) -> None:
    """Each cast to the topic is taken once; a fanout once by every server; a directed cast by the one named."""
    one, two = serve("one"), serve("two")
    caller = client(connect())
    for number in range(10):
        caller.cast(context.new_context(), "echo", value=number)
    caller.prepare(fanout=True).cast(context.new_context(), "echo", value="all")
    caller.prepare(server="two").cast(context.new_context(), "echo", value="two")
    deadline = time.monotonic() + PATIENCE_S
    while len(one.seen) + len(two.seen) < 13 and time.monotonic() < deadline:
        with one.news:
            one.news.wait(0.05)
    seen_by_one, seen_by_two = list(one.seen), list(two.seen)
    shared = [value for value in seen_by_one + seen_by_two if isinstance(value, int)]
    assert list(range(10)) == sorted(shared)
    assert (1, 1) == (seen_by_one.count("all"), seen_by_two.count("all"))
    assert (0, 1) == (seen_by_one.count("two"), seen_by_two.count("two"))


def test_a_cast_to_a_topic_that_never_had_a_listener_vanishes(connect: Connect, serve: Serve) -> None:
    """No queue, no error: the same as RabbitMQ's unroutable messages."""
    caller = client(connect())
    caller.cast(context.new_context(), "echo", value="lost")
    endpoint = serve()
    caller.call(context.new_context(), "echo", value="kept")
    assert ["kept"] == endpoint.wait_for(1)


def test_a_declared_queue_keeps_messages_while_nobody_listens(connect: Connect) -> None:
    """A server that comes back finds what was cast meanwhile."""
    holder = connect()
    first, second = Endpoint(), Endpoint()
    before = server.get_server(holder, "work", "one", [first])
    before.start()
    before.stop()
    before.wait()
    client(connect()).cast(context.new_context(), "echo", value="held")
    after = server.get_server(holder, "work", "one", [second])
    after.start()
    assert ["held"] == second.wait_for(1)
    after.stop()
    after.wait()
    assert [] == first.seen


def test_a_mandatory_cast_without_a_queue_fails_at_once(connect: Connect, serve: Serve) -> None:
    """An agent that never came is an immediate, named failure."""
    serve()
    mandatory = client(connect()).prepare(server="absent", transport_options=clients.MANDATORY)
    with pytest.raises(oslo_messaging.MessageUndeliverable) as undeliverable:
        mandatory.cast(context.new_context(), "echo", value=1)
    assert "work.absent" == undeliverable.value.routing_key


def test_an_idle_server_stops(connect: Connect) -> None:
    """stop() wakes the listener, whose poll would never end."""
    idle = server.get_server(connect(), "work", "one", [Endpoint()])
    idle.start()
    idle.stop()
    idle.wait()


def test_notifications_reach_their_listener(connect: Connect) -> None:
    """A notification published on a topic and priority is handed to whoever listens there."""
    received: list[tuple] = []
    arrived = threading.Event()

    class Sink:
        def info(self, ctxt: dict, publisher_id: str, event_type: str, payload: dict, metadata: dict) -> None:
            received.append((publisher_id, event_type, payload))
            arrived.set()

    opened = connect()
    listener = oslo_messaging.get_notification_listener(
        opened, [oslo_messaging.Target(topic="notifications")], [Sink()], executor="threading"
    )
    listener.start()
    notifier = oslo_messaging.Notifier(opened, publisher_id="me", driver="messaging", topics=["notifications"])
    notifier.info({}, "compute.instance.create.start", {"uuid": "1"})
    assert arrived.wait(PATIENCE_S)
    listener.stop()
    listener.wait()
    assert [("me", "compute.instance.create.start", {"uuid": "1"})] == received


class TestSocket:
    """The process that serves hosts the hub; others reach it through the socket."""

    @pytest.fixture
    def path(self, tmp_path) -> str:
        return str(tmp_path / "fleet.sock")

    @pytest.fixture
    def url(self, path: str) -> str:
        return f"local://{path}"

    def in_another_process(self, url: str, statement: str) -> str:
        """What ``statement`` prints in a process of its own, where ``caller`` is a client of topic ``work``."""
        program = (
            "import fleet, oslo_messaging\n"
            "from oslo_config import cfg\n"
            "from fleet import context, errors\n"
            "from fleet.rpc import clients, serializer, server, transport\n"
            f"oslo_messaging.set_transport_defaults({EXCHANGE!r})\n"
            "cfg.CONF([], project='fleet')\n"
            f"bus = oslo_messaging.get_rpc_transport(cfg.CONF, {url!r}, transport.ALLOWED_REMOTE_EXMODS)\n"
            "caller = oslo_messaging.get_rpc_client(bus, oslo_messaging.Target(topic='work'),\n"
            "    serializer=serializer.ContextSerializer(), timeout=10)\n"
            "ctxt = context.new_context()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program + statement], capture_output=True, text=True, timeout=60, check=False
        )
        assert 0 == done.returncode, done.stderr
        return done.stdout.strip()

    def test_another_process_calls_and_casts(self, url: str, path: str, serve: Serve) -> None:
        """Calls, refusals, casts and undeliverable casts behave as they do inside the process."""
        endpoint = serve()
        printed = self.in_another_process(
            url,
            "print(caller.call(ctxt, 'echo', value={'a': [1]}))\n"
            "caller.cast(ctxt, 'echo', value='cast')\n"
            "try: caller.call(ctxt, 'refuse')\n"
            "except errors.NoValidHost as refused: print(refused.message, refused.details)\n"
            "try: caller.prepare(timeout=0.1).call(ctxt, 'hang')\n"
            "except oslo_messaging.MessagingTimeout: print('timeout')\n"
            "try: caller.prepare(server='x', transport_options=clients.MANDATORY).cast(ctxt, 'echo', value=1)\n"
            "except oslo_messaging.MessageUndeliverable as nobody: print(nobody.routing_key)\n"
            "try: server.get_server(bus, 'work', 'two', []).start()\n"
            "except oslo_messaging.MessagingException as taken: print('another process serves' in str(taken))\n",
        )
        assert [
            "{'a': [1]}",
            "No valid host was found. Full. {'considered': 3}",
            "timeout",
            "work.x",
            "True",
        ] == printed.splitlines()
        assert [{"a": [1]}, "cast"] == endpoint.wait_for(2)
        assert 0o600 == stat.S_IMODE(os.stat(path).st_mode)

    def test_a_socket_that_nobody_serves_is_a_clear_error(self, url: str, path: str, connect: Connect) -> None:
        """A caller learns at once that no fleet is there, and where it looked."""
        with pytest.raises(oslo_messaging.MessageDeliveryFailure, match=f"no fleet is running at {path}"):
            client(connect()).call(context.new_context(), "echo", value=1)

    def test_a_socket_left_by_a_killed_process_is_taken_over(self, url: str, path: str, serve: Serve) -> None:
        """The file of a dead hub does not keep a new one from starting."""
        with open(path, "w") as left_behind:
            left_behind.write("")
        serve()
        assert "1" == self.in_another_process(url, "print(caller.call(ctxt, 'echo', value=1))")

    def test_a_hub_that_ends_releases_its_name(self, url: str, path: str, connect: Connect) -> None:
        """After cleanup the socket is gone and another process may serve."""
        opened = connect()
        served = server.get_server(opened, "work", "one", [Endpoint()])
        served.start()
        served.stop()
        served.wait()
        opened.cleanup()
        assert not os.path.exists(path)
        assert "served" == self.in_another_process(
            url, "s = server.get_server(bus, 'work', 'two', []); s.start(); s.stop(); s.wait(); print('served')"
        )

    def test_nonsense_on_the_socket_harms_nobody(self, url: str, path: str, serve: Serve) -> None:
        """A client that sends garbage loses its connection; the hub goes on."""
        serve()
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(path)
            raw.sendall(b"\x00\x00\x00\x04oops")
            assert b"" == raw.recv(10)
        assert "2" == self.in_another_process(url, "print(caller.call(ctxt, 'echo', value=2))")
