# SPDX-License-Identifier: Apache-2.0
"""The lean driver and the driver of oslo.messaging, as client and as server, against each other on a real broker."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet import conf as fleet_conf
from fleet import errors
from fleet.rpc import transport
from fleet.rpc.rabbit.conf import LEAN, STOCK
from fleet.rpc.rabbit.lean.driver import LeanDriver
from fleet_trial import private_servers
from tests.configuration import configuration
from tests.ha.keeper import kept

#: Other suites declare the default exchange with other arguments.
EXCHANGE = "four-ways"
FOUR_WAYS = [(client, server) for client in (STOCK, LEAN) for server in (STOCK, LEAN)]
UNDELIVERABLE = oslo_messaging.TransportOptions(at_least_once=True)


class Endpoint:
    target = oslo_messaging.Target(version="1.0")

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.release = threading.Event()

    def echo(self, context: Any, value: Any) -> Any:
        self.heard.append(value)
        return value

    def fail(self, context: Any, host: str) -> None:
        raise errors.NotFound(kind="Host", name=host)

    def hold(self, context: Any) -> str:
        self.release.wait(30)
        return "held"


def conf_of(url: str, driver: str) -> cfg.ConfigOpts:
    conf = configuration(fleet_conf.register_opts)
    oslo_messaging.TransportURL.parse(conf)
    conf.set_override("transport_url", url)
    conf.set_override("rabbit_driver", driver)
    conf.set_override("control_exchange", EXCHANGE)
    # Registered by oslo.messaging on the global configuration only.
    conffixture.ConfFixture(conf, url).setUp()
    return conf


@contextlib.contextmanager
def opened(url: str, driver: str) -> Iterator[oslo_messaging.RPCTransport]:
    made = transport.get_transport(conf_of(url, driver))
    assert (driver == LEAN) == isinstance(made._driver, LeanDriver)
    try:
        yield made
    finally:
        made.cleanup()


@contextlib.contextmanager
def serving(url: str, driver: str, topic: str, name: str = "s1") -> Iterator[Endpoint]:
    endpoint = Endpoint()
    with opened(url, driver) as bus:
        target = oslo_messaging.Target(topic=topic, server=name)
        server = oslo_messaging.get_rpc_server(bus, target, [endpoint], executor="threading")
        server.start()
        try:
            yield endpoint
        finally:
            endpoint.release.set()
            server.stop()
            server.wait()


def client_of(bus: oslo_messaging.RPCTransport, topic: str) -> Any:
    return oslo_messaging.get_rpc_client(bus, oslo_messaging.Target(topic=topic, version="1.0"), timeout=20)


def eventually(reached: Any, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def node() -> Iterator[private_servers.RabbitMQ]:
    """A broker that no other test uses: the test may kill it."""
    with private_servers.rabbitmq_node() as made, kept([made]):
        yield made


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


class Gate:
    """A lock. Something happens when the driver's thread is about to take it for the first time."""

    def __init__(self, lock: threading.Lock, happens: Callable[[], object]) -> None:
        self._lock = lock
        self._happens = [happens]

    def __enter__(self) -> None:
        if threading.current_thread().name == "rpc-outgoing" and self._happens:
            self._happens.pop()()
        self._lock.acquire()

    def __exit__(self, *_failure: object) -> None:
        self._lock.release()


@pytest.mark.long
def test_a_call_that_begins_while_the_connection_opens(rabbitmq_url: str, topic: str) -> None:
    """A cast opens the connection, which then needs no replies; another thread begins a call before it is open."""
    with serving(rabbitmq_url, LEAN, topic), opened(rabbitmq_url, LEAN) as bus:
        out = bus._driver._out()
        out._lock = Gate(out._lock, lambda: out.callers.expect("of another thread"))
        client = client_of(bus, topic)
        client.cast({}, "echo", value="first")
        assert ("second", []) == (client.call({}, "echo", value="second"), out._lock._happens)


