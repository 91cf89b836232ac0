# SPDX-License-Identifier: Apache-2.0
"""oslo.messaging's RPC server, with other ways to receive messages. :mod:`fleet.rpc.server` starts it."""

from __future__ import annotations

from collections.abc import Collection
from concurrent import futures
from typing import Any

from oslo_messaging._drivers import base
from oslo_messaging.rpc import server as oslo_server

from fleet.context import new_context
from fleet.rpc import deferred
from fleet.rpc.rabbit import host_queues, leader_followers
from fleet.rpc.rabbit.lean import incoming
from fleet.rpc.rabbit.lean.shared_queues import SharedQueues


class LeaderFollowersServer(oslo_server.RPCServer):
    """Several threads take turns at receiving a message and at handling it (:mod:`.leader_followers`)."""

    #: Messages handled at a time.
    threads = 1
    #: As :attr:`fleet.rpc.rabbit.lean.incoming.Listener.acknowledged_late`; nothing with the stock driver.
    acknowledged_late: Collection[str] = ()

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self._idle = new_context()

    def _create_listener(self) -> base.Listener:
        made = leader_followers.Listener(super()._create_listener(), self.threads)
        if isinstance(made.polled, incoming.Listener):
            made.polled.acknowledged_late = self.acknowledged_late
        return made

    def _on_incoming(self, taken: object) -> None:
        self._process_incoming(taken)
        # Later log lines of this thread, about the broker, do not belong to that message.
        self._idle.update_store()

    def _process_incoming(self, taken: Any) -> None:
        try:
            with deferred.replying():
                super()._process_incoming(taken)
        finally:
            # After its log line: if this process is killed before, another one writes it.
            if isinstance(taken[0], incoming.Incoming):
                taken[0].handled()

    def handle_strays(self) -> None:
        """Handle messages that arrived while the intake ended.

        oslo.messaging 18.3 acknowledges and then drops them: it reads them from the connection while it waits for the
        fanout queue's deletion.
        """
        listener = getattr(self.listener, "polled", None)
        for stray in list(getattr(listener, "incoming", ())):
            self._process_incoming([stray])


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

    def _create_listener(self) -> host_queues.Listener:
        return host_queues.Listener(self._queues, self._target.server)

    def _on_incoming(self, taken: object) -> None:
        self._work_executor.submit(self._process_incoming, taken)
