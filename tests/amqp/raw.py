# SPDX-License-Identifier: Apache-2.0
"""Messages sent without oslo.messaging, as anyone with the broker's password could send them."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

import amqp
import oslo_messaging
from oslo_config import cfg

EXCHANGE = "fleet"


@contextlib.contextmanager
def channel(rabbitmq_url: str) -> Iterator[amqp.Channel]:
    url = oslo_messaging.TransportURL.parse(cfg.ConfigOpts(), rabbitmq_url)
    host = url.hosts[0]
    place = f"{host.hostname}:{host.port}"
    with amqp.Connection(
        place, userid=host.username, password=host.password, virtual_host=url.virtual_host or "/"
    ) as made:
        yield made.channel()


def envelope(message: dict[str, Any]) -> bytes:
    """As oslo.messaging wraps it."""
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(message)}).encode()


def call(method: str, reply_to: str, namespace: str | None = None, version: str = "1.0", **arguments: Any) -> bytes:
    """A call whose answer goes to the queue ``reply_to``."""
    said = {"method": method, "args": arguments, "namespace": namespace, "version": version}
    ids = {"_msg_id": uuid.uuid4().hex, "_reply_q": reply_to, "_unique_id": uuid.uuid4().hex}
    return envelope({**said, **ids})


def send(to: amqp.Channel, topic: str, body: bytes, **properties: Any) -> None:
    kinds = {"content_type": "application/json", "content_encoding": "utf-8", **properties}
    to.basic_publish(amqp.Message(body, **kinds), EXCHANGE, topic)
