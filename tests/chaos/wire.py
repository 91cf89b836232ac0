# SPDX-License-Identifier: Apache-2.0
"""Messages as they lie on the broker: listened to, stolen, sent again, or made up."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import amqp

#: ``control_exchange``.
EXCHANGE = "fleet"


@dataclasses.dataclass(frozen=True)
class Sent:
    """One message as it was routed."""

    routing_key: str
    body: bytes
    properties: dict[str, Any]

    def envelope(self) -> dict[str, Any]:
        """What oslo.messaging put into it."""
        return json.loads(json.loads(self.body)["oslo.message"])

    def renamed(self) -> Sent:
        """The same order under another id: a repetition that the receiver's memory of ids does not recognise."""
        outer = json.loads(self.body)
        inner = {**json.loads(outer["oslo.message"]), "_unique_id": uuid.uuid4().hex}
        return dataclasses.replace(self, body=json.dumps({**outer, "oslo.message": json.dumps(inner)}).encode())


class Wire:
    """``port`` and ``password`` are the broker's own, past any proxy."""

    def __init__(self, port: int, password: str) -> None:
        self._port = port
        self._password = password

    @contextlib.contextmanager
    def channel(self) -> Iterator[Any]:
        connection = amqp.Connection(f"127.0.0.1:{self._port}", userid="guest", password=self._password)
        connection.connect()
        try:
            yield connection.channel()
        finally:
            with contextlib.suppress(OSError, amqp.exceptions.AMQPError):
                connection.close()

    def send(self, routing_key: str, body: bytes, **properties: Any) -> None:
        """One message, as anybody with the password may send it."""
        self.send_all([Sent(routing_key, body, {"content_type": "application/json", **properties})])

    def send_all(self, messages: list[Sent]) -> None:
        with self.channel() as channel:
            for each in messages:
                message = amqp.Message(each.body, content_encoding="utf-8", **each.properties)
                channel.basic_publish(message, EXCHANGE, each.routing_key)

    def delete_queue(self, name: str) -> None:
        with self.channel() as channel:
            channel.queue_delete(name)

    @contextlib.contextmanager
    def tapped(self) -> Iterator[list[Sent]]:
        """Every message that is routed meanwhile, answers excepted."""
        heard: list[Sent] = []

        def note(message: Any) -> None:
            key = message.delivery_info["routing_key"]
            properties = {name: message.properties[name] for name in ("content_type",) if name in message.properties}
            body = message.body.encode() if isinstance(message.body, str) else bytes(message.body)
            heard.append(Sent(key, body, properties))

        with self.channel() as channel:
            queue = channel.queue_declare("", exclusive=True).queue
            channel.queue_bind(queue, EXCHANGE, "#")
            channel.basic_consume(queue, callback=note, no_ack=True)
            with _draining(channel.connection):
                yield heard

    @contextlib.contextmanager
    def robbed(self, *queues: str) -> Iterator[list[str]]:
        """Of the messages in ``queues`` some are taken away and never seen again: whose turn it is to be delivered."""
        stolen: list[str] = []
        with self.channel() as channel:
            for queue in queues:
                channel.basic_consume(
                    queue, callback=lambda message: stolen.append(message.delivery_info["routing_key"]), no_ack=True
                )
            with _draining(channel.connection):
                yield stolen


@contextlib.contextmanager
def _draining(connection: Any) -> Iterator[None]:
    stop = threading.Event()

    def drain() -> None:
        while not stop.is_set():
            try:
                connection.drain_events(timeout=0.2)
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
