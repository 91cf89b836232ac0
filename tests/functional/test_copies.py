# SPDX-License-Identifier: Apache-2.0
"""Copies of the messages to another service, on a real broker: that service still gets each of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest
from kombu import Connection
from oslo_config import cfg

from fleet.rpc.rabbit import broker as brokers
from fleet.rpc.rabbit.copies import Copies
from fleet_trial import private_servers
from tests.nova.cloud import eventually

_EXCHANGE, _KEY, _QUEUE = "nova", "scheduler", "fleet-shadow.test"


class Received:
    """Messages in their order; a method named in ``failing`` raises."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.changed = threading.Event()

    def take(self, content: dict[str, Any]) -> None:
        self.methods.append(content["method"])
        if content["method"] == "fails":
            raise ValueError("planted")


@pytest.fixture
def conf(broker: private_servers.RabbitMQ) -> cfg.ConfigOpts:
    found = cfg.ConfigOpts()
    found([], default_config_files=[])
    oslo_messaging.TransportURL.parse(found)
    found.set_override("transport_url", broker.vhost("copies"))
    return found


@pytest.fixture
def channel(conf: cfg.ConfigOpts) -> Iterator[Any]:
    with brokers.connected(conf) as connection:
        yield _declared(connection)


def _declared(connection: Connection) -> Any:
    """The exchange and the queue of the service that is copied."""
    channel = connection.channel()
    channel.exchange_declare(_EXCHANGE, "topic", durable=False, auto_delete=False)
    channel.queue_declare(_KEY, durable=False, auto_delete=False)
    channel.queue_purge(_KEY)
    channel.queue_bind(_KEY, _EXCHANGE, _KEY)
    return channel


def _send(channel: Any, body: str) -> None:
    message = channel.prepare_message(body, content_type="application/json", content_encoding="utf-8")
    channel.basic_publish(message, _EXCHANGE, _KEY)


def _call(method: str) -> str:
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps({"method": method, "args": {}})})


def test_copies(conf: cfg.ConfigOpts, channel: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The service's own queue has all messages. What is unreadable, or fails, harms no other. The queue goes at the end."""
    received = Received()
    copies = Copies(conf, _EXCHANGE, _KEY, _QUEUE, received.take)
    caplog.set_level("INFO")
    copies.start()
    # The queue is there before it is bound.
    eventually(lambda: "are received in queue" in caplog.text)
    for body in (_call("first"), "nonsense", _call("fails"), _call("last")):
        _send(channel, body)
    eventually(lambda: ["first", "fails", "last"] == received.methods)
    assert 4 == channel.queue_declare(_KEY, passive=True).message_count
    copies.stop()
    copies.wait()
    eventually(lambda: not _is_there(conf))


def test_an_exchange_that_is_not_there(conf: cfg.ConfigOpts, caplog: pytest.LogCaptureFixture) -> None:
    """A warning, and another try: the service may start later."""
    copies = Copies(conf, "nowhere", _KEY, _QUEUE, lambda _content: None)
    copies.start()
    eventually(lambda: "no copies are received" in caplog.text)
    copies.stop()
    copies.wait()


def _is_there(conf: cfg.ConfigOpts) -> bool:
    with brokers.connected(conf) as connection:
        try:
            return brokers.depths(connection, [_QUEUE])[_QUEUE] is not None
        except brokers.BrokerAway:
            return True  # no other connection may look at it
