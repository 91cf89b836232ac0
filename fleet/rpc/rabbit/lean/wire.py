# SPDX-License-Identifier: Apache-2.0
"""Message bodies in oslo.messaging's wire format: requests and replies, in envelope version 2.0.

::

    body     {"oslo.version": "2.0", "oslo.message": JSON text of the content}
    request  the arguments of the dispatcher, "_context_NAME" for each value of the context, "_unique_id",
             and for a call "_msg_id", "_reply_q", "_timeout" (seconds between signs of life, or null)
    reply    "result", "failure" (JSON text, or null), "ending" (false for a sign of life), "_msg_id", "_unique_id"

Called by :mod:`fleet.rpc.rabbit.lean.outgoing` and the modules beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson
from oslo_serialization import jsonutils

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.rpc import oslo_drivers

#: Of a reply. RabbitMQ 4 carries messages of 16 MiB, if its max_message_size is not set.
MOST_BYTES = 15 * 2**20
_ENCODER = json.JSONEncoder(default=jsonutils.to_primitive)
_CONTEXT = "_context_"
_UNIQUE_ID = "_unique_id"


class Request(NamedTuple):
    """A received request. Without ``msg_id``, the sender waits for no reply."""

    context: JSONObject
    message: JSONObject
    unique_id: str | None
    msg_id: str | None
    reply_queue: str | None
    sign_of_life_s: Any
    #: Characters of its text.
    size: int


class Reply(NamedTuple):
    """A received reply; ``ending`` is False for a sign of life."""

    msg_id: str | None
    unique_id: str | None
    result: Any
    failure: Any
    ending: bool


def new_id() -> str:
    """Return an id that no other message has: 32 hexadecimal digits."""
    return os.urandom(16).hex()


def request_body(
    context: Any,
    message: Mapping[str, object],
    msg_id: str = "",
    reply_queue: str = "",
    sign_of_life_s: Any = None,
    unique_id: str = "",
) -> bytes:
    values = context if isinstance(context, Mapping) else context.to_dict()
    content = {**message, _UNIQUE_ID: unique_id or new_id()}
    content.update((f"{_CONTEXT}{name}", value) for name, value in values.items())
    if msg_id:
        content |= {"_msg_id": msg_id, "_reply_q": reply_queue, "_timeout": sign_of_life_s}
    return enveloped(content)


def notification_body(context: Any, message: Mapping[str, object], version: float) -> bytes:
    """Return the body of a notification. Its version decides whether it has an envelope."""
    if version >= 2.0:
        return request_body(context, message)
    values = context if isinstance(context, Mapping) else context.to_dict()
    content = {
        **message,
        _UNIQUE_ID: new_id(),
        **{f"{_CONTEXT}{name}": value for name, value in values.items()},
    }
    return _ENCODER.encode(content).encode()


def reply_body(msg_id: str, result: object = None, failure: object = None, ending: bool = True) -> bytes:
    """Return the body of a reply; of a failure if the result has more than MOST_BYTES.

    The broker would refuse it and close the connection, with the replies of others, or the caller would drop it.

    :param failure: ``sys.exc_info()`` in place of a result
    """
    error = oslo_drivers.serialize_remote_exception(failure) if failure else None
    content = {"result": result, "failure": error, "ending": ending, "_msg_id": msg_id, _UNIQUE_ID: new_id()}
    body = enveloped(content)
    if len(body) <= MOST_BYTES or failure:
        return body
    reason = (
        f"is too large: {len(body) // 2**20} MiB, and a message has at most {MOST_BYTES // 2**20}. Ask for less of it"
    )
    refusal = errors.InvalidInput(field=errors.InvalidInput.ANSWER, reason=reason)
    return reply_body(msg_id, failure=(type(refusal), refusal, None))


def enveloped(content: JSONMapping) -> bytes:
    # The text is ASCII, and has no numbers that orjson would change.
    return orjson.dumps({"oslo.version": "2.0", "oslo.message": _ENCODER.encode(content)})


def read_request(content: JSONObject, size: int) -> Request:
    """Split the content of a request. It is changed."""
    context = {name.removeprefix(_CONTEXT): content.pop(name) for name in list(content) if name.startswith(_CONTEXT)}
    unique_id, msg_id = content.pop(_UNIQUE_ID, None), content.pop("_msg_id", None)
    reply_queue, sign_of_life_s = content.pop("_reply_q", None), content.pop("_timeout", None)
    return Request(context, content, unique_id, msg_id, reply_queue, sign_of_life_s, size)


def read_reply(content: JSONMapping) -> Reply:
    ending = bool(content.get("ending", False))
    return Reply(content.get("_msg_id"), content.get(_UNIQUE_ID), content.get("result"), content.get("failure"), ending)
