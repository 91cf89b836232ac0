# SPDX-License-Identifier: Apache-2.0
"""Listeners of the hosts of one agent process, which receive messages over one shared connection.

Called by :mod:`fleet.agent.connection` and :mod:`fleet.rpc.rabbit.rpc_server`.
"""

from __future__ import annotations

import oslo_messaging

from fleet.rpc import oslo_drivers
from fleet.rpc.rabbit.lean import driver
from fleet.rpc.rabbit.lean.shared_queues import OnIncoming, SharedQueues


def of(transport: oslo_messaging.RPCTransport, topic: str, exchange: str) -> SharedQueues | None:
    """Return the queues of the hosts of this process; None if each host has a listener of its own.

    With the stock driver, that is a connection and three queues for each host.
    """
    lean = driver.of(transport)
    return None if lean is None else lean.shared_queues(topic, exchange)


class Listener(oslo_drivers.Listener):
    """The listener of one host's server: it has no connection of its own."""

    def __init__(self, queues: SharedQueues, host: str) -> None:
        super().__init__(batch_size=1, batch_timeout=None)
        self._queues = queues
        self._host = host

    def start(self, on_incoming_callback: OnIncoming) -> None:
        super().start(on_incoming_callback)
        self._queues.serve(self._host, on_incoming_callback)

    def stop(self) -> None:
        self._queues.leave(self._host)
        super().stop()

    def cleanup(self) -> None:
        """Do nothing: the connection is shared."""
