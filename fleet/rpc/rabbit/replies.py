# SPDX-License-Identifier: Apache-2.0
"""Sends the reply to a call with one publish on an open connection. If that fails, oslo.messaging sends it.

oslo.messaging builds an exchange, a retrying function and a producer's arguments for each reply, and sets the
socket's timeouts twice. That is half of the time of a reply, while the caller waits.
"""

from __future__ import annotations

import contextlib
import functools
import json
import select
import socket
import ssl
import uuid
from typing import Any

import amqp
import oslo_messaging
from oslo_log import log as logging
from oslo_messaging._drivers import amqp as rpc_amqp
from oslo_messaging._drivers import amqpdriver, common
from oslo_serialization import jsonutils

from fleet.rpc.rabbit import late_replies

LOG = logging.getLogger(__name__)

_ENCODER = json.JSONEncoder(default=jsonutils.to_primitive)
#: Seconds for the broker's receipt of a returned message.
RECEIPT_S = 0.25
#: AMQP's number of this delivery mode.
_PERSISTENT = 2


def send_directly(incoming: Any) -> Any:
    """Make a RabbitMQ message use this kind of reply, and return it. Messages of other transports are returned
    unchanged.
    """
    if type(incoming) is amqpdriver.AMQPIncomingMessage:
        incoming.__class__ = _DirectReply
    return incoming


class _DirectReply(amqpdriver.AMQPIncomingMessage):
    def reply(self, reply: Any = None, failure: Any = None) -> None:
        if not self.orig_msg_id:
            return
        try:
            send(self, body_of(self.msg_id, reply, failure))
        except oslo_messaging.MessageUndeliverable:
            if late_replies.is_abandoned(self):
                late_replies.dropped(self.reply_q)
                return
            # The caller may be about to declare its queue again. A thread of its own waits for that.
            late_replies.LATE.take(self, functools.partial(send, self, body_of(self.msg_id, reply, failure)))
        except Exception as trouble:
            # The connection may raise anything. oslo.messaging's own way meets the same error and handles it.
            LOG.debug("Sending a reply again after a connection failure: %s", trouble)
            super().reply(reply, failure)


def send(incoming: Any, body: bytes) -> None:
    """Publish the reply once.

    :raises oslo_messaging.MessageUndeliverable: the caller has no queue
    :raises Exception: any error of the connection: it is unknown whether the reply arrived
    """
    with incoming.listener.driver._get_connection(common.PURPOSE_SEND) as connection, connection._connection_lock:
        if connection.kombu_compression:
            raise _Compressed
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
            # The broker's receipt follows the returned message. The next user of the connection must not take it for
            # its own.
            with contextlib.suppress(TimeoutError):
                channel.wait([amqp.spec.Basic.Ack, amqp.spec.Basic.Nack], timeout=RECEIPT_S)
            raise


class _Compressed(Exception):
    """Replies must be compressed, which oslo.messaging does."""


def _publish(channel: amqp.Channel, message: amqp.Message, queue: str, mandatory: bool) -> None:
    """Publish as the channel does, but without its read from the socket, which finds nothing most of the time.

    :raises oslo_messaging.MessageUndeliverable: there is no such queue
    :raises Exception: any error of the connection
    """
    if not channel._confirm_selected or _has_sent_something(channel.connection.sock):
        channel.basic_publish(message, exchange="", routing_key=queue, mandatory=mandatory)
        return
    channel.send_method(amqp.spec.Basic.Publish, "Bssbb", (0, "", queue, mandatory, False), message)
    channel.wait([amqp.spec.Basic.Ack, amqp.spec.Basic.Nack], callback=_require_ack)


def _has_sent_something(broker: socket.socket) -> bool:
    """Return True if data from the broker is waiting, such as a late receipt or a memory alarm."""
    if isinstance(broker, ssl.SSLSocket) and broker.pending():
        return True
    poller = select.poll()
    poller.register(broker, select.POLLIN)
    return bool(poller.poll(0))


def _require_ack(method: amqp.spec.method_t, *_arguments: object) -> None:
    """:raises amqp.exceptions.MessageNacked:"""
    if method == amqp.spec.Basic.Nack:
        raise amqp.exceptions.MessageNacked


def body_of(msg_id: str, reply: Any, failure: Any = None) -> bytes:
    """Return the body of a reply in oslo.messaging's envelope.

    :param failure: ``sys.exc_info()`` in place of a reply
    """
    error = common.serialize_remote_exception(failure) if failure else None
    said = {"result": reply, "failure": error, "ending": True, "_msg_id": msg_id, rpc_amqp.UNIQUE_ID: uuid.uuid4().hex}
    envelope = {common._VERSION_KEY: common._RPC_ENVELOPE_VERSION, common._MESSAGE_KEY: _ENCODER.encode(said)}
    return _ENCODER.encode(envelope).encode()
