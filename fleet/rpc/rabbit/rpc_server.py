# SPDX-License-Identifier: Apache-2.0
"""oslo.messaging's RPC server, with other ways to receive messages and to send replies."""

from __future__ import annotations

from concurrent import futures
from typing import Any

from oslo_messaging._drivers import base
from oslo_messaging.rpc import server as oslo_server

from fleet.context import new_context
from fleet.rpc import deferred
from fleet.rpc.rabbit import blocking_consume, host_queues, leader_followers, replies


class LeaderFollowersServer(oslo_server.RPCServer):
    """Several threads take turns at receiving a message and at handling it (:mod:`.leader_followers`)."""

    #: How many messages are handled at once.
    threads = 1

    def _create_listener(self) -> base.Listener:
        return leader_followers.Listener(blocking_consume.wrap(super()._create_listener()), self.threads)

    def _on_incoming(self, incoming: object) -> None:
        self._process_incoming(incoming)
        # What this thread says next, of the broker, is not about that message.
        new_context()

    def _process_incoming(self, incoming: Any) -> None:
        with deferred.replying():
            super()._process_incoming([replies.send_directly(each) for each in incoming])

    def handle_strays(self) -> None:
        """Messages that were on their way when the intake ended: oslo.messaging acknowledges them as it closes the
        connection (18.3: waiting for the fanout queue's deletion, it reads what comes before), and then forgets them.
        """
        listener = getattr(self.listener, "polled", None)
        for stray in list(getattr(listener, "incoming", ())):
            self._process_incoming([stray])


class HostServer(LeaderFollowersServer):
    """Takes all that is sent to its host, and handles it in order: its queue ends with this process in any case, and
    others wait for their turn on the connection."""

    def __init__(self, queues: host_queues.HostQueues, *options: Any) -> None:
        super().__init__(*options)
        # Its threads wait for work; those that oslo.messaging chooses look every second whether they are still wanted.
        self._executor_cls = futures.ThreadPoolExecutor
        self._queues = queues

    def _create_listener(self) -> host_queues.Listener:
        return host_queues.Listener(self._queues, self._target.server)

    def _on_incoming(self, incoming: object) -> None:
        self._work_executor.submit(self._process_incoming, incoming)
