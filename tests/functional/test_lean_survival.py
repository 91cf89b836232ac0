# SPDX-License-Identifier: Apache-2.0
"""The lean driver goes on, whatever a peer or a broker sends: no thread of it ends, and calls are answered again."""

from __future__ import annotations

import contextlib
import json
import random
import struct
import threading
from collections.abc import Iterator
from typing import Any

import amqp
import oslo_messaging
import pytest

from fleet.rpc.rabbit.conf import LEAN
from fleet.rpc.rabbit.lean import link, topology
from fleet.rpc.rabbit.lean.settings import Settings
from fleet.telemetry import metrics
from fleet_trial import private_servers
from tests.chaos import proxy
from tests.functional.test_lean_driver import client_of, eventually, opened, serving, topic  # noqa: F401  (a fixture)

ERROR = {"class": "NotFound", "module": "fleet.errors", "message": "gone", "args": [], "kwargs": {}, "tb": []}
#: Fields of replies that no server sends.
NONSENSE: list[dict[str, Any]] = [
    {"_msg_id": ["a", "list"]},
    {"_msg_id": {}},
    {"_msg_id": 10**30},
    {"_unique_id": [1]},
    {"_unique_id": ""},
    {"ending": "yes"},
    {"failure": "no JSON"},
    {"failure": "[]"},
    {"failure": 7},
    {"failure": json.dumps({**ERROR, "tb": 1})},
    {"failure": json.dumps({**ERROR, "args": 1})},
    {"failure": json.dumps({**ERROR, "class": None})},
]
_METHOD, _HEADER, _BODY, _BEAT = 1, 2, 3, 8


def frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


#: Frames that no broker sends.
FRAMES = {
    "a wrong end": frame(_METHOD, 1, struct.pack(">HH", 60, 80), b"\0"),
    "a method that does not exist": frame(_METHOD, 1, struct.pack(">HH", 77, 77)),
    "a channel that is not open": frame(_METHOD, 999, struct.pack(">HHQB", 60, 80, 1, 0)),
    "an acknowledgement without a tag": frame(_METHOD, 1, struct.pack(">HH", 60, 80)),
    "a delivery without a consumer's name": frame(_METHOD, 1, struct.pack(">HH", 60, 60)),
    "a delivery to a consumer whose name is no text": frame(_METHOD, 1, struct.pack(">HHB", 60, 60, 2) + b"\xff\xfe"),
    "a header without a delivery": frame(_HEADER, 1, bytes(14)),
    "a body without a header": frame(_BODY, 1, b"body"),
    "a method without its number": frame(_METHOD, 1, b"\0"),
    "the end of the connection": frame(_METHOD, 0, struct.pack(">HHH", 10, 50, 320) + b"\x04away" + bytes(4)),
    "the end of a channel": frame(_METHOD, 1, struct.pack(">HHH", 20, 40, 404) + b"\x04gone" + bytes(4)),
    "another size of frames": frame(_METHOD, 0, struct.pack(">HHHIH", 10, 30, 0, 9, 0)),
    "an unknown kind": frame(99, 1, b"x"),
    "bytes without frames": bytes(range(256)),
}


@contextlib.contextmanager
def caller_behind(node: private_servers.RabbitMQ, named: str) -> Iterator[tuple[Any, proxy.Proxy, Any]]:
    """A client behind a proxy, and a server that is not; the driver of the client."""
    between = proxy.Proxy(proxy.to_port(node.port))
    between.start()
    url = f"rabbit://guest:{node.password}@127.0.0.1:{between.port}/"
    try:
        with serving(node.url, LEAN, named), opened(url, LEAN) as bus:
            yield client_of(bus, named), between, bus._driver
    finally:
        between.stop()


def answered(calls: Any, value: object) -> Any:
    """The answer to a call; one whose request or reply was lost is made again, as callers do."""
    for _attempt in range(20):
        with contextlib.suppress(oslo_messaging.MessagingTimeout):
            return calls.prepare(timeout=5).call({}, "echo", value=value)
    raise AssertionError("no call is answered any more")


def test_replies_that_no_server_sends(broker: private_servers.RabbitMQ, topic: str) -> None:  # noqa: F811
    """Each is dropped and counted; the caller gets its own reply."""
    with serving(broker.url, LEAN, topic), opened(broker.url, LEAN) as bus:
        calls = client_of(bus, topic)
        assert 0 == calls.call({}, "echo", value=0)
        queue, before = bus._driver._out().callers.queue.name, metrics.MESSAGES_UNREADABLE._value.get()
        with amqp.Connection(f"127.0.0.1:{broker.port}", userid="guest", password=broker.password) as raw:
            channel = raw.channel()
            for number, wrong in enumerate(NONSENSE, start=1):
                content = {"result": None, "failure": None, "ending": True, "_msg_id": "m", "_unique_id": "u", **wrong}
                body = json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(content)})
                said = amqp.Message(body, content_type="application/json", content_encoding="utf-8")
                channel.basic_publish(said, exchange="", routing_key=queue)
                assert number == calls.call({}, "echo", value=number)
        # The last one came over another connection than the answer.
        eventually(lambda: before + len(NONSENSE) <= metrics.MESSAGES_UNREADABLE._value.get())
        assert before + len(NONSENSE) == metrics.MESSAGES_UNREADABLE._value.get()


