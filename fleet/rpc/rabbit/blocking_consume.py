# SPDX-License-Identifier: Apache-2.0
"""Lets a server's thread block until the next message arrives, also right after a message.

oslo.messaging polls with pauses of 1 ms, 2 ms, 4 ms and so on after each message, to acknowledge what was handled
meanwhile. RPC messages are acknowledged before that, so each message cost a dozen useless polls. oslo.messaging's own
consume is used only when the connection needs attention.
"""

from __future__ import annotations

from typing import Any

from oslo_log import log as logging
from oslo_messaging._drivers import amqpdriver, base

from fleet.rpc.rabbit import body_decoder

LOG = logging.getLogger(__name__)

#: Seconds that one call blocks. A stop waits as long.
LISTEN_S = 1.0
#: After a wait without messages, oslo.messaging gets this time to check the connection.
LOOK_S = 0.001


def wrap(listener: base.Listener) -> base.Listener:
    """Make a RabbitMQ listener block for messages, and return it. Other listeners are returned unchanged."""
    polled = getattr(listener, "_poll_style_listener", None)
    if isinstance(polled, amqpdriver.RpcAMQPListener):
        body_decoder.make_careful(polled.conn.connection)
        polled.conn = _BlockingConnection(polled.conn)
    return listener


class _BlockingConnection:
    """A connection of oslo.messaging with another way to consume."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def consume(self, timeout: float) -> None:
        """:raises oslo_messaging._drivers.common.Timeout: no message arrived"""
        lasting = self._connection.connection
        broker = lasting.connection
        if lasting._new_tags or lasting._consume_loop_stopped or not broker.connected:
            lasting.consume(timeout=max(timeout, LISTEN_S))
            return
        try:
            broker.drain_events(timeout=min(LISTEN_S, lasting._poll_timeout))
        except TimeoutError:
            # A heartbeat may be due, or the broker's may be missing.
            lasting.consume(timeout=LOOK_S)
        except Exception as trouble:
            # The broker may have cancelled a consumer or closed the channel. It sends that once and leaves the
            # connection open.
            LOG.info("Connecting to the broker anew: %s: %s", type(trouble).__name__, trouble)
            broker.collect()
            lasting.consume(timeout=max(timeout, LISTEN_S))
