# SPDX-License-Identifier: Apache-2.0
"""Messages that reach no endpoint, and the log lines about them."""

from __future__ import annotations

import types
from typing import Any
from unittest import mock

import pytest
from oslo_messaging.rpc import dispatcher

from fleet.context import new_context
from fleet.rpc import serializer
from fleet.rpc.rabbit.lean import incoming as lean_incoming
from fleet.rpc.rabbit.lean import wire
from fleet.rpc.trust import admission, signing
from fleet.telemetry import rate_limited_log

#: Instead of 16 MiB.
SIZE = 10_000


@pytest.fixture(autouse=True)
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_MESSAGE_SIZE", SIZE)


class Endpoint:
    def __init__(self) -> None:
        self.seen: list[object] = []

    def take(self, _context: object, value: object) -> str:
        self.seen.append(value)
        return "taken"


def nested(depth: int) -> object:
    value: object = 1
    for _level in range(depth):
        value = [value]
    return value


def message(value: object = 1, **changes: object) -> dict[str, Any]:
    return {"method": "take", "args": {"value": value}, **changes}


def incoming(sent: dict[str, Any]) -> types.SimpleNamespace:
    return types.SimpleNamespace(message=sent, ctxt=new_context().to_dict(), client_timeout=None)


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def receiving(endpoint: Endpoint, now: list[float]) -> admission.Dispatcher:
    policy = dispatcher.DefaultRPCAccessPolicy
    return admission.Dispatcher([endpoint], serializer.ContextSerializer(), policy, clock=lambda: now[0])


# A message is a mapping of a mapping: two levels more than its value.
ALLOWED = [
    ("small", message("one")),
    ("as large as allowed", message("x" * (SIZE - 100))),
    ("as deep as allowed", message(nested(admission.MAX_MESSAGE_DEPTH - 3))),
    ("with more brackets than may be in one another", message(["[" * 1000, [[]] * 1000])),
]
REFUSED = [
    ("one text is too large", message("x" * SIZE), "message is larger"),
    ("keys are too large", message({"x" * SIZE: 1}), "message is larger"),
    ("many small things are too large", message([0] * SIZE), "message is larger"),
    ("a method that is too large", message(method="x" * SIZE), "message is larger"),
    ("too deep", message(nested(admission.MAX_MESSAGE_DEPTH)), "nested more than"),
    ("a method that nobody knows", message(method="nothing"), "RPC method nothing"),
    ("a version of tomorrow", message(version="9.0"), "RPC version 9.0"),
    ("no method", message(method=None), "message.method"),
    ("no arguments to speak of", message(args=7), "message.args"),
]


@pytest.mark.parametrize(("what", "sent"), ALLOWED, ids=[case[0] for case in ALLOWED])
def test_what_is_taken(receiving: admission.Dispatcher, endpoint: Endpoint, what: str, sent: dict[str, Any]) -> None:
    """Up to the bounds a message goes to its endpoint."""
    assert "taken" == receiving.dispatch(incoming(sent))
    assert [sent["args"]["value"]] == endpoint.seen


@pytest.mark.parametrize(("what", "sent", "said"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_is_refused(
    receiving: admission.Dispatcher, endpoint: Endpoint, caplog: Any, what: str, sent: dict[str, Any], said: str
) -> None:
    """The caller gets the reason, the log a short line without a traceback, and no endpoint is called."""
    with pytest.raises(dispatcher.ExpectedException) as caught:
        receiving.dispatch(incoming(sent))
    assert said in str(caught.value.exc_info[1])
    (record,) = caplog.records
    assert said in record.getMessage()
    assert (len(record.getMessage()) < 250, None) == (True, record.exc_info)
    assert [] == endpoint.seen


def test_a_flood_is_one_line_a_minute(receiving: admission.Dispatcher, now: list[float], caplog: Any) -> None:
    """With how many there were."""
    for _number in range(500):
        with pytest.raises(dispatcher.ExpectedException):
            receiving.dispatch(incoming(message(method="nothing")))
    now[0] += rate_limited_log.LINE_EVERY_S
    with pytest.raises(dispatcher.ExpectedException):
        receiving.dispatch(incoming(message(method="nothing")))
    assert ["(0 more since the last such line)", "(499 more since the last such line)"] == [
        "(" + line.rpartition("(")[2] for line in caplog.messages
    ]


def test_an_endpoints_own_refusal_is_its_own(now: list[float], caplog: Any) -> None:
    """An endpoint's error about its arguments is not counted as a refused message."""

    class Picky:
        def take(self, _context: object, value: object) -> None:
            raise dispatcher.ExpectedException

    picky = admission.Dispatcher([Picky()], serializer.ContextSerializer(), dispatcher.DefaultRPCAccessPolicy)
    with pytest.raises(dispatcher.ExpectedException):
        picky.dispatch(incoming(message()))
    assert [] == caplog.messages


def test_a_repeated_message_is_not_answered(endpoint: Endpoint) -> None:
    """Its caller would take the refusal for the answer to the first one."""

    class Checker:
        def check(self, _context: object, _message: object) -> None:
            raise signing.Repeated(reason="it came before")

    receiving = admission.Dispatcher(
        [endpoint],
        serializer.ContextSerializer(),
        admission.MethodsOnly,
        checker=Checker(),  # type: ignore[arg-type]
    )
    out = mock.Mock()
    request = wire.Request(new_context().to_dict(), message(), "u1", "m1", "replies", None, 100)
    repeated = lean_incoming.Incoming(request, out)
    with pytest.raises(dispatcher.ExpectedException) as refused:
        receiving.dispatch(repeated)
    repeated.reply(failure=refused.value.exc_info)
    assert ([], []) == (out.mock_calls, endpoint.seen)
