# SPDX-License-Identifier: Apache-2.0
"""Lets a server's thread wait for the next message as long as at rest, also when there has just been one.

oslo.messaging's looks up a thousandth of a second after each message, two after that, four, and so on, to acknowledge what
was handled meanwhile. RPC has acknowledged it by then, and each message cost a dozen looks beside what handled it. For each
look it prepares for whatever may go wrong; here it is asked to when something has.
"""

from __future__ import annotations

from typing import Any

from oslo_log import log as logging
from oslo_messaging._drivers import amqpdriver, base

from fleet.rpc.rabbit import body_decoder

LOG = logging.getLogger(__name__)

#: A stop waits for it, too.
LISTEN_S = 1.0
#: Where nothing has come, and oslo.messaging is to find out whether that is in order.
LOOK_S = 0.001


def wrap(listener: base.Listener) -> base.Listener:
    """The same one, which listens on what is now in the place of its connection; other than RabbitMQ's is left as it is."""
    polled = getattr(listener, "_poll_style_listener", None)
    if isinstance(polled, amqpdriver.RpcAMQPListener):
        body_decoder.make_careful(polled.conn.connection)
        polled.conn = _BlockingConnection(polled.conn)
    return listener


class _BlockingConnection:
    """A connection of oslo.messaging's, but for how it is listened to."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def consume(self, timeout: float) -> None:
        """:raises oslo_messaging._drivers.common.Timeout: there was nothing"""
        lasting = self._connection.connection
        broker = lasting.connection
        if lasting._new_tags or lasting._consume_loop_stopped or not broker.connected:
            lasting.consume(timeout=max(timeout, LISTEN_S))
            return
        try:
            broker.drain_events(timeout=min(LISTEN_S, lasting._poll_timeout))
        except TimeoutError:
            # A heartbeat may be due, or have failed to come.
            lasting.consume(timeout=LOOK_S)
        except Exception as trouble:
            # The broker may have ended a consumer or the channel, which it says once, and leave the connection as it is.
            LOG.info("Connecting to the broker anew: %s: %s", type(trouble).__name__, trouble)
            broker.collect()
            lasting.consume(timeout=max(timeout, LISTEN_S))
