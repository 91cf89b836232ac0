# SPDX-License-Identifier: Apache-2.0
"""Serves the application with waitress, which reads requests and writes answers without a thread for each client.

:mod:`fleet_api.main` starts it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import select
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from waitress import adjustments, channel, server

from fleet import errors
from fleet.telemetry import rate_limited_log
from fleet_api.access import identity
from fleet_api.conf import NONE
from fleet_api.own.events import Streams
from fleet_api.serving import fair_threads
from fleet_api.serving.fair_threads import FairDispatcher

LOG = logging.getLogger(__name__)

_STOP_S = 5.0
#: Bytes of the headers of a request, all together.
_MOST_HEADERS = 65_536
#: Seconds between two looks for clients that are too slow, or silent.
_LOOK_EVERY_S = 1
#: Threads that one user leaves to others, at least.
_LEFT_TO_OTHERS = 2
#: Closes a connection at once: what its client has not taken is dropped, by the kernel as well.
_AT_ONCE = struct.pack("ii", 1, 0)
_closed = rate_limited_log.RateLimit()


class HTTPServer:
    """A part of a worker process. It listens from the moment it is made.

    :raises errors.ConfigError: the address cannot be used
    """

    def __init__(self, application: Callable[..., Any], conf: cfg.ConfigOpts, streams: Streams) -> None:
        options = conf.api
        self._streams = streams
        asked = adjustments.Adjustments(
            host=options.bind_host,
            port=options.port,
            connection_limit=options.connection_limit,
            channel_timeout=options.idle_timeout,
            cleanup_interval=_LOOK_EVERY_S,
            max_request_body_size=options.max_body,
            max_request_header_size=_MOST_HEADERS,
            ident="fleet-api",
            clear_untrusted_proxy_headers=False,
            # select() refuses sockets with a number above 1023.
            asyncore_use_poll=True,
        )
        dispatcher = FairDispatcher(
            options.threads + streams.most,
            # Without authentication all clients are one user.
            options.threads if options.auth_strategy == NONE else max(1, options.threads - _LEFT_TO_OTHERS),
            functools.partial(fair_threads.key_of, credential=identity.credential_of(options.auth_strategy)),
        )
        # A stream has a thread as long as it lasts; how many a user has of them is bounded by itself.
        streams.taken = fair_threads.stop_counting
        sockets: dict[int, Any] = {}
        limits = options.request_timeout, options.connections_per_address
        try:
            listening = [_Server(application, sockets, dispatcher, asked, each, limits) for each in asked.listen]
        except OSError as refused:
            dispatcher.shutdown(timeout=_STOP_S)
            where = f"{options.bind_host}:{options.port}"
            raise errors.ConfigError(
                option="[api] port", reason=f"cannot be used: {where}: {refused.strerror}"
            ) from None
        addresses = [(each.effective_host, each.effective_port) for each in listening]
        self._server = server.MultiSocketServer(sockets, asked, addresses, dispatcher)
        self._wake = listening[0].trigger
        self._dispatcher = dispatcher
        self._thread = threading.Thread(target=self._server.run, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Accept nothing more. Requests that are being worked on are answered."""
        self._streams.close()
        self._dispatcher.shutdown(timeout=_STOP_S)
        if self._thread.is_alive():
            # By the thread that waits for these sockets: another would close them while it waits.
            self._wake.pull_trigger(self._server.close)
        else:
            self._server.close()

    def wait(self) -> None:
        self._thread.join(_STOP_S)


