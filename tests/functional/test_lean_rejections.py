# SPDX-License-Identifier: Apache-2.0
"""The broker rejects messages (basic.nack): its queue has no leader now, or is full."""

from __future__ import annotations

import json

import amqp
import oslo_messaging
import pytest

from fleet.rpc.rabbit.conf import LEAN
from fleet.rpc.rabbit.lean import publication
from fleet.telemetry import metrics
from fleet_trial import private_servers
from tests.functional.test_lean_driver import client_of, eventually, opened, serving, topic  # noqa: F401  (a fixture)

#: As between the death of the leader's node and an election. The leader corrects the record within some seconds.
_NAME_A_DEAD_LEADER = """
rabbit_misc:execute_mnesia_transaction(fun() ->
    rabbit_amqqueue:update(rabbit_misc:r(<<"/">>, queue, <<"{queue}">>), fun(Queue) ->
        {{Name, _Node}} = amqqueue:get_pid(Queue),
        amqqueue:set_pid(Queue, {{Name, dead@localhost}})
    end)
end).
"""


@pytest.mark.long
def test_a_channel_that_met_a_dead_leader(broker: private_servers.RabbitMQ, topic: str) -> None:  # noqa: F811
    """The first message of a channel finds the queue's leader dead; it is accepted once there is another leader.

    RabbitMQ rejects all later messages of this channel, so the driver must use another one.
    """
    url = f"{broker.url}?rabbit_quorum_queue=true"
    with serving(url, LEAN, topic) as endpoint:
        for send in ("cast", "call"):
            with opened(url, LEAN) as bus:
                broker.ctl("eval", _NAME_A_DEAD_LEADER.format(queue=topic))
                getattr(client_of(bus, topic), send)({}, "echo", value=send)
                assert 2 >= len(bus._driver._out()._publisher._channels)
        assert ["call", "cast"] == sorted(endpoint.heard)


def test_a_queue_that_is_full(
    broker: private_servers.RabbitMQ,
    topic: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message that is rejected for good ends with an error; messages to other queues are accepted meanwhile."""
    monkeypatch.setattr(publication, "_REJECTED_S", 0.5)
    with amqp.Connection(f"127.0.0.1:{broker.port}", userid="guest", password=broker.password) as raw:
        full = {"x-max-length": 0, "x-overflow": "reject-publish"}
        raw.channel().queue_declare(f"{topic}-full", durable=True, auto_delete=False, arguments=full)
        with opened(broker.url, LEAN) as bus, serving(broker.url, LEAN, topic):
            raw.channel().queue_bind(f"{topic}-full", "four-ways", f"{topic}-full")
            to_full, calls = client_of(bus, f"{topic}-full"), client_of(bus, topic)
            for number in range(3):
                with pytest.raises(oslo_messaging.MessageDeliveryFailure):
                    to_full.cast({}, "echo", value=number)
                with pytest.raises(oslo_messaging.MessageDeliveryFailure):
                    to_full.call({}, "echo", value=number)
                assert number == calls.call({}, "echo", value=number)
        raw.channel().queue_delete(f"{topic}-full")


def test_a_reply_that_is_rejected(broker: private_servers.RabbitMQ, topic: str) -> None:  # noqa: F811
    """It is sent again until its queue accepts it, and no thread of a caller waits for that."""
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    with amqp.Connection(f"127.0.0.1:{broker.port}", userid="guest", password=broker.password) as raw:
        channel = raw.channel()
        channel.queue_declare(topic, durable=True, auto_delete=False, arguments=full)
        with opened(broker.url, LEAN) as bus:
            out = bus._driver._out()
            out.reply(topic, b"first")
            eventually(lambda: 1 == channel.queue_declare(topic, passive=True).message_count)
            dropped = metrics.ANSWERS_DROPPED._value.get()
            out.reply(topic, b"second")
            eventually(lambda: out._rejected._thread is not None)
            assert "first" == channel.basic_get(topic, no_ack=True).body
            eventually(lambda: 1 == channel.queue_declare(topic, passive=True).message_count)
            assert "second" == channel.basic_get(topic, no_ack=True).body
            assert dropped == metrics.ANSWERS_DROPPED._value.get()
        channel.queue_delete(topic)


def test_a_reply_that_is_rejected_for_good(
    broker: private_servers.RabbitMQ,
    topic: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is dropped and counted after a time."""
    monkeypatch.setattr(publication, "_REJECTED_S", 0.5)
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    with amqp.Connection(f"127.0.0.1:{broker.port}", userid="guest", password=broker.password) as raw:
        raw.channel().queue_declare(topic, durable=True, auto_delete=False, arguments=full)
        with opened(broker.url, LEAN) as bus:
            dropped = metrics.ANSWERS_DROPPED._value.get()
            bus._driver._out().reply(topic, b"reply")
            eventually(lambda: dropped + 1 == metrics.ANSWERS_DROPPED._value.get())
        raw.channel().queue_delete(topic)


def test_a_message_that_comes_twice(broker: private_servers.RabbitMQ, topic: str) -> None:  # noqa: F811
    """It is handled once. It counts as repeated, and not as unreadable."""
    body = json.dumps({"method": "echo", "args": {"value": 1}, "version": "1.0", "_unique_id": "one"})
    sent = amqp.Message(json.dumps({"oslo.version": "2.0", "oslo.message": body}),
                        content_type="application/json", content_encoding="utf-8")  # fmt: skip
    before = metrics.MESSAGES_REPEATED._value.get(), metrics.MESSAGES_UNREADABLE._value.get()
    with (
        serving(broker.url, LEAN, topic) as endpoint,
        amqp.Connection(f"127.0.0.1:{broker.port}", userid="guest", password=broker.password) as raw,
    ):
        for _twice in range(2):
            raw.channel().basic_publish(sent, "four-ways", topic)
        eventually(lambda: before[0] + 1 == metrics.MESSAGES_REPEATED._value.get())
        # The first one is handled by another thread.
        eventually(lambda: endpoint.heard)
        assert [1] == endpoint.heard
    assert before[1] == metrics.MESSAGES_UNREADABLE._value.get()
