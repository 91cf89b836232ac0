# SPDX-License-Identifier: Apache-2.0
"""A body that cannot be read is dropped or refused, whatever is wrong with it."""

from __future__ import annotations

import json
import sys
import zlib
from typing import Any

import amqp
import pytest
from oslo_messaging._drivers import common

from fleet import errors
from fleet.rpc.rabbit import message_body
from fleet.rpc.trust import admission

CALL = {"method": "ping", "args": {"arg": 1}, "_msg_id": "m1", "_reply_q": "reply_1", "_unique_id": "u1"}


def nested(depth: int) -> Any:
    value: Any = 1
    for _level in range(depth):
        value = [value]
    return value


def enveloped(message: object, version: object = "2.0") -> bytes:
    return json.dumps({"oslo.version": version, "oslo.message": json.dumps(message)}).encode()


def raw(body: bytes | str, **properties: Any) -> Any:
    return amqp.Message(body, **{"content_type": "application/json", "content_encoding": "utf-8", **properties})


def test_a_sound_message_is_read() -> None:
    """With an envelope or, as long ago, without; as bytes or as a text that py-amqp has decoded; compressed or not."""
    for body in (enveloped(CALL), enveloped(CALL).decode(), json.dumps(CALL)):
        assert (CALL, len(json.dumps(CALL))) == message_body.content_of(raw(body))
    packed = raw(zlib.compress(enveloped(CALL)), application_headers={"compression": "application/x-gzip"})
    assert CALL == message_body.content_of(packed)[0]
    content, _size = message_body.content_of(raw(enveloped({**CALL, "args": {"arg": "\U0001f600"}})))
    assert "\U0001f600" == content["args"]["arg"]


UNREADABLE = [
    (raw(b"{"), "no JSON"),
    (raw(b"[" * 3000), "no JSON, or nested too deeply"),
    (raw(b"\xff"), "not utf-8"),
    (raw(b"[]"), "its body is no mapping"),
    (raw(enveloped([])), "its content is no mapping"),
    (raw(enveloped(CALL, version="3.0")), "another version"),
    (raw(enveloped(CALL, version=None)), "another version"),
    (raw(b'{"oslo.version": "2.0", "oslo.message": 1}'), "no text"),
    (raw(enveloped(CALL), content_type="application/x-python-serialize"), "content type"),
    (raw(enveloped(CALL), content_encoding="utf-7"), "encoding"),
    (raw(b"xyz", application_headers={"compression": "application/x-gzip"}), "decompressed"),
    (raw(b"x", application_headers={"compression": "nonsense"}), "decompressed"),
    (raw(enveloped({**CALL, "_reply_q": ["q"]})), "_reply_q"),
    (raw(enveloped({**CALL, "_reply_q": "q" * 256})), "_reply_q"),
    (raw(enveloped({**CALL, "_reply_q": None})), "one of _msg_id and _reply_q"),
    (raw(enveloped({**CALL, "_unique_id": {}})), "_unique_id"),
]


@pytest.mark.parametrize(("message", "why"), UNREADABLE, ids=[why for _message, why in UNREADABLE])
def test_why_a_message_is_dropped(message: Any, why: str) -> None:
    """In words of which none are the sender's."""
    with pytest.raises(message_body.Unreadable, match=why):
        message_body.content_of(message)


def test_a_bomb_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decompression ends at the bound."""
    monkeypatch.setattr(message_body, "MAX_BODY_SIZE", 10_000)
    bomb = raw(zlib.compress(b"0" * 10_000_000), application_headers={"compression": "application/x-gzip"})
    with pytest.raises(message_body.Unreadable, match="larger than 10000"):
        message_body.content_of(bomb)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"_context_user_id": nested(300)}, "nested"),
        ({"args": {"arg": nested(70)}}, "nested"),
        ({"args": {"arg": "\ud800"}}, "surrogate"),
        ({"namespace": "compute_task", "args": {"request": {"a": [2**64]}}}, "request.a.0 must be a whole number from"),
        ({"namespace": "operator", "args": {"changes": {"a": -(10**300)}}}, "changes.a must be a whole number from"),
    ],
    ids=["context", "argument", "surrogate", "65 bits", "301 digits"],
)
def test_a_caller_that_can_be_answered_is(changes: dict[str, Any], why: str) -> None:
    """The dispatcher refuses what is passed on in the message's place."""
    content, _size = message_body.content_of(raw(enveloped({**CALL, **changes})))
    assert (CALL["_msg_id"], CALL["_reply_q"]) == (content["_msg_id"], content["_reply_q"])
    with pytest.raises(errors.InvalidInput, match=why):
        admission._check(content)


def test_large_numbers_arrive_as_they_are() -> None:
    """All whole numbers of 64 bits, floats, and digits within a text."""
    args = {"a": 2**64 - 1, "b": -(2**63), "c": 1e300, "d": "9" * 30, "e": 0.12345678901234567}
    call = {**CALL, "namespace": "compute_task", "args": args}
    assert call == message_body.content_of(raw(enveloped(call)))[0]


def test_a_failed_reply_is_read() -> None:
    """The error of a server, as oslo.messaging writes it."""
    try:
        raise errors.NotFound(kind="Host", name="h1")
    except errors.NotFound:
        failure = common.serialize_remote_exception(sys.exc_info())
    content = {"result": None, "failure": failure, "ending": True, "_msg_id": "m1", "_unique_id": "u1"}
    assert content == message_body.reply_of(raw(enveloped(content)))
    with pytest.raises(message_body.Unreadable, match="its failure is not the text of an error"):
        message_body.reply_of(raw(enveloped({**content, "failure": "{}"})))
