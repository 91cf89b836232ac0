# SPDX-License-Identifier: Apache-2.0
"""Exchanges and queues, with the names that oslo.messaging gives them.

Stock peers declare the same names. So arguments follow the same options, and a queue or exchange that exists with other
arguments is used as it is. The driver itself declares no queue that is both transient and not exclusive: brokers since
RabbitMQ 4.3 refuse those.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from typing import Any

import amqp
from oslo_log import log as logging

from fleet.rpc.rabbit.lean.settings import Settings

LOG = logging.getLogger(__name__)
#: Fanout messages are hints, and old ones are useless. Milliseconds, and messages.
FANOUT_BOUNDS = {"x-message-ttl": 60_000, "x-max-length": 10_000}
_DIFFERS = 406


@dataclasses.dataclass(frozen=True)
class Exchange:
    """``name`` empty is the default exchange, which always exists."""

    name: str
    kind: str = "topic"
    durable: bool = False
    auto_delete: bool = False


@dataclasses.dataclass(frozen=True)
class Queue:
    """A queue, and its binding to ``exchange`` with ``key``."""

    name: str
    exchange: Exchange
    key: str
    durable: bool
    auto_delete: bool
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def topic_exchange(settings: Settings, name: str) -> Exchange:
    return Exchange(name, "topic", settings.durable, settings.auto_delete)


def fanout_exchange(settings: Settings, topic: str) -> Exchange:
    return Exchange(f"{topic}_fanout", "fanout", settings.durable_transient, auto_delete=True)


def topic_queue(settings: Settings, exchange: str, key: str, name: str = "") -> Queue:
    """Return the queue that all servers of a topic share, or that one server has. It survives the broker.

    Whether its messages do follows ``amqp_durable_queues``.
    """
    made = topic_exchange(settings, exchange)
    return Queue(name or key, made, key, True, settings.auto_delete, settings.queue_arguments)


def host_queue(settings: Settings, exchange: str, key: str) -> Queue:
    """Return the queue of one host. The broker deletes it when its last consumer leaves, or no consumer has come."""
    made = Exchange(exchange, "topic", durable=False, auto_delete=True)
    return Queue(key, made, key, True, True, {"x-expires": 1000 * settings.unused_queues_s})


def fanout_queue(settings: Settings, topic: str) -> Queue:
    """Return a queue of one process for messages to all servers of a topic. The broker deletes it when unused."""
    arguments = {"x-expires": 1000 * settings.unused_queues_s, **FANOUT_BOUNDS}
    exchange = fanout_exchange(settings, topic)
    return Queue(f"{topic}_fanout_{uuid.uuid4().hex}", exchange, topic, True, False, arguments)


def reply_queue(settings: Settings) -> Queue:
    """Return the queue for the replies to one process. It survives the loss of a connection."""
    arguments = {"x-expires": 1000 * settings.unused_queues_s}
    return Queue(f"reply_{uuid.uuid4().hex}", Exchange("", "direct"), "", True, False, arguments)


def declare_exchange(connection: amqp.Connection, exchange: Exchange) -> None:
    """Declare an exchange on a channel of its own: a refused declaration closes its channel.

    :raises amqp.AMQPError: the broker refuses, other than for different arguments
    """
    if not exchange.name:
        return
    channel = connection.channel()
    try:
        channel.exchange_declare(
            exchange.name, exchange.kind, durable=exchange.durable, auto_delete=exchange.auto_delete
        )
    except amqp.ChannelError as refused:
        _accept_as_it_is("exchange", exchange.name, refused)
        return
    channel.close()


def declare_queue(connection: amqp.Connection, queue: Queue) -> None:
    """Declare a queue with its exchange, and bind it. :raises amqp.AMQPError:"""
    declare_exchange(connection, queue.exchange)
    channel = connection.channel()
    try:
        channel.queue_declare(
            queue.name,
            durable=queue.durable,
            exclusive=False,
            auto_delete=queue.auto_delete,
            arguments=dict(queue.arguments),
        )
    except amqp.ChannelError as refused:
        _accept_as_it_is("queue", queue.name, refused)
        channel = connection.channel()
    if queue.exchange.name:
        channel.queue_bind(queue.name, queue.exchange.name, queue.key)
    channel.close()


def _accept_as_it_is(kind: str, name: str, refused: amqp.ChannelError) -> None:
    """:raises amqp.ChannelError: the broker refuses for another reason"""
    if refused.reply_code != _DIFFERS:
        raise refused
    LOG.warning("The %s %s exists with other arguments, and is used as it is: %s", kind, name, refused.reply_text)