@pytest.mark.parametrize("name", FRAMES)
def test_frames_that_no_broker_sends(broker: private_servers.RabbitMQ, topic: str, name: str) -> None:  # noqa: F811
    """The connection is closed with a reason and opened again, by the same thread."""
    with caller_behind(broker, topic) as (calls, between, driver):
        assert 1 == answered(calls, 1)
        thread = driver._out()._thread
        between.inject(FRAMES[name])
        assert 2 == answered(calls, 2)
        assert thread is driver._out()._thread
        assert thread.is_alive()


def test_random_bytes(broker: private_servers.RabbitMQ, topic: str) -> None:  # noqa: F811
    """Valid frames with a random content, and no frames at all."""
    chance = random.Random(7)
    with caller_behind(broker, topic) as (calls, between, driver):
        for number in range(25):
            payload = chance.randbytes(chance.randrange(40))
            kind = chance.choice((_METHOD, _HEADER, _BODY, _BEAT))
            between.inject(payload if number % 5 == 0 else frame(kind, chance.randrange(4), payload))
            assert number == answered(calls, number)
        assert driver._out()._thread.is_alive()


def test_a_bug_while_reading_is_counted_and_survived(
    broker: private_servers.RabbitMQ,
    topic: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any error, not only those that a broker causes."""
    with serving(broker.url, LEAN, topic), opened(broker.url, LEAN) as bus:
        calls = client_of(bus, topic)
        assert 1 == calls.call({}, "echo", value=1)
        out, before = bus._driver._out(), metrics.CONNECTIONS_BROKEN._value.get()
        failed = threading.Event()

        def fail_once(self: link.Link) -> None:
            if self is lost and not failed.is_set():
                failed.set()
                raise AttributeError("'NoneType' object has no attribute 'recv'")
            run(self)

        lost, run = out.link, link.Link._run_callbacks
        monkeypatch.setattr(link.Link, "_run_callbacks", fail_once)
        assert 2 == answered(calls, 2)
        assert (True, True) == (failed.is_set(), out._thread is not None and out._thread.is_alive())
        assert before + 1 == metrics.CONNECTIONS_BROKEN._value.get()


@pytest.mark.long
def test_the_broker_closes_connections_while_many_threads_call(topic: str) -> None:  # noqa: F811
    """Several threads share the connection when its end arrives; all of them are answered afterwards."""
    with private_servers.rabbitmq_node() as node, serving(node.url, LEAN, topic), opened(node.url, LEAN) as bus:
        calls, stop = client_of(bus, topic), threading.Event()
        wrong: list[object] = []

        def call() -> None:
            try:
                while not stop.is_set():
                    answered(calls, 1)
            except BaseException as failure:
                wrong.append(failure)

        callers = [threading.Thread(target=call) for _caller in range(6)]
        for each in callers:
            each.start()
        for _time in range(5):
            node.ctl("close_all_connections", "a test")
        stop.set()
        for each in callers:
            each.join(120)
        assert [] == wrong
        assert 2 == answered(calls, 2)
        assert bus._driver._out()._thread.is_alive()


@pytest.mark.long
def test_a_node_that_confirms_nothing_is_left(
    broker: private_servers.RabbitMQ,
    topic: str,  # noqa: F811
) -> None:
    """Heartbeats go on, and another node may confirm. What was not confirmed is published there."""
    user, address = f"guest:{broker.password}", f"127.0.0.1:{broker.port}"
    with (
        serving(broker.url, LEAN, topic) as endpoint,
        opened(
            f"rabbit://{user}@{address},{user}@localhost:{broker.port}/?heartbeat_timeout_threshold=10", LEAN
        ) as bus,
    ):
        calls, out = client_of(bus, topic), bus._driver._out()
        assert 1 == answered(calls, 1)
        lost, (channel,) = out.link, out._publisher._channels
        channel.channel.events["basic_ack"].clear()
        calls.cast({}, "echo", value=2)
        assert lost is not out.link
        eventually(lambda: 2 in endpoint.heard)


def test_a_queue_is_known_to_the_nodes_of_one_cluster(broker: private_servers.RabbitMQ) -> None:
    """A virtual host of its own stands for a node with a view of its own."""
    apart = broker.vhost("apart")
    with opened(broker.url, LEAN) as here, opened(broker.url, LEAN) as same, opened(apart, LEAN) as other:
        settings = [Settings.parse(bus.conf, bus._driver._url) for bus in (here, same, other)]
        links = [link.opened_to(each.brokers[0], each) for each in settings]
        queue = topology.reply_queue(settings[0])
        topology.declare_queue(links[0].connection, queue)
        assert [True, True, False] == [topology.is_known(queue, each.connection) for each in links]
        for each in links:
            each.close()
