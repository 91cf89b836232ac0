# SPDX-License-Identifier: Apache-2.0
"""One AMQP connection that several threads share.

py-amqp is not safe for threads, so one lock guards every call into it. A thread waits for the broker outside the lock, on
the socket, and takes the lock only to read the frames that have come. So others can publish at any time::

    reader   wait (no lock) ──▶ lock ── read frames, run callbacks ── unlock ──▶ wait
    writer                      lock ── write frames ── unlock

A method that waits for the broker's answer, such as a declaration, may read frames that follow the answer. Whoever calls one
calls :meth:`Link.catch_up` before it lets go of the lock.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import threading
import time
from collections.abc import Iterator

import amqp
from oslo_log import log as logging

from fleet.rpc.rabbit import broker_refusals
from fleet.rpc.rabbit.lean import frames
from fleet.rpc.rabbit.lean.settings import Broker, Settings

LOG = logging.getLogger(__name__)

#: Seconds to open a connection, and for the rest of a frame whose first bytes have come, or a write.
CONNECT_S = 5.0
FRAME_S = 10.0
#: Bytes of wakes that end one wait together.
_WAKES = 4096
#: Seconds to wait for the broker to confirm that the connection is closed.
CLOSE_S = 1.0
#: What py-amqp raises when a connection or channel is lost.
LOST = (amqp.AMQPError, OSError)
#: The node that the next connection of the process is opened to first: the connections share the nodes.
_first = itertools.count()


class Away(Exception):
    """No broker accepts a connection. The message names each with its reason."""


class Link:
    """An open connection. ``lock`` guards every use of ``connection`` and of its channels."""

    def __init__(self, connection: frames.Connection, settings: Settings) -> None:
        self.connection = connection
        self.lock = threading.RLock()
        self._rate = settings.heartbeat_rate
        self._wake_read, self._wake_write = socket.socketpair()
        self._transport, self._socket = connection.transport, connection.sock
        self._socket.settimeout(FRAME_S)
        self._awake = self._wake_read.fileno()
        self._poll, self._look = select.poll(), select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(self._wake_read, select.POLLIN)
        self._look.register(self._socket, select.POLLIN)
        self._closed = False
        frames.Dispatcher(connection)
        #: Seconds after which a waiting reader must look after the heartbeat.
        self.tick_s = settings.heartbeat_s / settings.heartbeat_rate / 2 if settings.heartbeat_s else 3600.0
        self._beat_at = time.monotonic() + self.tick_s

    def wait(self, timeout_s: float) -> bool:
        """Wait until the broker has sent something, :meth:`wake` is called, or the time is over.

        Return True if there is something to read. Call it without the lock.
        """
        if self._transport.has_come():
            return True
        ready = self._poll.poll(max(0.0, timeout_s) * 1000)
        for descriptor, _event in ready:
            if descriptor == self._awake:
                self._wake_read.recv(_WAKES)
                return len(ready) > 1
        return bool(ready)

    def wake(self) -> None:
        """End the :meth:`wait` of the reader."""
        with contextlib.suppress(OSError):
            self._wake_write.send(b"\0")

    def read(self) -> None:
        """Read all frames that have come, and run their callbacks. :raises LOST: the connection is lost"""
        with self.lock:
            self.catch_up()
            # A publisher that waited for an answer may have read the data since poll() reported it.
            if self._transport.has_come() or self._look.poll(0):
                self._transport.receive()
                self.catch_up()

    def catch_up(self) -> None:
        """Run the callbacks of the frames that have been read. Call it with the lock."""
        while (frame := self._transport.next_frame()) is not None:
            self.connection.on_inbound_frame(frame)

    def write(self, frames_of_it: bytes) -> None:
        """Write the frames of one message. Call it with the lock. :raises LOST: the connection is lost"""
        self._transport.write(frames_of_it)
        self.connection.bytes_sent += 1  # for the heartbeat

    def heartbeat(self) -> None:
        """Send a heartbeat if one is due. :raises LOST: the broker has been silent for two intervals"""
        if time.monotonic() >= self._beat_at:
            with self.lock:
                self._beat_at = time.monotonic() + self.tick_s
                self.connection.heartbeat_tick(self._rate)

    def close(self) -> None:
        with self.lock:
            if self._closed:
                return
            self._closed = True
            with contextlib.suppress(*LOST):
                self._socket.settimeout(CLOSE_S)
                self.connection.close()
            with contextlib.suppress(*LOST):
                self.connection.collect()


def opened(settings: Settings) -> Link:
    """Open a connection to the first node that accepts one, beginning with another node each time. :raises Away:"""
    refusals = []
    for broker in _in_turn(settings.brokers):
        try:
            return Link(_connected(broker, settings), settings)
        except LOST as refused:
            refusals.append(f"{broker.address} ({broker_refusals.reason(refused)})")
    raise Away("; ".join(refusals))


def _in_turn(brokers: tuple[Broker, ...]) -> Iterator[Broker]:
    first = next(_first) % len(brokers)
    yield from brokers[first:] + brokers[:first]


def _connected(broker: Broker, settings: Settings) -> frames.Connection:
    connection = frames.Connection(
        broker.address,
        userid=broker.username,
        password=broker.password,
        virtual_host=settings.virtual_host,
        ssl=dict(broker.tls) if broker.tls else False,
        connect_timeout=CONNECT_S,
        write_timeout=FRAME_S,
        heartbeat=settings.heartbeat_s,
        client_properties={
            "product": "fleet",
            "capabilities": {"connection.blocked": True, "consumer_cancel_notify": True},
        },
        on_blocked=lambda reason: LOG.warning("The broker accepts no messages now: %s", reason),
        on_unblocked=lambda: LOG.info("The broker accepts messages again"),
    )
    try:
        connection.connect()
    except BaseException:
        with contextlib.suppress(*LOST):
            connection.collect()
        raise
    return connection
