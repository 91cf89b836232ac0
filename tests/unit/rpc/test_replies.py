# SPDX-License-Identifier: Apache-2.0
"""An answer says on the wire what oslo.messaging's says, and goes its way where the quick one fails."""

from __future__ import annotations

import contextlib
import gc
import json
import socket
import weakref
from collections.abc import Iterator
from typing import Any
from unittest import mock

import amqp
import oslo_messaging
import pytest
from oslo_messaging._drivers import amqp as rpc_amqp
from oslo_messaging._drivers import amqpdriver, common

from fleet.rpc.rabbit import late_replies, replies
from fleet.telemetry import metrics

MSG_ID, QUEUE = "a1", "reply_of_somebody"
RETURNED = oslo_messaging.MessageUndeliverable(None, "", QUEUE, None)
ANSWER = [{"host": "höst", "limits": {"vcpu": 16.0}, "decision": None}]


class Connection:
    """Keeps what is sent in either way."""

    kombu_compression = None
    direct_mandatory_flag = True

    def __init__(self) -> None:
        self._connection_lock = contextlib.nullcontext()
        self.broker, ours = socket.socketpair()
        self.channel = mock.Mock(_confirm_selected=True)
        self.channel.connection.sock = ours
        self.channel.prepare_message.side_effect = lambda body, **properties: (body, properties)
        self.sent_by_oslo: list[tuple[str, dict[str, Any]]] = []

    def direct_send(self, queue: str, message: dict[str, Any]) -> None:
        self.sent_by_oslo.append((queue, message))

    def close(self) -> None:
        self.broker.close()
        self.channel.connection.sock.close()


@pytest.fixture
def connection() -> Iterator[Connection]:
    made = Connection()
    yield made
    made.close()


@pytest.fixture
def abandoned() -> amqpdriver.ObsoleteReplyQueuesCache:
    return amqpdriver.ObsoleteReplyQueuesCache()


@pytest.fixture
def incoming(connection: Connection, abandoned: amqpdriver.ObsoleteReplyQueuesCache) -> Any:
    return replies.send_directly(_incoming(connection, abandoned))


def _incoming(connection: Connection, abandoned: Any, msg_id: str | None = MSG_ID) -> Any:
    @contextlib.contextmanager
    def borrowed(purpose: object) -> Iterator[Connection]:
        assert common.PURPOSE_SEND == purpose
        yield connection

    driver = mock.Mock(_get_connection=borrowed, missing_destination_retry_timeout=60)
    listener = mock.Mock(driver=driver)
    return amqpdriver.AMQPIncomingMessage(listener, {}, {}, "u1", msg_id, QUEUE, None, abandoned, mock.Mock())


def _content(envelope: dict[str, Any]) -> dict[str, Any]:
    content = json.loads(envelope[common._MESSAGE_KEY])
    assert content.pop(rpc_amqp.UNIQUE_ID)
    return {**envelope, common._MESSAGE_KEY: content}


def test_it_says_what_oslo_messaging_says(connection: Connection, abandoned: Any, incoming: Any) -> None:
    """To the same queue, in the same envelope, with one publish."""
    incoming.reply(ANSWER)
    _incoming(connection, abandoned).reply(ANSWER)

    sent = connection.channel.send_method.call_args
    body, properties = sent.args[-1]
    ((queue, envelope),) = connection.sent_by_oslo
    assert _content(envelope) == _content(json.loads(body))
    assert ("application/json", "utf-8") == (properties["content_type"], properties["content_encoding"])
    usual = mock.MagicMock()
    amqp.Channel._basic_publish(usual, sent.args[-1], exchange="", routing_key=queue, mandatory=True)
    assert usual.send_method.call_args == sent
    (wanted,), _how = connection.channel.wait.call_args
    assert [amqp.spec.Basic.Ack, amqp.spec.Basic.Nack] == wanted


@pytest.mark.parametrize("confirms", [True, False])
def test_what_the_broker_has_sent_is_read_before(connection: Connection, incoming: Any, confirms: bool) -> None:
    """A receipt that an earlier message did not wait for is not this one's; nor is there one before it is asked for."""
    connection.channel._confirm_selected = confirms
    if confirms:
        connection.broker.send(b"a receipt")
    incoming.reply(ANSWER)
    assert not connection.channel.send_method.called
    _message, sent = connection.channel.basic_publish.call_args
    assert {"exchange": "", "routing_key": QUEUE, "mandatory": True} == sent
    assert [] == connection.sent_by_oslo


