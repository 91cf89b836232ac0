# SPDX-License-Identifier: Apache-2.0
"""The broker rejects messages (basic.nack): its queue has no leader now, or is full."""

from __future__ import annotations

import amqp
import oslo_messaging
import pytest

from fleet.rpc.rabbit.conf import LEAN
from fleet.rpc.rabbit.lean import publication
from fleet.trial import private_servers
from tests.functional.test_lean_driver import client_of, opened, serving, topic  # noqa: F401  (a fixture)

#: As between the death of the leader's node and an election. The leader corrects the record within some seconds.
_NAME_A_DEAD_LEADER = """
rabbit_misc:execute_mnesia_transaction(fun() ->
    rabbit_amqqueue:update(rabbit_misc:r(<<"/">>, queue, <<"{queue}">>), fun(Queue) ->
        {{Name, _Node}} = amqqueue:get_pid(Queue),
        amqqueue:set_pid(Queue, {{Name, dead@localhost}})
    end)
end).
"""


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
                assert 2 >= len(bus._driver._out()._channels)
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
