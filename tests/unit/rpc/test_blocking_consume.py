# SPDX-License-Identifier: Apache-2.0
"""How long, and by which way, a server's thread waits for the next message."""

from __future__ import annotations

import types
from unittest import mock

import amqp
import pytest
from oslo_messaging._drivers import amqpdriver, common

from fleet.rpc.rabbit import blocking_consume


@pytest.fixture
def broker() -> mock.Mock:
    """kombu's connection: brings messages."""
    return mock.Mock(connected=True)


@pytest.fixture
def lasting(broker: mock.Mock) -> mock.Mock:
    """oslo.messaging's, which mends it."""
    return mock.Mock(connection=broker, _new_tags=set(), _consume_loop_stopped=False, _poll_timeout=5)


@pytest.fixture
def borrowed(lasting: mock.Mock) -> mock.Mock:
    return mock.Mock(connection=lasting)


def listener(borrowed: mock.Mock) -> amqpdriver.RpcAMQPListener:
    driver = types.SimpleNamespace(prefetch_size=1)
    polled = amqpdriver.RpcAMQPListener(driver, borrowed)
    adapted = types.SimpleNamespace(_poll_style_listener=polled)
    assert blocking_consume.wrap(adapted) is adapted  # type: ignore[arg-type, comparison-overlap]
    return polled


def test_a_message_comes_straight_from_the_broker(broker: mock.Mock, lasting: mock.Mock, borrowed: mock.Mock) -> None:
    """It is waited for at length each time, also when there has just been one."""
    polled = listener(borrowed)
    broker.drain_events.side_effect = lambda timeout: polled.incoming.append(mock.Mock())
    for _message in range(3):
        assert polled.poll()
    assert [mock.call(timeout=blocking_consume.LISTEN_S)] * 3 == broker.drain_events.call_args_list
    assert not lasting.consume.called


@pytest.mark.parametrize(
    "trouble",
    [
        ConnectionResetError("gone"),
        AttributeError("closed"),
        amqp.ConsumerCancelled("queue deleted"),
        amqp.PreconditionFailed("inequivalent argument"),
    ],
    ids=repr,
)
def test_a_connection_that_is_in_trouble_is_made_anew(
    trouble: Exception, broker: mock.Mock, lasting: mock.Mock, borrowed: mock.Mock
) -> None:
    """By oslo.messaging, which then declares the queues: also where the broker has ended nothing but a consumer."""
    polled = listener(borrowed)
    broker.drain_events.side_effect = trouble
    broker.collect.side_effect = lambda: broker.configure_mock(connected=False)

    def mended(timeout: float) -> None:
        assert (False, blocking_consume.LISTEN_S) == (broker.connected, timeout)
        polled.incoming.append(mock.Mock())

    lasting.consume.side_effect = mended
    assert polled.poll()
    assert 1 == broker.drain_events.call_count


def test_whether_a_heartbeat_is_due_is_oslo_messaging_s_to_find_out(
    broker: mock.Mock, lasting: mock.Mock, borrowed: mock.Mock
) -> None:
    """Where nothing has come it looks for a moment only, and the next look is ours."""
    polled = listener(borrowed)
    broker.drain_events.side_effect = TimeoutError

    def looked(timeout: float) -> None:
        assert blocking_consume.LOOK_S == timeout
        if lasting.consume.call_count == 2:
            polled.incoming.append(mock.Mock())
            return
        raise common.Timeout

    lasting.consume.side_effect = looked
    assert polled.poll()
    assert (2, False) == (lasting.consume.call_count, broker.collect.called)


@pytest.mark.parametrize(
    "state",
    [{"_new_tags": {1}}, {"_consume_loop_stopped": True}, {"connection": mock.Mock(connected=False)}],
    ids=["declares", "stops", "connects"],
)
def test_oslo_messaging_begins_and_ends(
    state: dict[str, object], broker: mock.Mock, lasting: mock.Mock, borrowed: mock.Mock
) -> None:
    """It connects, declares the queues, and sees to it that a stop is heard; at length, too."""
    polled = listener(borrowed)
    lasting.configure_mock(**state)
    lasting.consume.side_effect = lambda timeout: polled.incoming.append(mock.Mock())
    assert polled.poll()
    assert [mock.call(timeout=blocking_consume.LISTEN_S)] == lasting.consume.call_args_list
    assert not broker.drain_events.called


def test_the_rest_is_the_connection_s_own(borrowed: mock.Mock) -> None:
    """A stop reaches it."""
    polled = listener(borrowed)
    polled._shutoff.set()  # as its thread would
    polled.stop()
    polled.cleanup()
    assert borrowed.stop_consuming.called
    assert borrowed.close.called


def test_what_is_not_rabbitmq_s_stays_as_it_is() -> None:
    """Nothing polls there."""
    other = types.SimpleNamespace()
    assert other is blocking_consume.wrap(other)  # type: ignore[arg-type, comparison-overlap]
    assert not vars(other)