def test_an_answer_that_the_broker_refuses_is_sent_again(connection: Connection, incoming: Any) -> None:
    """It says so in place of the receipt."""
    connection.channel.wait.side_effect = lambda _methods, callback: callback(amqp.spec.Basic.Nack, 1, False)
    incoming.reply(ANSWER)
    assert [QUEUE] == [queue for queue, _message in connection.sent_by_oslo]


@pytest.mark.parametrize("failure", [OSError("lost"), AttributeError("never connected")], ids=repr)
def test_a_lost_connection_is_oslo_messaging_s_to_mend(
    connection: Connection, incoming: Any, failure: Exception
) -> None:
    """It connects again, and tells of it; the answer is sent once more."""
    connection.channel.wait.side_effect = failure
    incoming.reply(ANSWER)
    assert [QUEUE] == [queue for queue, _message in connection.sent_by_oslo]


@pytest.mark.parametrize("answer", [{"reply": ANSWER}, {"failure": (ValueError, ValueError("bad"), None)}], ids=str)
def test_a_caller_that_is_gone_holds_nobody_up(
    connection: Connection, incoming: Any, answer: dict[str, Any], late: list[Any]
) -> None:
    """Its answer is handed over; the broker's receipt, which comes after the returned message, is read before."""
    waits: list[Any] = []

    def wait(methods: Any, **options: Any) -> None:
        waits.append(options)
        if "callback" in options:
            raise RETURNED

    connection.channel.wait.side_effect = wait
    incoming.reply(**answer)
    assert ([incoming], []) == ([each for each, _send in late], connection.sent_by_oslo)
    assert {"timeout": replies.RECEIPT_S} == waits[1]


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is handed over."""
    taken: list[Any] = []
    monkeypatch.setattr(late_replies.LATE, "take", lambda *given: taken.append(given))
    return taken


def test_a_failure_says_what_oslo_messaging_s_does(connection: Connection, abandoned: Any, incoming: Any) -> None:
    """In the same envelope, with the error's class and facts."""
    failure = (ValueError, ValueError("bad"), None)
    incoming.reply(failure=failure)
    _incoming(connection, abandoned).reply(failure=failure)
    body, _properties = connection.channel.send_method.call_args.args[-1]
    ((_queue, envelope),) = connection.sent_by_oslo
    assert _content(envelope) == _content(json.loads(body))
    assert "bad" in str(envelope)


def test_compression_is_done_where_it_is_wanted(connection: Connection, incoming: Any) -> None:
    """By who knows how."""
    connection.kombu_compression = "gzip"
    incoming.reply(ANSWER)
    assert (False, 1) == (connection.channel.send_method.called, len(connection.sent_by_oslo))


def test_nobody_is_answered_who_does_not_wait(connection: Connection, abandoned: Any) -> None:
    """A cast has no answer."""
    replies.send_directly(_incoming(connection, abandoned, msg_id=None)).reply(ANSWER)
    assert (False, []) == (connection.channel.send_method.called, connection.sent_by_oslo)


@pytest.mark.parametrize("is_back", [True, False])
def test_a_caller_that_was_given_up_is_tried_once(
    connection: Connection, abandoned: Any, incoming: Any, late: list[Any], is_back: bool
) -> None:
    """After a broker's restart it declares its queue again, under the same name."""
    if not is_back:
        connection.channel.wait.side_effect = [RETURNED, None]
    abandoned.add(QUEUE, MSG_ID)
    before = metrics.ANSWERS_DROPPED._value.get()
    incoming.reply(ANSWER)
    assert 1 == connection.channel.send_method.call_count
    assert (0 if is_back else 1) == metrics.ANSWERS_DROPPED._value.get() - before
    assert ([], []) == (late, connection.sent_by_oslo)


def test_other_transports_are_left_alone() -> None:
    """The embedded one answers in its own way."""
    other = mock.Mock()
    reply = other.reply
    assert replies.send_directly(other) is other
    assert other.reply is reply


def test_a_message_is_gone_as_soon_as_it_is_answered(connection: Connection, abandoned: Any) -> None:
    """It does not refer to itself: large ones would wait for the garbage collection."""
    gc.disable()
    try:
        message = replies.send_directly(_incoming(connection, abandoned))
        message.reply(ANSWER)
        known = weakref.ref(message)
        del message
        assert known() is None
    finally:
        gc.enable()
