# SPDX-License-Identifier: Apache-2.0
"""The stock driver's consumer, with our decoding of message bodies.

oslo.messaging decodes the body in the receiving thread. A body that it cannot decode costs a traceback, and some cost
the connection: the message is acknowledged before its context is copied, so it cannot be rejected when that fails.
Here such a message is dropped, with one log line a minute.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from oslo_log import log as logging
from oslo_messaging._drivers import amqp as rpc_amqp
from oslo_messaging._drivers import impl_rabbit

from fleet.rpc.rabbit.message_body import Unreadable, content_of
from fleet.telemetry import metrics, rate_limited_log

LOG = logging.getLogger(__name__)

_said = rate_limited_log.RateLimit()


class CarefulConsumer(impl_rabbit.Consumer):
    """A consumer of oslo.messaging that decodes messages with this module."""

    def _callback(self, message: Any) -> None:
        try:
            unpacked = Unpacked(message)
            if not _is_repeated(unpacked, self.callback):
                self.callback(unpacked)
                return
            reason = "it came before"
        except Unreadable as unreadable:
            reason = str(unreadable)
        except Exception as failure:
            # A bug here must not cost the connection, which other messages use.
            reason = type(failure).__name__
        metrics.MESSAGES_UNREADABLE.inc()
        left_out = _said.due(reason)
        if left_out is not None:
            LOG.warning(
                "A message in queue %s is dropped: %s (%d more since the last such line)",
                *(self.queue_name, reason, left_out),
            )
        _acknowledge(message)


def make_careful(connection: Any) -> None:
    """Replace all consumers of an oslo.messaging connection. They must not have received a message yet."""
    if not isinstance(connection, impl_rabbit.Connection):
        return
    for consumer in connection._consumers:
        if type(consumer) is impl_rabbit.Consumer:
            consumer.__class__ = CarefulConsumer


def _is_repeated(unpacked: Unpacked, callback: Any) -> bool:
    """Return True for a message that was delivered before. oslo.messaging drops it, too, with a traceback."""
    cache = getattr(callback, "msg_id_cache", None)
    seen: Collection[Any] = cache.prev_msgids if cache is not None else ()
    unique_id = unpacked.get(rpc_amqp.UNIQUE_ID)
    return unique_id is not None and unique_id in seen


def _acknowledge(message: Any) -> None:
    try:
        message.channel.basic_ack(message.delivery_tag)
    except Exception as lost:
        LOG.debug("Cannot acknowledge a message that is dropped: %s", type(lost).__name__)


class Unpacked(impl_rabbit.RabbitMessage):
    """The message that oslo.messaging's listener takes, made from py-amqp's message."""

    def __init__(self, raw: Any) -> None:
        """:raises Unreadable:"""
        dict.__init__(self, content_of(raw))
        self._raw_message = raw

    def acknowledge(self) -> None:
        self._raw_message.channel.basic_ack(self._raw_message.delivery_tag)

    def requeue(self) -> None:
        self._raw_message.channel.basic_reject(self._raw_message.delivery_tag, requeue=True)
