# SPDX-License-Identifier: Apache-2.0
"""Messages as they lie on the broker: listened to, stolen, sent again, or made up."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import amqp

from tests import clusters

#: ``control_exchange``, and the exchange of what is sent to one host.
EXCHANGE, HOST_EXCHANGE = "fleet", "fleet_hosts"
_OF_BUILDS = {
    "build_instances",
    "select_destinations",
    "build_and_run_instance",
    "claim_instance",
    "finish_build",
    "build_steps",
    "reschedule",
    "abort_build",
    "terminate_instances",
    "terminate_instance",
    "instance_destroyed",
}
#: How a copy is known from what the daemons have sent themselves.
COPY = "copy"


@dataclasses.dataclass(frozen=True)
class Sent:
    """One message as it was routed."""

    routing_key: str
    body: bytes

    @classmethod
    def of(cls, message: Any) -> Sent:
        """What py-amqp has received."""
        body = message.body.encode() if isinstance(message.body, str) else bytes(message.body)
        return cls(message.delivery_info["routing_key"], body)

    @property
    def is_of_a_build(self) -> bool:
        message = json.loads(json.loads(self.body)["oslo.message"])
        return message.get("method") in _OF_BUILDS

    def renamed(self) -> Sent:
        """The same order under another id: a repetition that the receiver's memory of ids does not recognise."""
        outer = json.loads(self.body)
        inner = {**json.loads(outer["oslo.message"]), "_unique_id": uuid.uuid4().hex}
        return dataclasses.replace(self, body=json.dumps({**outer, "oslo.message": json.dumps(inner)}).encode())


class Wire:
    """Connects to a node of the broker that serves, past any proxy."""

    def __init__(self, cluster: clusters.RabbitMQCluster) -> None:
        self._cluster = cluster

    @contextlib.contextmanager
    def channel(self) -> Iterator[Any]:
        node = self._cluster.serving()
        connection = amqp.Connection(f"127.0.0.1:{node.port}", userid="guest", password=node.password)
        connection.connect()
        try:
            yield connection.channel()
        finally:
            with contextlib.suppress(OSError, amqp.exceptions.AMQPError):
                connection.close()

    def send(self, messages: Iterable[Sent]) -> None:
        """Send a message with the broker's password only."""
        with self.channel() as channel:
            for each in messages:
                _publish(channel, each)

    def taken(self, *queues: str) -> list[dict[str, Any]]:
        """All messages that wait in these queues, and are gone then; a queue that does not exist has none."""
        found = []
        for queue in queues:
            with self.channel() as channel, contextlib.suppress(amqp.exceptions.NotFound):
                while (message := channel.basic_get(queue, no_ack=True)) is not None:
                    found.append(json.loads(json.loads(Sent.of(message).body)["oslo.message"]))
        return found

    @contextlib.contextmanager
    def tapped(self, echo: int = 0) -> Iterator[list[Sent]]:
        """Every message about builds that is routed meanwhile; each is sent again ``echo`` times at once.

        Every other copy has an id of its own. Not heard: answers, requests (one that comes again is a new request), and
        what agents tell of themselves (too much to be sent fifty times, and the same each time).
        """
        heard: list[Sent] = []
        echoed = 0

        def note(message: Any) -> None:
            if message.properties.get("message_id") != COPY and (sent := Sent.of(message)).is_of_a_build:
                heard.append(sent)

        def send_again() -> None:
            nonlocal echoed
            fresh, echoed = heard[echoed:], len(heard)
            for sent in fresh:
                for number in range(echo):
                    _publish(out, sent if number % 2 else sent.renamed())

        # Two connections: what is sent while messages are being delivered would be delivered in the middle of it.
        with self.channel() as channel, self.channel() as out:
            queue = channel.queue_declare("", exclusive=True).queue
            for exchange in (EXCHANGE, HOST_EXCHANGE):
                channel.queue_bind(queue, exchange, "#")
            channel.basic_consume(queue, callback=note, no_ack=True)
            with _draining(channel.connection, send_again):
                yield heard

    @contextlib.contextmanager
    def robbed(self, *queues: str) -> Iterator[list[Sent]]:
        """Lose some messages of ``queues``: one more consumer reads its share of them and drops it."""
        stolen: list[Sent] = []
        with self.channel() as channel:
            for queue in queues:
                channel.basic_consume(queue, callback=lambda message: stolen.append(Sent.of(message)), no_ack=True)
            with _draining(channel.connection):
                yield stolen


def _publish(channel: Any, sent: Sent) -> None:
    message = amqp.Message(sent.body, content_type="application/json", content_encoding="utf-8", message_id=COPY)
    exchange = HOST_EXCHANGE if sent.routing_key.startswith("compute.") else EXCHANGE
    channel.basic_publish(message, exchange, sent.routing_key)


@contextlib.contextmanager
def _draining(connection: Any, then: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Deliver what comes, in a thread; ``then`` is called after each delivery."""
    stop = threading.Event()

    def drain() -> None:
        while not stop.is_set():
            try:
                connection.drain_events(timeout=0.2)
                then()
            except TimeoutError:
                continue
            except (OSError, amqp.exceptions.AMQPError):
                return

    thread = threading.Thread(target=drain, name="wire", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
