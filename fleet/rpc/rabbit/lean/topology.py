# SPDX-License-Identifier: Apache-2.0
"""Exchanges and queues, with the names that oslo.messaging gives them.

Stock peers declare the same names. So arguments follow the same options, and a queue or exchange that exists with other
arguments is used as it is. The driver itself declares no queue that is both transient and not exclusive: brokers since
RabbitMQ 4.3 refuse those.

A classic queue lives on one node of a cluster. While this node is dead, no other node accepts a queue of its name::

    requests            quorum queues, where the operator asks for them: they are on several nodes
    orders to a host,   exclusive queues: they end with the connection that reads them. Their names end with a part that
    messages to all     is new for each connection: one that the broker still holds open is not waited for
    replies             a durable queue of the process, which outlives its connections. If its node is dead, the process
                        takes another one, and the callers that wait for a reply in the old one get an error
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable

import amqp
from oslo_log import log as logging

from fleet.json_codec import JSONMapping
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
    """A queue, and its binding to ``exchange`` with ``key``.

    :param exclusive: True for a queue of one connection, which makes its name unique
    """

    name: str
    exchange: Exchange
    key: str
    durable: bool
    auto_delete: bool
    arguments: JSONMapping = dataclasses.field(default_factory=dict)
    exclusive: bool = False


def topic_exchange(settings: Settings, name: str) -> Exchange:
    return Exchange(name, "topic", settings.durable, settings.auto_delete)


def fanout_exchange(settings: Settings, topic: str) -> Exchange:
    return Exchange(f"{topic}_fanout", "fanout", settings.durable_transient, auto_delete=True)


def topic_queue(settings: Settings, exchange: str, key: str, name: str = "") -> Queue:
    """Return the queue that all servers of a topic share, or that one server has. It survives the broker.

    Whether its messages do follows ``amqp_durable_queues``. The name does not have the exchange: another exchange with this
    topic has the same queue (:mod:`fleet.ledger_identity`).
    """
    made = topic_exchange(settings, exchange)
    return Queue(name or key, made, key, True, settings.auto_delete, settings.queue_arguments)


def host_queue(exchange: str, key: str) -> Queue:
    """Return the queue of one host, of the connection that reads it."""
    made = Exchange(exchange, "topic", durable=False, auto_delete=True)
    return Queue(key, made, key, durable=False, auto_delete=True, exclusive=True)


def shared_host_queue(settings: Settings, queue: Queue) -> Queue:
    """Return the queue of one host as earlier releases declare it, for users that may declare no other."""
    arguments = {"x-expires": 1000 * settings.unused_queues_s}
    return dataclasses.replace(queue, durable=True, exclusive=False, arguments=arguments)


def fanout_queue(settings: Settings, topic: str) -> Queue:
    """Return a queue of one connection for messages to all servers of a topic."""
    exchange = fanout_exchange(settings, topic)
    return Queue(f"{topic}_fanout", exchange, topic, False, True, FANOUT_BOUNDS, exclusive=True)


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


def declare_queue(connection: amqp.Connection, queue: Queue) -> str:
    """Declare a queue with its exchange, and bind it. Return its name at the broker.

    :raises amqp.NotFound: the node of a cluster on which the queue lives is dead
    :raises amqp.AMQPError: the broker refuses for another reason
    """
    declare_exchange(connection, queue.exchange)
    name = f"{queue.name}_{uuid.uuid4().hex}" if queue.exclusive else queue.name
    channel = connection.channel()
    try:
        channel.queue_declare(
            name,
            durable=queue.durable,
            exclusive=queue.exclusive,
            auto_delete=queue.auto_delete,
            arguments=dict(queue.arguments),
        )
    except amqp.ChannelError as refused:
        _accept_as_it_is("queue", name, refused)
        channel = connection.channel()
    if queue.exchange.name:
        channel.queue_bind(name, queue.exchange.name, queue.key)
    channel.close()
    return name


def consume_replies(connection: amqp.Connection, queue: Queue, callback: Callable[[amqp.Message], object]) -> None:
    """Declare a queue for replies and consume it on a channel of its own. :raises amqp.AMQPError: as declare_queue"""
    declare_queue(connection, queue)
    connection.channel().basic_consume(queue.name, no_ack=True, callback=callback)


def is_known(queue: Queue, other: amqp.Connection) -> bool:
    """Return True if another node of the cluster knows the queue, which was just declared.

    A node that stood still, or was cut off, may come back with a view of its own of queues and exchanges (a partition of
    Mnesia), until it is restarted. Replies from the other nodes do not reach queues that are declared there.
    """
    try:
        channel = other.channel()
        channel.queue_declare(queue.name, passive=True)
        channel.close()
    except amqp.NotFound:
        return False
    return True


def _accept_as_it_is(kind: str, name: str, refused: amqp.ChannelError) -> None:
    """:raises amqp.ChannelError: the broker refuses for another reason"""
    if refused.reply_code != _DIFFERS:
        raise refused
    LOG.warning("The %s %s exists with other arguments, and is used as it is: %s", kind, name, refused.reply_text)