@pytest.mark.long
def test_sending_ends_while_the_connection_opens(rabbitmq_url: str, topic: str) -> None:
    with opened(rabbitmq_url, LEAN) as bus:
        out = bus._driver._out()
        closing = threading.Thread(target=out.close)

        def begin_to_close() -> None:
            closing.start()
            eventually(out._wanted.is_set)

        out._lock = Gate(out._lock, begin_to_close)
        with contextlib.suppress(oslo_messaging.MessageDeliveryFailure):
            client_of(bus, topic).prepare(retry=0).cast({}, "echo", value=1)
        closing.join(30)
        assert not closing.is_alive()


def test_receiving_ends_while_the_connection_opens(
    rabbitmq_url: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(rabbitmq_url, LEAN) as bus:
        bus.conf.set_override("heartbeat_timeout_threshold", 0, "oslo_messaging_rabbit")
        listener = bus._driver.listen(oslo_messaging.Target(topic=topic, server="s1"), 1, None)._poll_style_listener
        adopt = listener._adopt
        monkeypatch.setattr(listener, "_adopt", lambda made: (listener.stop(), adopt(made)))
        listener._lose(listener._current, None)
        receiving = threading.Thread(target=listener.poll, daemon=True)
        receiving.start()
        receiving.join(30)
        is_left = receiving.is_alive()
        listener.cleanup()
        assert not is_left


def test_a_connection_opens_before_the_loss_of_the_former_is_told(
    rabbitmq_url: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that noticed the loss is slow; the new connection is kept."""
    with serving(rabbitmq_url, LEAN, topic), opened(rabbitmq_url, LEAN) as bus:
        calls = client_of(bus, topic)
        calls.call({}, "echo", value=1)
        out = bus._driver._out()
        link = out.link
        tell = out._nodes.lost
        with monkeypatch.context() as slow:
            slow.setattr(out._nodes, "lost", lambda lost: (link.wake(), eventually(lambda: out.link), tell(lost)))
            out._lost(link, ConnectionResetError("reset by peer"))
        assert not out._wanted.is_set()
        assert 2 == calls.call({}, "echo", value=2)


@pytest.mark.parametrize(("client", "server"), FOUR_WAYS)
def test_calls_and_casts(rabbitmq_url: str, topic: str, client: str, server: str) -> None:
    """A call, a call to one server, an error of ours with its class, a cast, and a cast to all servers."""
    with (
        serving(rabbitmq_url, server, topic) as one,
        serving(rabbitmq_url, client, topic, "s2") as other,
        opened(rabbitmq_url, client) as bus,
    ):
        calls = client_of(bus, topic)
        value = {"text": "zwölf\n", "list": [1, 2.5, None, True]}
        assert value == calls.call({"user": "u"}, "echo", value=value)
        assert 7 == calls.prepare(server="s2").call({}, "echo", value=7)
        assert 7 in other.heard
        with pytest.raises(errors.NotFound, match="nowhere"):
            calls.call({}, "fail", host="nowhere")
        calls.prepare(server="s1").cast({}, "echo", value="cast")
        eventually(lambda: "cast" in one.heard)
        calls.prepare(fanout=True).cast({}, "echo", value="all")
        eventually(lambda: "all" in one.heard and "all" in other.heard)


@pytest.mark.parametrize(
    ("client", "server"),
    [pytest.param(*way, marks=() if way == (LEAN, LEAN) else pytest.mark.long) for way in FOUR_WAYS],
)
def test_time_limits(rabbitmq_url: str, topic: str, client: str, server: str) -> None:
    """A call ends at its time limit; signs of life from the server keep a monitored call going."""
    with serving(rabbitmq_url, server, topic) as endpoint, opened(rabbitmq_url, client) as bus:
        calls = client_of(bus, topic)
        with pytest.raises(oslo_messaging.MessagingTimeout):
            calls.prepare(timeout=1).call({}, "hold")
        threading.Timer(8, endpoint.release.set).start()
        assert "held" == calls.prepare(timeout=60, call_monitor_timeout=6).call({}, "hold")


@pytest.mark.parametrize("client", [STOCK, LEAN])
def test_a_message_that_must_arrive(rabbitmq_url: str, topic: str, client: str) -> None:
    """A cast and a call to a server that is not there fail at once; a plain cast is lost silently."""
    with serving(rabbitmq_url, client, topic), opened(rabbitmq_url, client) as bus:
        nobody = client_of(bus, topic).prepare(server="nobody", transport_options=UNDELIVERABLE)
        with pytest.raises(oslo_messaging.MessageUndeliverable):
            nobody.cast({}, "echo", value=1)
        with pytest.raises(oslo_messaging.MessageUndeliverable):
            nobody.call({}, "echo", value=1)
        client_of(bus, topic).prepare(server="nobody").cast({}, "echo", value=1)


@pytest.mark.parametrize(("client", "server"), FOUR_WAYS)
def test_notifications(rabbitmq_url: str, topic: str, client: str, server: str) -> None:
    """A notification waits in its queue for a listener that comes later."""
    heard: list[Any] = []

    class Ear:
        def info(self, context: Any, publisher: str, event: str, payload: Any, metadata: Any) -> None:
            heard.append((publisher, event, payload))

    with opened(rabbitmq_url, client) as sending, opened(rabbitmq_url, server) as receiving:
        notifier = oslo_messaging.Notifier(sending, "me", driver="messagingv2", topics=[topic])
        notifier.info({}, "compute.start", {"a": 1})
        targets = [oslo_messaging.Target(topic=topic)]
        listener = oslo_messaging.get_notification_listener(receiving, targets, [Ear()], executor="threading")
        listener.start()
        eventually(lambda: heard)
        listener.stop()
        listener.wait()
    assert [("me", "compute.start", {"a": 1})] == heard


def test_the_broker_restarts(node: private_servers.RabbitMQ, topic: str) -> None:
    """Client and server connect again. While the broker is away, ``refusal`` returns the reason, and a cast waits. The
    server receives the cast once.
    """
    with serving(node.url, LEAN, topic) as endpoint, opened(node.url, LEAN) as bus:
        calls = client_of(bus, topic)
        assert "" == transport.refusal(bus)
        assert 1 == calls.call({}, "echo", value=1)
        node.kill()
        eventually(lambda: "refused" in transport.refusal(bus))
        sent = threading.Thread(target=lambda: calls.cast({}, "echo", value="later"))
        sent.start()
        node.start()
        assert 2 == calls.prepare(timeout=60).call({}, "echo", value=2)
        eventually(lambda: not transport.refusal(bus))
        sent.join(60)
        assert not sent.is_alive()
        calls.prepare(fanout=True).cast({}, "echo", value=3)
        eventually(lambda: {"later", 3} <= set(endpoint.heard))
        assert 1 == endpoint.heard.count("later")


def test_a_forbidden_message_fails(broker: private_servers.RabbitMQ, topic: str) -> None:
    """A cast and a call to an exchange that the user may not write to fail after a few attempts; others go through."""
    with serving(broker.url, LEAN, topic) as endpoint:
        user = f"agent-{topic}"
        url = broker.add_users("", user)[user]
        broker.ctl("set_permissions", user, ".*", "^(amq.default|reply_.*|four-ways|.*_fanout)$", ".*")
        with opened(url, LEAN) as bus:
            calls = client_of(bus, topic)
            other = oslo_messaging.Target(topic=topic, exchange="other", version="1.0")
            forbidden = oslo_messaging.get_rpc_client(bus, other, timeout=20)
            with pytest.raises(oslo_messaging.MessageDeliveryFailure):
                forbidden.cast({}, "echo", value=1)
            with pytest.raises(oslo_messaging.MessageDeliveryFailure):
                forbidden.call({}, "echo", value=1)
            assert 2 == calls.call({}, "echo", value=2)
        assert [2] == endpoint.heard


def test_no_queue_is_transient_and_shared(broker: private_servers.RabbitMQ, topic: str) -> None:
    """Brokers since RabbitMQ 4.3 refuse such queues: every queue of client, server and hosts is durable or exclusive."""
    with serving(broker.url, LEAN, topic), opened(broker.url, LEAN) as bus:
        client_of(bus, topic).call({}, "echo", value=1)
        queues = bus._driver.shared_queues(f"{topic}-compute", "fleet_hosts")
        queues.serve("h1", lambda incoming: None)
        replies = bus._driver._out().callers.queue.name
        listed = broker.ctl("list_queues", "name", "durable", "exclusive", "--no-table-headers").splitlines()
        queues.leave("h1")
    found = {name: flags for name, *flags in (line.split("\t") for line in listed) if topic in name or name == replies}
    assert {topic, f"{topic}.s1", replies} <= found.keys()
    assert any(name.startswith(f"{topic}-compute.h1_") for name in found)
    assert any(name.startswith(f"{topic}_fanout_") for name in found)
    assert {} == {name: flags for name, flags in found.items() if "true" not in flags}


def test_hosts_share_a_connection(rabbitmq_url: str, topic: str) -> None:
    """Messages reach the host that they are for; after a host has left, a message to it cannot be delivered."""
    heard: dict[str, list[Any]] = {"h1": [], "h2": []}
    with opened(rabbitmq_url, LEAN) as bus:
        conf = bus.conf
        hosts = transport.get_host_transport(conf, bus)
        exchange = f"{topic}_hosts"
        queues = hosts._driver.shared_queues(topic, exchange)
        for host in heard:
            queues.serve(host, lambda incoming, host=host: heard[host].extend(each.message for each in incoming))
        calls = oslo_messaging.get_rpc_client(hosts, oslo_messaging.Target(exchange=exchange, topic=topic))
        for host in heard:
            calls.prepare(server=host, transport_options=UNDELIVERABLE).cast({}, "order", host=host)
        eventually(lambda: all(heard.values()))
        assert ["h1", "h2"] == [heard[host][0]["args"]["host"] for host in ("h1", "h2")]
        queues.leave("h1")
        with pytest.raises(oslo_messaging.MessageUndeliverable):
            calls.prepare(server="h1", transport_options=UNDELIVERABLE).cast({}, "order", host="h1")
        queues.leave("h2")
        hosts.cleanup()


@pytest.mark.long
def test_a_broker_that_accepts_no_messages_for_a_while(node: private_servers.RabbitMQ, topic: str) -> None:
    """Nothing more is written, and the connection stays, with a message that the broker has not read whole.

    A call that cannot be sent in time says why. The messages are sent once when the broker accepts them again.
    """
    large = "x" * 3_000_000
    with serving(node.url, LEAN, topic) as endpoint, opened(node.url, LEAN) as bus:
        client, out = client_of(bus, topic), bus._driver._out()
        client.call({}, "echo", value="before")
        link = out.link
        assert link is not None
        node.ctl("set_vm_memory_high_watermark", "absolute", "1")
        try:
            casts = [threading.Thread(target=client.cast, args=({}, "echo"), kwargs={"value": large})]
            casts[0].start()
            eventually(lambda: link.connection.is_blocked)
            with pytest.raises(oslo_messaging.MessagingTimeout, match="the broker accepts no messages now"):
                client.prepare(timeout=3).call({}, "echo", value="too late")
            casts.append(threading.Thread(target=client.cast, args=({}, "echo"), kwargs={"value": "later"}))
            casts[1].start()
            assert link is out.link
        finally:
            node.ctl("set_vm_memory_high_watermark", "0.6")
        for each in casts:
            each.join(60)
        assert ("after", link) == (client.call({}, "echo", value="after"), out.link)
        eventually(lambda: len(endpoint.heard) == 4)
        assert ["after", "before", "later", large] == sorted(endpoint.heard)
