# SPDX-License-Identifier: Apache-2.0
"""Decode message bodies with bounds on size and depth.

Called by the modules beside it and those of :mod:`fleet.rpc.rabbit.lean`. Anybody with the broker's password can send
any body.

If the sender of a bad request can be answered, the content is returned with
:data:`fleet.rpc.trust.message_size.REFUSED`, and
:mod:`fleet.rpc.trust.admission` answers it with ``InvalidInput``.
"""

from __future__ import annotations

import bz2
import re
import zlib
from typing import Any

from fleet import errors, json_codec
from fleet.json_codec import JSONObject
from fleet.rpc.trust import message_size

#: Bytes of a body. The envelope escapes its content once more, so this is twice the size of a message.
MAX_BODY_SIZE = 32 * 2**20
MAX_DEPTH = 64
_JSON = "application/json"
_UTF_8 = ("utf-8", "utf8", "us-ascii", "ascii")
#: AMQP's limit for the name of a queue.
_LONGEST_NAME = 255
_VERSION = re.compile(r"2(\.0)?")
#: By kombu's name of the compression.
_INFLATERS: JSONObject = {
    "application/x-gzip": zlib.decompressobj,
    "application/x-bz2": bz2.BZ2Decompressor,
}
#: Keys of oslo.messaging's envelope, and of its messages.
_VERSION_KEY, _MESSAGE_KEY, _UNIQUE_ID = "oslo.version", "oslo.message", "_unique_id"


class Unreadable(Exception):
    """The body cannot be decoded. The message is a short reason, which quotes nothing of the body."""


def content_of(raw: object) -> tuple[dict[str, object], int]:
    """Return the content of a request, with the number of characters of its text.

    :raises Unreadable: it cannot be read, so no reply can be sent
    """
    content, text, is_strict = _decoded(raw)
    return _checked(content, text, is_strict), len(text)


def reply_of(raw: object) -> dict[str, object]:
    """Return the content of a reply. Every field that the driver reads is valid. :raises Unreadable:"""
    content, _text = decoded(raw)
    for name in ("_msg_id", _UNIQUE_ID):
        if not _is_name(content.get(name)):
            raise Unreadable(f"its {name} is not a short text")
    if not isinstance(content.get("ending", False), bool):
        raise Unreadable("its ending is neither true nor false")
    failure = content.get("failure")
    if failure is not None and not (isinstance(failure, str) and _is_error(_parsed(failure)[0])):
        raise Unreadable("its failure is not the text of an error")
    return content


def _is_error(value: object) -> bool:
    """Return True for the form in which oslo.messaging sends an exception."""
    if not isinstance(value, dict):
        return False
    trace = value.get("tb", [])
    texts = [value.get("class"), value.get("module"), value.get("message", "")]
    kinds = isinstance(value.get("args", []), list), isinstance(value.get("kwargs", {}), dict), isinstance(trace, list)
    return all(kinds) and all(isinstance(each, str) for each in [*texts, *trace])


def decoded(raw: object) -> tuple[dict[str, object], str]:
    """Return the content of any message, with its text. :raises Unreadable:"""
    return _decoded(raw)[:2]


def _decoded(raw: object) -> tuple[dict[str, object], str, bool]:
    body = _body(raw)
    parsed, is_strict = _parsed(body)
    envelope = _mapping(parsed, "its body")
    if not {_VERSION_KEY, _MESSAGE_KEY} <= envelope.keys():
        # From before there was an envelope.
        return envelope, body, is_strict
    version, text = envelope[_VERSION_KEY], envelope[_MESSAGE_KEY]
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise Unreadable("its envelope has another version")
    if not isinstance(text, str):
        raise Unreadable("its envelope has no text")
    parsed, is_strict = _parsed(text)
    return _mapping(parsed, "its content"), text, is_strict


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


def _parsed(text: str) -> tuple[object, bool]:
    """Return the value, and whether the strict reader has read it. Peers may write numbers such as NaN, which are no JSON;
    a request with one is refused by name.
    """
    try:
        return json_codec.loads(text), True
    except ValueError:
        pass
    try:
        return json_codec.parsed(text), False
    except (ValueError, RecursionError):
        raise Unreadable("it is no JSON, or nested too deeply") from None


def _mapping(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise Unreadable(f"{what} is no mapping")
    return value


def _checked(message: JSONObject, text: str, is_strict: bool) -> dict[str, object]:
    """Return the message if the fields that oslo.messaging reads are valid.

    :param is_strict: whether the strict reader has read ``text``
    :raises Unreadable: the sender cannot be answered
    """
    for name in ("_msg_id", "_reply_q", _UNIQUE_ID):
        if not _is_name(message.get(name)):
            raise Unreadable(f"its {name} is not a short text")
    if (message.get("_msg_id") is None) != (message.get("_reply_q") is None):
        raise Unreadable("it has one of _msg_id and _reply_q")
    refused = _refused(message, text, is_strict)
    if not refused:
        return message
    kept = {name: message[name] for name in ("_msg_id", "_reply_q", _UNIQUE_ID) if name in message}
    return {**kept, message_size.REFUSED: refused}


def _is_name(value: object) -> bool:
    """Return True if the value may name a queue or message. None is valid: no name is needed."""
    if value is None:
        return True
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isascii() and value.isprintable()


def _refused(message: JSONObject, text: str, is_strict: bool) -> str:
    # The nesting is at most the number of brackets, and most messages have few.
    if text.count("[") + text.count("{") > MAX_DEPTH and json_codec.is_deeper(message, MAX_DEPTH):
        return f"is nested more than {MAX_DEPTH} deep"
    is_changed = message.get("namespace") in message_size.FREE_FORM and json_codec.may_have_long_numbers(text)
    if is_strict and "\\u0000" not in text and not is_changed:
        return ""
    try:
        # The strict reader has made floats of whole numbers beyond 64 bits.
        json_codec.require(json_codec.parsed(text) if is_changed else message)
    except errors.InvalidInput as wrong:
        return f"has a value that cannot be stored: {wrong.field.removeprefix('args.')} {wrong.reason}"
    return ""
