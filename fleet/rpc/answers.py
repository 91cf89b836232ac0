# SPDX-License-Identifier: Apache-2.0
"""Sends the answer of a call with one publish on a connection that is there; where that fails, as oslo.messaging does.

oslo.messaging builds an exchange, a retrying function and a producer's arguments for each answer, and sets the socket's
timeouts twice: half of what an answer takes, while its caller waits.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import time
import uuid
from typing import Any

import amqp
import oslo_messaging
from oslo_log import log as logging
from oslo_messaging._drivers import amqp as rpc_amqp
from oslo_messaging._drivers import amqpdriver, common
from oslo_serialization import jsonutils

LOG = logging.getLogger(__name__)

_ENCODER = json.JSONEncoder(default=jsonutils.to_primitive)
#: Before an answer that came back is sent again; as long as oslo.messaging waits.
UNDELIVERABLE_S = 0.25
#: AMQP's.
_PERSISTENT = 2


def at_once(incoming: Any) -> Any:
    """The same message, answered like this; of other transports than RabbitMQ's it is left as it is."""
    if type(incoming) is amqpdriver.AMQPIncomingMessage:
        incoming.__class__ = _AnsweredAtOnce
    return incoming


class _AnsweredAtOnce(amqpdriver.AMQPIncomingMessage):
    def reply(self, reply: Any = None, failure: Any = None) -> None:
        if failure or not self.orig_msg_id or not _is_sent(self, reply):
            super().reply(reply, failure)


def _is_sent(incoming: Any, reply: Any) -> bool:
    """False: it is not known to have arrived; who asked takes one answer, however many there are."""
    try:
        if not incoming._obsolete_reply_queues.reply_q_valid(incoming.reply_q, incoming.msg_id):
            return False
        body = body_of(incoming.msg_id, reply)
        with incoming.listener.driver._get_connection(common.PURPOSE_SEND) as connection, connection._connection_lock:
            if connection.kombu_compression:
                return False
            channel = connection.channel
            message = channel.prepare_message(
                body,
                content_type="application/json",
                content_encoding="utf-8",
                properties={"delivery_mode": _PERSISTENT},
            )
            try:
                _publish(channel, message, incoming.reply_q, connection.direct_mandatory_flag)
            except oslo_messaging.MessageUndeliverable:
                # The caller may be about to have its queue again. The broker's receipt comes after the message that was
                # returned, and whoever has the connection next must not take it for its own.
                time.sleep(UNDELIVERABLE_S)
                return False
        return True
    except Exception as failure:
        # Whatever the connection raises: the usual way meets it again, and knows what to do.
        LOG.debug("An answer is sent again, as the connection failed: %s", failure)
        return False


def _publish(channel: amqp.Channel, message: amqp.Message, queue: str, mandatory: bool) -> None:
    """As the channel does by itself, which first tries to read from its socket, and most of the time finds nothing.

    :raises oslo_messaging.MessageUndeliverable: there is no such queue; and whatever the connection raises
    """
    if not channel._confirm_selected or _has_sent_something(channel.connection.sock):
        channel.basic_publish(message, exchange="", routing_key=queue, mandatory=mandatory)
        return
    channel.send_method(amqp.spec.Basic.Publish, "Bssbb", (0, "", queue, mandatory, False), message)
    channel.wait([amqp.spec.Basic.Ack, amqp.spec.Basic.Nack], callback=_require_ack)


def _has_sent_something(broker: socket.socket) -> bool:
    """Such as a receipt that the one before did not wait for, or that it is short of memory."""
    if isinstance(broker, ssl.SSLSocket) and broker.pending():
        return True
    poller = select.poll()
    poller.register(broker, select.POLLIN)
    return bool(poller.poll(0))


def _require_ack(method: amqp.spec.method_t, *_arguments: object) -> None:
    """:raises amqp.exceptions.MessageNacked:"""
    if method == amqp.spec.Basic.Nack:
        raise amqp.exceptions.MessageNacked


def body_of(msg_id: str, reply: Any) -> bytes:
    """Of an answer's message, oslo.messaging's envelope included."""
    said = {"result": reply, "failure": None, "ending": True, "_msg_id": msg_id, rpc_amqp.UNIQUE_ID: uuid.uuid4().hex}
    envelope = {common._VERSION_KEY: common._RPC_ENVELOPE_VERSION, common._MESSAGE_KEY: _ENCODER.encode(said)}
    return _ENCODER.encode(envelope).encode()
