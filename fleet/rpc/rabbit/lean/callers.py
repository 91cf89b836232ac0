# SPDX-License-Identifier: Apache-2.0
"""Callers that wait for replies, the queue for these, and the replies that the broker delivers from it.

Called by :mod:`fleet.rpc.rabbit.lean.outgoing`, which keeps the queue consumed, and by
:mod:`fleet.rpc.rabbit.lean.driver` for each call.
"""

from __future__ import annotations

import collections
import queue
import threading

import amqp
from oslo_log import log as logging

from fleet.rpc.rabbit import broker_refusals, message_body
from fleet.rpc.rabbit.lean import topology, wire
from fleet.rpc.rabbit.lean.publication import Outcome
from fleet.rpc.rabbit.lean.reading import Arrivals
from fleet.rpc.rabbit.lean.settings import Settings
from fleet.telemetry import metrics, rate_limited_log

LOG = logging.getLogger(__name__)

#: Unique ids of replies that are remembered, to drop one that comes twice.
_REMEMBERED = 64
_unreadable = rate_limited_log.RateLimit()


class Callers:
    """Thread-safe. A caller is known by the message id of its call. The lock of the link guards ``consumed_on``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.queue = topology.reply_queue(settings)
        #: The connection on which the queue is consumed; None before the first call.
        self.consumed_on: amqp.Connection | None = None
        self._lock = threading.Lock()
        self._arrivals: dict[str, Arrivals] = {}
        self._seen: collections.deque[str] = collections.deque(maxlen=_REMEMBERED)

    def expect(self, msg_id: str) -> Arrivals:
        """Return the queue for the replies to a call."""
        arrived: Arrivals = queue.SimpleQueue()
        with self._lock:
            self._arrivals[msg_id] = arrived
        return arrived

    def forget(self, msg_id: str) -> None:
        with self._lock:
            self._arrivals.pop(msg_id, None)

    def waiting(self) -> set[str]:
        """Return the message ids of the calls under way."""
        with self._lock:
            return set(self._arrivals)

    def lose(self, msg_ids: set[str]) -> None:
        """Tell callers that no reply will come for them."""
        with self._lock:
            for msg_id in msg_ids & self._arrivals.keys():
                self._arrivals[msg_id].put(Outcome.REPLY_LOST)

    def consume(self, connection: amqp.Connection) -> None:
        """Consume the queue on a connection. If the queue is dead, another one takes its place, and callers lose replies.

        :raises amqp.AMQPError: the broker refuses
        """
        try:
            topology.consume_replies(connection, self.queue, self.replied)
        except amqp.NotFound as dead:  # the node on which the queue lives is dead, and the queue with it
            LOG.warning("The queue for replies is gone, another one takes its place: %s", broker_refusals.reason(dead))
            self.queue = topology.reply_queue(self._settings)
            self.lose(self.waiting())
            topology.consume_replies(connection, self.queue, self.replied)
        self.consumed_on = connection

    def exchanged(self, queue_there: topology.Queue, connection: amqp.Connection) -> tuple[str, set[str]]:
        """Take another queue, which is consumed on another connection, for the calls from now on.

        Return the name of the former queue, empty if nothing consumed it, and the calls whose replies come to it.
        """
        former = self.queue.name if self.consumed_on is not None else ""
        self.queue, self.consumed_on = queue_there, connection
        return former, self.waiting()

    def replied(self, message: amqp.Message) -> None:
        """Hand a message from the queue for replies to its caller."""
        try:
            reply = wire.read_reply(message_body.reply_of(message))
        except message_body.Unreadable as unreadable:
            metrics.MESSAGES_UNREADABLE.inc()
            left_out = _unreadable.due(str(unreadable))
            if left_out is not None:
                LOG.warning("A reply is dropped: %s (%d more since the last such line)", unreadable, left_out)
            return
        with self._lock:
            if reply.unique_id in self._seen:
                metrics.MESSAGES_REPEATED.inc()
                return
            if reply.unique_id is not None:
                self._seen.append(reply.unique_id)
            caller = self._arrivals.get(reply.msg_id or "")
        if caller is not None:
            caller.put(reply)
        else:
            LOG.debug("No call waits for reply %s", reply.msg_id)
