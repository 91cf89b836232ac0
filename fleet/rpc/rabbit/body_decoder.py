# SPDX-License-Identifier: Apache-2.0
"""Decodes a message's body before oslo.messaging does. Bodies that cannot be decoded are dropped, with one log line a
minute.

oslo.messaging decodes the body in the receiving thread. A body that it cannot decode costs a traceback, and some cost
the connection: the message is acknowledged before its context is copied, so it cannot be rejected when that fails.
Anybody with the broker's password can send such a body.

If the sender can be answered, the message is passed on with :data:`.message_size.REFUSED`, and :mod:`.admission`
answers it with ``InvalidInput``.
"""

from __future__ import annotations

import bz2
import json
import re
import zlib
from collections.abc import Collection
from typing import Any

from oslo_log import log as logging
from oslo_messaging._drivers import amqp as rpc_amqp
from oslo_messaging._drivers import common, impl_rabbit

from fleet.rpc.trust import message_size
from fleet.telemetry import metrics, rate_limited_log

LOG = logging.getLogger(__name__)

#: Bytes of a body. The envelope escapes its content once more, so this is twice the size of a message.
MAX_BODY_SIZE = 32 * 2**20
MAX_DEPTH = 64
_JSON = "application/json"
_UTF_8 = ("utf-8", "utf8", "us-ascii", "ascii")
#: AMQP's limit for the name of a queue.
_LONGEST_NAME = 255
_VERSION = re.compile(r"2(\.0)?")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
#: By kombu's name of the compression.
_INFLATERS: dict[str, Any] = {
    "application/x-gzip": zlib.decompressobj,
    "application/x-bz2": bz2.BZ2Decompressor,
}
_said = rate_limited_log.RateLimit()


class Unreadable(Exception):
    """The body cannot be decoded. The message is the reason in a few words, none of which are the sender's."""


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


def content_of(raw: Any) -> dict[str, Any]:
    """Return the content of a request. :raises Unreadable: it cannot be read, and nobody can be answered"""
    return _checked(*decoded(raw))


def decoded(raw: Any) -> tuple[dict[str, Any], str]:
    """Return the content of any message, with its text. :raises Unreadable:"""
    body = _body(raw)
    envelope = _mapping(_parsed(body), "its body")
    if not {common._VERSION_KEY, common._MESSAGE_KEY} <= envelope.keys():
        # From before there was an envelope.
        return envelope, body
    version, text = envelope[common._VERSION_KEY], envelope[common._MESSAGE_KEY]
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise Unreadable("its envelope has another version")
    if not isinstance(text, str):
        raise Unreadable("its envelope has no text")
    return _mapping(_parsed(text), "its content"), text


def _body(raw: Any) -> str:
    properties = raw.properties
    headers = properties.get("application_headers") or {}
    if properties.get("content_type", _JSON) != _JSON:
        raise Unreadable(f"its content type is not {_JSON}")
    if str(properties.get("content_encoding") or "utf-8").lower() not in _UTF_8:
        raise Unreadable("its encoding is not utf-8")
    if len(raw.body) > MAX_BODY_SIZE:
        raise Unreadable(f"it is larger than {MAX_BODY_SIZE} bytes")
    body = _inflated(raw.body, headers["compression"]) if "compression" in headers else raw.body
    try:
        return body if isinstance(body, str) else bytes(body).decode()
    except UnicodeDecodeError:
        raise Unreadable("its body is not utf-8") from None


def _inflated(body: Any, kind: object) -> bytes:
    """Return the body, decompressed up to the size limit. Senders may compress with gzip or bzip2
    ([oslo_messaging_rabbit] kombu_compression).
    """
    packed = body.encode("latin-1", "replace") if isinstance(body, str) else bytes(body)
    try:
        inflater = _INFLATERS[str(kind)]()
        found: bytes = inflater.decompress(packed, MAX_BODY_SIZE)
        done = inflater.eof
    except (KeyError, OSError, ValueError, zlib.error):
        raise Unreadable("it cannot be decompressed") from None
    if not done:
        raise Unreadable(f"it is larger than {MAX_BODY_SIZE} bytes, or cut off")
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("it is no JSON, or nested too deeply") from None


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable(f"{what} is no mapping")
    return value


def _checked(message: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the message if the fields that oslo.messaging reads are valid. :raises Unreadable: the sender cannot be
    answered
    """
    for name in ("_msg_id", "_reply_q", rpc_amqp.UNIQUE_ID):
        if not _is_name(message.get(name)):
            raise Unreadable(f"its {name} is not a short text")
    if (message.get("_msg_id") is None) != (message.get("_reply_q") is None):
        raise Unreadable("it has one of _msg_id and _reply_q")
    refused = _refused(message, text)
    if not refused:
        return message
    kept = {name: message[name] for name in ("_msg_id", "_reply_q", rpc_amqp.UNIQUE_ID) if name in message}
    return {**kept, message_size.REFUSED: refused}


def _is_name(value: object) -> bool:
    """Return True if the value may name a queue or message. None is valid: no name is needed."""
    if value is None:
        return True
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isascii() and value.isprintable()


def _refused(message: dict[str, Any], text: str) -> str:
    # The nesting is at most the number of brackets, and most messages have few.
    if text.count("[") + text.count("{") > MAX_DEPTH and message_size.is_deeper(message, MAX_DEPTH):
        return f"is nested more than {MAX_DEPTH} deep"
    if _SURROGATE.search(text):
        try:
            json.dumps(message, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return "has half a surrogate pair, which is no character"
    return ""
