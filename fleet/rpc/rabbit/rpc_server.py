# SPDX-License-Identifier: Apache-2.0
"""oslo.messaging's RPC server, with other ways to receive messages. :mod:`fleet.rpc.server` starts it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection
from concurrent import futures
from typing import Any

from oslo_messaging.rpc import server as oslo_server

from fleet.context import new_context
from fleet.rpc import deferred, oslo_drivers
from fleet.rpc.rabbit import host_queues, leader_followers
from fleet.rpc.rabbit.lean import driver
from fleet.rpc.rabbit.lean.shared_queues import SharedQueues


def of(acknowledged_late: Collection[str], transport: Any, *options: Any) -> LeaderFollowersServer:
    """Return the server that suits the driver of a transport.

    :param acknowledged_late: as :attr:`fleet.rpc.rabbit.lean.incoming.Listener.acknowledged_late`; nothing with other
        drivers
    """
    if driver.of(transport) is None:
        return LeaderFollowersServer(transport, *options)
    return LeanServer(acknowledged_late, transport, *options)


class LeaderFollowersServer(oslo_server.RPCServer):
    """Several threads take turns at receiving a message and at handling it (:mod:`.leader_followers`)."""

    #: Messages handled at a time.
    threads = 1

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self._idle = new_context()

    def _create_listener(self) -> oslo_drivers.Listener:
        return leader_followers.Listener(super()._create_listener(), self.threads, self._turn())

    def _turn(self) -> contextlib.AbstractContextManager[object]:
        return threading.Lock()

    def _on_incoming(self, taken: object) -> None:
        self._process_incoming(taken)
        # Later log lines of this thread, about the broker, do not belong to that message.
        self._idle.update_store()

    def _process_incoming(self, taken: Any) -> None:
        with deferred.replying():
            super()._process_incoming(taken)

    def handle_strays(self) -> None:
        """Handle messages that arrived while the intake ended.

        oslo.messaging 18.3 acknowledges and then drops them: it reads them from the connection while it waits for the
        fanout queue's deletion.
        """
        listener = getattr(self.listener, "polled", None)
        for stray in list(getattr(listener, "incoming", ())):
            self._process_incoming([stray])


class LeanServer(LeaderFollowersServer):
    """Its threads wait for the connection at the same time, and it may acknowledge a message after it was handled."""

    def __init__(self, acknowledged_late: Collection[str], *options: Any) -> None:
        super().__init__(*options)
        self._acknowledged_late = acknowledged_late

    def _create_listener(self) -> oslo_drivers.Listener:
        made = super()._create_listener()
        made.polled.acknowledged_late = self._acknowledged_late
        return made

    def _turn(self) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext()

    def _process_incoming(self, taken: Any) -> None:
        try:
            super()._process_incoming(taken)
        finally:
            # After its log line: if this process is killed before, another one writes it.
            taken[0].handled()


class HostServer(LeaderFollowersServer):
    """Receives all messages to its host and handles them in order.

    A backlog at the broker would be of no use: the queue ends with this process. A slow handler must not block the
    connection, which other hosts use.
    """

    def __init__(self, queues: SharedQueues, *options: Any) -> None:
        super().__init__(*options)
        # These threads block until there is work. Those of oslo.messaging's executor poll every second whether they
        # are still needed.
        self._executor_cls = futures.ThreadPoolExecutor
        self._queues = queues

    def _create_listener(self) -> oslo_drivers.Listener:
        return host_queues.Listener(self._queues, self._target.server)

    def _on_incoming(self, taken: object) -> None:
        self._work_executor.submit(self._process_incoming, taken)
