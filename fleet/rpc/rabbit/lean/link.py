# SPDX-License-Identifier: Apache-2.0
"""One AMQP connection that several threads share.

py-amqp is not safe for threads, so one lock guards every call into it. Threads wait for the broker outside the lock, and
take the lock only to read the frames that have come. So others can publish at any time::

    reader   wait (no lock) ──▶ lock ── read frames, run callbacks ── unlock ──▶ wait
    writer                      lock ── write frames ── unlock

Any number of threads may wait. What comes wakes one of them, the one that has waited for the shortest time: its caches are
warm, and no thread has to wake another (epoll with ``EPOLLONESHOT``, see epoll(7)). That one allows the next to be woken
when it has read.

A method that waits for the broker's answer, such as a declaration, may read frames that follow the answer. Its caller
surrounds it with :meth:`Link.asking`, which runs their callbacks.

Used by the modules beside it.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Iterator

import amqp
from oslo_log import log as logging

from fleet.rpc.rabbit import broker_refusals
from fleet.rpc.rabbit.lean import frames
from fleet.rpc.rabbit.lean.nodes import Nodes
from fleet.rpc.rabbit.lean.settings import Broker, Settings
from fleet.telemetry import metrics, rate_limited_log

LOG = logging.getLogger(__name__)

#: Seconds to open a connection, and for the rest of a frame whose first bytes have come, or a write.
CONNECT_S = 5.0
FRAME_S = 10.0
#: Milliseconds for which written bytes may wait until the broker's kernel confirms them, as py-amqp sets it.
UNREAD_MS = 1000
#: Seconds to wait for the broker to confirm that the connection is closed.
CLOSE_S = 1.0
#: What py-amqp raises when a connection or channel is lost.
LOST = (amqp.AMQPError, OSError)
_broken = rate_limited_log.RateLimit()


class Away(Exception):
    """No broker accepts a connection. The message names each with its reason."""


class Broken(amqp.ConnectionError):
    """The connection must be closed and opened again: it received what it cannot handle, or is in no state to go on.

    Its text names the original error.
    """


class Link:
    """An open connection. ``lock`` guards every use of ``connection`` and of its channels."""

    def __init__(self, connection: frames.Connection, settings: Settings, broker: Broker) -> None:
        self.connection = connection
        self.broker = broker
        self.lock = threading.RLock()
        self._rate = settings.heartbeat_rate
        self._transport, self._socket = connection.transport, connection.sock
        # The kernel has a limit for one read and one write; with a limit of its own, Python would ask it first each time.
        # But TLS without one would try again for ever.
        self._socket.settimeout(FRAME_S if isinstance(self._socket, ssl.SSLSocket) else None)
        self._number = self._socket.fileno()
        self._awake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._awake)  # threads may still wait when the link is closed
        self._events = select.epoll()
        self._events.register(self._number, select.EPOLLIN | select.EPOLLONESHOT)
        self._events.register(self._awake, select.EPOLLIN | select.EPOLLET)
        self._closed = False
        frames.Dispatcher(connection)
        #: Seconds after which a waiting reader must look after the heartbeat.
        self.tick_s = settings.heartbeat_s / settings.heartbeat_rate / 2 if settings.heartbeat_s else 3600.0
        self._beat_at = time.monotonic() + self.tick_s
        # As they were agreed on: a peer may send the method again at any time.
        self.frame_max: int = connection.frame_max
        self._silence_s: float = connection.heartbeat or 0
        #: When the broker has sent something.
        self._heard_at = time.monotonic()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the broker has sent something, :meth:`wake` is called, or the time is over.

        Return True if there is something to read; then the caller must :meth:`read`. Call it without the lock.
        """
        ready = self._events.poll(max(0.0, timeout_s))
        if self._closed:
            self.wake()  # the next thread that waits
            return False
        return self._number in [number for number, _event in ready]

    def wake(self) -> None:
        """End the :meth:`wait` of one thread; without one, the next wait ends at once."""
        with contextlib.suppress(OSError):
            os.eventfd_write(self._awake, 1)

    def read(self) -> None:
        """Read all frames that have come, and run their callbacks. :raises LOST: the connection is lost, or Broken"""
        with self.lock:
            if self._closed:
                return
            try:
                self._transport.receive_now()
                self._heard_at = time.monotonic()
                self._run_callbacks()
                self._events.modify(self._number, select.EPOLLIN | select.EPOLLONESHOT)
            except LOST:
                raise
            except Exception as failure:
                raise broken(failure) from failure

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """A block in which the caller waits for the broker's answer, with the lock held. Its errors are raised as LOST."""
        try:
            yield
            self._heard_at = time.monotonic()
            self._run_callbacks()
        except LOST:
            raise
        except Exception as failure:
            raise broken(failure) from failure

    def _run_callbacks(self) -> None:
        while True:
            while (frame := self._transport.next_frame()) is not None:
                self.connection.on_inbound_frame(frame)
            if not self._transport.hides():
                return
            self._transport.receive()

    def write(self, frames_of_it: bytes) -> None:
        """Write the frames of one message. Call it with the lock. :raises LOST: the connection is lost"""
        self._transport.write(frames_of_it)
        self.connection.bytes_sent += 1  # for the heartbeat

    def heartbeat(self) -> None:
        """Send a heartbeat if one is due. :raises LOST: the broker has been silent for the time limit of heartbeats

        A broker sends a heartbeat after half of this limit. py-amqp would wait for twice the limit.
        """
        if time.monotonic() >= self._beat_at:
            with self.lock:
                self._beat_at = time.monotonic() + self.tick_s
                if self._closed:
                    return
                try:
                    self.connection.heartbeat_tick(self._rate)
                except LOST:
                    raise
                except Exception as failure:
                    raise broken(failure) from failure
                silent_s = time.monotonic() - self._heard_at
                if 0 < self._silence_s < silent_s and not self._has_arrived():
                    raise amqp.exceptions.ConnectionForced(f"the broker has been silent for {silent_s:.0f} s")

    def _has_arrived(self) -> bool:
        """True if something waits to be read: this process was slow, and not the broker."""
        return self._transport.hides() or frames.has_arrived(self._number)

    def close(self) -> None:
        with self.lock:
            if self._closed:
                return
            self._closed = True
            # py-amqp may raise anything for a connection that it has torn down itself.
            with contextlib.suppress(Exception):
                self._socket.settimeout(CLOSE_S)
                self.connection.close()
            with contextlib.suppress(Exception):
                self.connection.collect()
        self.wake()


