# SPDX-License-Identifier: Apache-2.0
"""The queues of many hosts on one connection, which one thread reads.

Called by :mod:`fleet.rpc.rabbit.host_queues` and :mod:`fleet.rpc.rabbit.lean.driver`.

::

    broker ══ one connection ══▶ the thread ── by queue ──▶ the server of that host ── its own thread ──▶ its endpoints
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import amqp
from oslo_log import log as logging

from fleet.rpc import oslo_drivers
from fleet.rpc.rabbit.lean import topology
from fleet.rpc.rabbit.lean.incoming import Incoming, Listener
from fleet.rpc.rabbit.lean.link import LOST, Link, broken
from fleet.rpc.rabbit.lean.outgoing import Outgoing
from fleet.rpc.rabbit.lean.settings import Settings
from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)
#: Seconds that a host which leaves waits for the reading thread to hand over what has arrived.
_SETTLE_S = 5.0
_outdated = rate_limited_log.RateLimit()
OnIncoming = Callable[[list[oslo_drivers.RpcIncomingMessage]], object]


class SharedQueues:
    """Safe for any number of threads. The connection is open while a host is served; ``_lock`` guards that."""

    def __init__(self, settings: Settings, outgoing: Outgoing, topic: str, exchange: str) -> None:
        self._settings = settings
        self._outgoing = outgoing
        self._topic = topic
        self._exchange = exchange
        self._lock = threading.Lock()
        self._served: dict[str, OnIncoming] = {}
        self._listener: _Reader | None = None

    def serve(self, host: str, on_incoming: OnIncoming) -> None:
        """Consume the queue of a host. It exists when this returns.

        :param on_incoming: called in the reading thread; it must be quick, as all hosts wait for it
        """
        queue = topology.host_queue(self._exchange, f"{self._topic}.{host}")
        with self._lock:
            self._served[queue.name] = on_incoming
            if self._listener is None:
                self._listener = _Reader(self._settings, self._outgoing, queue, self._served)
            else:
                self._listener.add(queue)

    def leave(self, host: str) -> None:
        """Stop consuming the queue of a host. What the broker has delivered before is handled when this returns."""
        name = f"{self._topic}.{host}"
        with self._lock:
            listener = self._listener
            if listener is None or name not in self._served:
                return
        listener.remove(name)
        with self._lock:
            self._served.pop(name, None)
            last = not self._served and self._listener is listener
            if last:
                self._listener = None
        if last:
            listener.end()


class _Reader(Listener):
    """A listener with a thread, which hands each message to the server of its queue."""

    def __init__(
        self, settings: Settings, outgoing: Outgoing, queue: topology.Queue, served: dict[str, OnIncoming]
    ) -> None:
        super().__init__(settings, outgoing, [queue])
        self._served = served
        self._thread = threading.Thread(target=self._run, name="host-queues", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self.cleanup()  # its queue would take messages that no thread reads
            raise

    def add(self, queue: topology.Queue) -> None:
        self._queues[queue.name] = queue
        current = self._current
        if current is None:
            return  # the queue is consumed when the connection is open again
        try:
            with current.link.lock, current.link.asking():
                self._consume(current, queue)
        except LOST as lost:
            LOG.info("The queue of a host is consumed when the connection is open again: %s", lost)

    def remove(self, name: str) -> None:
        self._queues.pop(name, None)
        current = self._current
        tag = current.tags.pop(name, None) if current is not None else None
        if current is not None and tag is not None:
            with contextlib.suppress(*LOST), current.link.lock, current.link.asking():
                current.channel.basic_cancel(tag)  # what the broker has sent before its answer is read meanwhile
            self.settle(_SETTLE_S)

    def _declare(self, link: Link, queue: topology.Queue) -> str:
        """Declare as earlier releases do if the permissions of the broker's user are those of an earlier release."""
        try:
            return topology.declare_queue(link.connection, queue)
        except amqp.AccessRefused as refused:
            left_out = _outdated.due()
            if left_out is not None:
                how = "set its permissions anew with fleet-manage rabbitmq permissions"
                LOG.warning("The broker's user may not declare queues %s_…: %s (%s)", queue.name, how, refused)
            return topology.declare_queue(link.connection, topology.shared_host_queue(self._settings, queue))

    def end(self) -> None:
        self.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self.cleanup()

    def _run(self) -> None:
        """Read until the end. No error ends the thread: without it, the hosts would receive nothing more."""
        while not self._stopped.is_set():
            try:
                while (taken := self._next(None)) is not None:
                    self._hand_over(*taken)
            except Exception as failure:
                LOG.exception("The queues of hosts are read again")
                current = self._current
                if current is not None:
                    self._lose(current, broken(failure))
                self._stopped.wait(self._pauses.pause_s())

    def _hand_over(self, queue: str, incoming: Incoming) -> None:
        handle = self._served.get(queue)
        if handle is None:
            return  # the host has just left; its orders are rows of the ledger, which it reads when it starts again
        try:
            handle([incoming])
        except Exception:
            LOG.exception("A message of queue %s was taken, and not handled", queue)
