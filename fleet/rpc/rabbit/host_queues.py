# SPDX-License-Identifier: Apache-2.0
"""Receives the messages of many hosts through one connection, with one thread.

oslo.messaging gives every server a connection, three queues and a polling thread. For a process that serves a
thousand hosts that would be most of its work. An order goes to one host's queue, so this module has that queue only.

::

    broker ══ one connection ══▶ the thread ── by queue ──▶ the server of that host ── its own thread ──▶ its endpoints
                                    ▲
    serve, leave ─── errands ───────┘   (a connection is for one thread: what others want of it is done between messages)
"""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable
from concurrent import futures

import oslo_messaging
from oslo_log import log as logging
from oslo_messaging._drivers import amqpdriver, base, common

from fleet.rpc import backoff
from fleet.rpc.rabbit import body_decoder, broker_refusals
from fleet.rpc.rabbit.lean.driver import LeanDriver
from fleet.rpc.rabbit.lean.shared_queues import SharedQueues

LOG = logging.getLogger(__name__)

#: Seconds that the thread waits for messages before it looks for errands: at rest, and after an errand, because
#: errands come in series.
AT_REST_S = 1.0
IN_A_ROW_S = 0.001
#: Seconds that ``leave`` waits for the thread. Without a broker the thread cannot do it, and the queue is gone
#: anyway.
LEAVE_S = 5.0

OnIncoming = Callable[[list[base.RpcIncomingMessage]], object]


def of(transport: oslo_messaging.RPCTransport, topic: str, exchange: str) -> HostQueues | SharedQueues | None:
    """Return the queues of hosts; None without a broker, where a listener costs nothing."""
    driver = transport._driver
    if isinstance(driver, LeanDriver):
        return driver.shared_queues(topic, exchange)
    return HostQueues(driver, topic, exchange) if isinstance(driver, amqpdriver.AMQPDriverBase) else None


class HostQueues:
    """Thread-safe. The connection exists while a host is served; the lock guards it."""

    def __init__(self, driver: amqpdriver.AMQPDriverBase, topic: str, exchange: str) -> None:
        self._driver = driver
        self._topic = topic
        self._exchange = exchange
        self._lock = threading.Lock()
        self._served: set[str] = set()
        self._connection: _Connection | None = None

    def serve(self, host: str, on_incoming: OnIncoming) -> None:
        """Declare the host's queue and return when it exists. ``on_incoming`` must be quick: all hosts wait for it."""
        with self._lock:
            if self._connection is None:
                self._connection = _Connection(self._driver)
            self._served.add(host)
            connection = self._connection
        key = f"{self._topic}.{host}"
        connection.run(functools.partial(connection.declare, self._exchange, key, on_incoming)).result()

    def leave(self, host: str) -> None:
        """Cancel the host's queue. When this returns, no more messages come from it."""
        with self._lock:
            if host not in self._served:
                return
            self._served.remove(host)
            connection = self._connection
            assert connection is not None
            last = not self._served
            if last:
                self._connection = None
        try:
            connection.run(functools.partial(connection.cancel, f"{self._topic}.{host}")).result(LEAVE_S)
        except futures.TimeoutError:
            LOG.warning("The broker does not answer: the queue of host %s goes with the connection", host)
        if last:
            connection.close()


class Listener(base.Listener):
    """The listener of one host's server: it has no connection of its own."""

    def __init__(self, queues: HostQueues | SharedQueues, host: str) -> None:
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


class _Connection:
    """One connection and the only thread that uses it."""

    def __init__(self, driver: amqpdriver.AMQPDriverBase) -> None:
        self._connection = driver._get_connection(common.PURPOSE_LISTEN)
        # This object of oslo.messaging acknowledges a message, drops a repeated one, and converts it for a server.
        self._unpacked = amqpdriver.RpcAMQPListener(driver, self._connection)
        self._errands: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._backoff = backoff.Backoff()
        self._thread = threading.Thread(target=self._run, name="host-queues", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], object]) -> futures.Future[None]:
        """Let the thread run ``work``."""
        done: futures.Future[None] = futures.Future()

        def errand() -> None:
            try:
                work()
            except Exception as failure:
                done.set_exception(failure)
            else:
                done.set_result(None)

        self._errands.put(errand)
        return done

    def close(self) -> None:
        self._closing.set()

    def declare(self, exchange: str, key: str, on_incoming: OnIncoming) -> None:
        def received(message: object) -> None:
            self._unpacked(message)
            while self._unpacked.incoming:
                on_incoming([self._unpacked.incoming.pop(0)])

        received.msg_id_cache = self._unpacked.msg_id_cache  # type: ignore[attr-defined]
        self._connection.declare_topic_consumer(exchange_name=exchange, topic=key, callback=received)
        body_decoder.make_careful(self._connection.connection)

    def cancel(self, key: str) -> None:
        """Until the broker has said so, what it has sent before is still received."""
        connection = self._connection
        connection._active_tags.pop(key, None)
        for consumer in [each for each in connection._consumers if each.queue_name == key]:
            tag = connection._consumers.pop(consumer)
            connection._new_tags.discard(tag)
            try:
                consumer.cancel(tag)
            except (*connection.connection.connection_errors, *connection.connection.channel_errors) as lost:
                LOG.debug("Queue %s is gone with the connection: %s", key, lost)

    def _run(self) -> None:
        patience_s = IN_A_ROW_S
        while not self._closing.is_set():
            refused: Exception | None = None
            try:
                patience_s = self._errand_or(patience_s)
                self._connection.consume(timeout=patience_s)
            except common.Timeout:
                self._backoff.reset()
                patience_s = min(2 * patience_s, AT_REST_S)
            except broker_refusals.AWAY as refusal:
                refused = refusal
            except Exception:
                LOG.exception("Cannot read the queues of the hosts; retrying after a pause")
                self._closing.wait(self._backoff.pause_s())
            else:
                self._backoff.reset()
            if refused is not None:
                broker_refusals.log_refusal("the queues of the hosts cannot be read", refused)
                self._closing.wait(self._backoff.pause_s())
        self._connection.close()

    def _errand_or(self, patience_s: float) -> float:
        """Run one errand, if there is any. Return the seconds to wait for messages then."""
        try:
            errand = self._errands.get_nowait()
        except queue.Empty:
            return patience_s
        errand()
        return IN_A_ROW_S