def broken(failure: Exception) -> Broken:
    """Count and log an error that no broker should cause, and return what to raise in its place."""
    metrics.CONNECTIONS_BROKEN.inc()
    left_out = _broken.due(type(failure).__name__)
    if left_out is not None:
        said = "A connection to the broker is closed, and opened again: what came cannot be handled (%d more like it)"
        LOG.warning(said, left_out, exc_info=failure)
    return Broken(f"what came cannot be handled: {type(failure).__name__}: {failure}")


def opened(settings: Settings, nodes: Nodes) -> Link:
    """Open a connection to the first node that accepts one. :raises Away:"""
    refusals = []
    for broker in nodes.in_turn():
        try:
            return opened_to(broker, settings)
        except LOST as refused:
            nodes.lost(broker)
            refusals.append(f"{broker.address} ({broker_refusals.reason(refused)})")
    raise Away("; ".join(refusals))


def opened_to(broker: Broker, settings: Settings) -> Link:
    """Open a connection to this node. :raises LOST:"""
    return Link(_connected(broker, settings), settings, broker)


def _connected(broker: Broker, settings: Settings) -> frames.Connection:
    connection: frames.Connection = frames.Connection(
        broker.address,
        userid=broker.username,
        password=broker.password,
        virtual_host=settings.virtual_host,
        ssl=dict(broker.tls) if broker.tls else False,
        connect_timeout=CONNECT_S,
        read_timeout=FRAME_S,
        write_timeout=FRAME_S,
        heartbeat=settings.heartbeat_s,
        client_properties={
            "product": "fleet",
            "capabilities": {"connection.blocked": True, "consumer_cancel_notify": True},
        },
        on_blocked=lambda reason: _blocked(connection, str(reason)),
        on_unblocked=lambda: _blocked(connection),
    )
    try:
        connection.connect()
    except BaseException:
        with contextlib.suppress(*LOST):
            connection.collect()
        raise
    return connection


def _blocked(connection: frames.Connection, reason: str = "") -> None:
    connection.is_blocked = bool(reason)
    # The broker reads nothing meanwhile, so bytes may wait for longer. Its heartbeats show that it lives.
    with contextlib.suppress(OSError):
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0 if reason else UNREAD_MS)
    if reason:
        LOG.warning("The broker accepts no messages now: %s", reason)
    else:
        LOG.info("The broker accepts messages again")
        connection.on_free()
