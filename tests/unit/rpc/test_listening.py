# SPDX-License-Identifier: Apache-2.0
"""How long a server's thread waits for the next message."""

from __future__ import annotations

import types
from unittest import mock

import pytest
from oslo_messaging._drivers import amqpdriver, common

from fleet.rpc import listening


@pytest.fixture
def connection() -> mock.Mock:
    """Brings a message, and then another after a while."""
    return mock.Mock()


def listener(connection: mock.Mock) -> amqpdriver.RpcAMQPListener:
    driver = types.SimpleNamespace(prefetch_size=1)
    polled = amqpdriver.RpcAMQPListener(driver, connection)
    adapted = types.SimpleNamespace(_poll_style_listener=polled)
    assert listening.at_length(adapted) is adapted  # type: ignore[arg-type, comparison-overlap]
    return polled


def test_it_listens_at_length_after_a_message(connection: mock.Mock) -> None:
    """Not for a thousandth of a second, and longer still where oslo.messaging would."""
    polled = listener(connection)
    connection.consume.side_effect = lambda timeout: polled.incoming.append(mock.Mock())
    for _message in range(3):
        assert polled.poll()
    waited_s = []

    def nothing(timeout: float) -> None:
        waited_s.append(timeout)
        if len(waited_s) == 13:
            polled._shutdown.set()
        raise common.Timeout

    connection.consume.side_effect = nothing
    polled.poll()
    assert [listening.LISTEN_S] * 10 == waited_s[:10]
    assert sorted(waited_s) == waited_s
    assert waited_s[-1] > listening.LISTEN_S


def test_the_rest_is_the_connection_s_own(connection: mock.Mock) -> None:
    """A stop reaches it."""
    polled = listener(connection)
    polled._shutoff.set()  # as its thread would
    polled.stop()
    polled.cleanup()
    assert connection.stop_consuming.called
    assert connection.close.called


def test_what_is_not_rabbitmq_s_stays_as_it_is() -> None:
    """Nothing polls there."""
    other = types.SimpleNamespace()
    assert other is listening.at_length(other)  # type: ignore[arg-type, comparison-overlap]
    assert not vars(other)