class _Channel(channel.HTTPChannel):
    """A connection, which knows since when it waits for the rest of a request, and since when its client takes nothing.

    A client that sends a byte now and then is never idle. So the time of a whole request is limited, and for a new
    connection the time until its first request.

    A client may send many requests and take no answer. So a request is begun when all earlier answers are with the
    kernel: no thread works, or waits in waitress for room, on behalf of such a client.
    """

    def __init__(self, server: _Server, *rest: object, **named: Any) -> None:
        super().__init__(server, *rest, **named)
        self.waits_since: float | None = time.monotonic()
        #: A request has come whole, and is to be begun when the earlier answers are gone.
        self.holds_request = False
        self._sent = 0
        #: How many bytes the client had taken when it was seen to leave some, and since when it has taken no more.
        self._taken: tuple[int, float] | None = None
        if server.has_enough_of(self.addr[0]):
            self.will_close = True

    def received(self, data: bytes) -> object:
        done = super().received(data)
        if self.request is None:
            self.waits_since = None
        elif self.waits_since is None:
            self.waits_since = time.monotonic()
        return done

    def send_continue(self) -> None:
        """Ask for the body of a request, but if there is none, or the request is refused without it.

        waitress would wait for a body after that, and never answer.
        """
        if not self.request.completed:
            super().send_continue()

    def writable(self) -> object:
        return self.holds_request or super().writable()

    def handle_write(self) -> None:
        super().handle_write()
        with self.requests_lock:
            if self.holds_request and self.connected and not self.total_outbufs_len:
                self.holds_request = False
                self.server.add_task(self)

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close)
        self._sent += sent
        return sent

    def check_client_disconnected(self) -> bool:
        """Return True if the client has gone: applications may call it as ``environ["waitress.client_disconnected"]``.

        waitress reads nothing while it answers a request, so it sees the end of a connection only when a write fails. Its
        option ``channel_request_lookahead`` would let requests come that nobody counts, and drop the answers of clients
        that have closed their half of the connection.
        """
        return not self.connected or _hung_up(self.socket)

    def takes_nothing_s(self, now: float) -> float:
        """Return for how long the client has taken nothing of what there is for it; 0 if it takes it, or there is nothing.

        The kernel asks for more only when much of what it has is gone. So what it still has counts as not taken.
        """
        queued = _queued(self.socket)
        if not queued and not self.total_outbufs_len:
            self._taken = None
            return 0.0
        taken = self._sent - queued
        if self._taken is None:
            self._taken = taken, now
        elif self._taken[0] != taken:
            self._taken = taken, now
            self.last_activity = time.time()
        return now - self._taken[1]

    def close_at_once(self) -> None:
        """Close the connection though its client takes nothing. A thread that waits for room goes on, and fails."""
        self.will_close = True
        with contextlib.suppress(AttributeError, OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.handle_close()


def _hung_up(connection: socket.socket | None) -> bool:
    """Return True if the other side has ended the connection, whatever it sent before; any thread may call it."""
    if connection is None:
        return True
    waiting = select.poll()
    try:
        # POLLHUP and POLLERR are always reported.
        waiting.register(connection, select.POLLRDHUP)
        return bool(waiting.poll(0))
    except (OSError, ValueError):
        return True


def _queued(connection: socket.socket | None) -> int:
    """Return how many bytes the kernel has for the client; 0 if another thread has closed the connection meanwhile."""
    if connection is None:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except (OSError, ValueError):
        return 0


class _Server(server.TcpWSGIServer):
    """:param limits: seconds for a request to arrive, and connections of one address"""

    channel_class = _Channel

    def __init__(
        self,
        application: Callable[..., Any],
        sockets: dict[int, Any],
        dispatcher: FairDispatcher,
        asked: adjustments.Adjustments,
        where: Any,
        limits: tuple[int, int],
    ) -> None:
        self._request_s, self._of_an_address = limits
        super().__init__(application, sockets, dispatcher=dispatcher, adj=asked, sockinfo=where)

    def has_enough_of(self, address: str) -> bool:
        """Return True if this address has more connections than it may have; the newest is counted."""
        found = sum(each.addr[0] == address for each in self.active_channels.values())
        if found > self._of_an_address:
            self._say(f"has more than {self._of_an_address} connections", address)
            return True
        return False

    def add_task(self, task: _Channel) -> None:
        """Have the oldest request of a channel answered, if nothing is left of earlier answers; else later."""
        if task.total_outbufs_len:
            task.holds_request = True
        else:
            super().add_task(task)

    def maintenance(self, now: float) -> None:
        """Close connections that are idle, whose clients take no answer, or whose request has not come whole in time."""
        at, idle_s = time.monotonic(), self.adj.channel_timeout
        for each in list(self.active_channels.values()):
            if each.takes_nothing_s(at) > idle_s:
                # Not by will_close: waitress looks at that when the kernel has room, which may be never.
                each.close_at_once()
                self._say(f"has taken nothing of an answer for {idle_s} s", each.addr[0])
            elif not each.requests and each.waits_since is not None and each.waits_since < at - self._request_s:
                each.will_close = True
                self._say(f"has sent no whole request for {self._request_s} s", each.addr[0])
            elif not each.requests and each.last_activity < now - idle_s:
                each.will_close = True

    @staticmethod
    def _say(what: str, address: str) -> None:
        left_out = _closed.due(what)
        if left_out is not None:
            LOG.warning("A connection is closed: %s %s (%d more like it)", address, what, left_out)
