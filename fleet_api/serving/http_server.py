# SPDX-License-Identifier: Apache-2.0
"""Serves the application with waitress, which reads requests and writes answers without a thread for each client.

:mod:`fleet_api.main` starts it.
"""

from __future__ import annotations

import functools
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
    """A connection, which knows since when it waits for the rest of a request.

    A client that sends a byte now and then is never idle. So the time of a whole request is limited, and for a new
    connection the time until its first request.
    """

    def __init__(self, server: _Server, *rest: object, **named: Any) -> None:
        super().__init__(server, *rest, **named)
        self.waits_since: float | None = time.monotonic()
        if server.has_enough_of(self.addr[0]):
            self.will_close = True

    def received(self, data: bytes) -> object:
        done = super().received(data)
        if self.request is None:
            self.waits_since = None
        elif self.waits_since is None:
            self.waits_since = time.monotonic()
        return done


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

    def maintenance(self, now: float) -> None:
        """Close connections that are idle, and those whose request has not come whole in time."""
        super().maintenance(now)
        late = time.monotonic() - self._request_s
        for each in self.active_channels.values():
            if not each.requests and each.waits_since is not None and each.waits_since < late:
                each.will_close = True
                self._say(f"has sent no whole request for {self._request_s} s", each.addr[0])

    @staticmethod
    def _say(what: str, address: str) -> None:
        left_out = _closed.due(what)
        if left_out is not None:
            LOG.warning("A connection is closed: %s %s (%d more like it)", address, what, left_out)
