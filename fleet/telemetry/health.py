# SPDX-License-Identifier: Apache-2.0
"""``/healthz`` and ``/metrics`` over HTTP, on a port of the daemon's own.

:mod:`fleet.service.probes` starts the server.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import prometheus_client
from oslo_log import log as logging

from fleet.telemetry.exposition import Exposition
from fleet.telemetry.watchdog import Watchdog

LOG = logging.getLogger(__name__)
#: What the standard library hands to servers: a stream, or a datagram with its socket.
_Request = socket.socket | tuple[bytes, socket.socket]

#: Connections at a time; each has a thread.
MOST_CONNECTIONS = 16
#: Seconds that a connection may last, however slowly its request comes. When all are in use, a new connection
#: replaces one of this age.
LONGEST_S = 10.0
EVICTED_AFTER_S = 1.0


class HealthServer:
    """Serves ``/healthz/live``, ``/healthz/ready``, ``/healthz`` (details) and ``/metrics``.

    If the port is taken, the daemon works without a health page and logs one ERROR.
    """

    def __init__(self, watchdog: Watchdog, host: str, port: int, name: Mapping[str, object] | None = None) -> None:
        """:param name: of the daemon, shown with its state; its ``service`` says which metrics are shown"""
        self._watchdog = watchdog
        self._address = host, port
        self._name = dict(name or {})
        self._exposition = Exposition(self._name.get("service"))
        self._server: _BoundedServer | None = None

    @property
    def port(self) -> int:
        """The open port; 0 if none is open."""
        return self._server.server_address[1] if self._server else 0

    def start(self) -> None:
        try:
            self._server = _BoundedServer(self._address, _handler(self._watchdog, self._name, self._exposition))
        except (OSError, OverflowError) as taken:
            # OverflowError: each service has its own range of ports, which may end beyond 65535.
            reason = getattr(taken, "strerror", None) or taken
            LOG.error("[health] port %d cannot be opened: %s. There is no health page", self._address[1], reason)
            return
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        LOG.info("Health and metrics are at http://%s:%d/healthz and /metrics", self._address[0], self.port)

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def wait(self) -> None:
        """Do nothing: stop() has waited."""


class _BoundedServer(http.server.ThreadingHTTPServer):
    """Bounds the number and the age of connections, so that idle clients neither use up descriptors nor block probes."""

    daemon_threads = True
    #: Length of the accept queue, which the kernel bounds.
    request_queue_size = 32

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[_Request, float] = {}
        self._guard = threading.Lock()
        super().__init__(*arguments)

    def process_request(self, request: _Request, client_address: object) -> None:
        if not self._has_room():
            self.shutdown_request(request)
            return
        with self._guard:
            self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: _Request) -> None:
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called twice a second by the server loop."""
        self._end_older_than(LONGEST_S)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log at debug: a client that is gone, or was disconnected, is not an error of the daemon."""
        LOG.debug("A request to the health page of %s was not answered", client_address)

    def _has_room(self) -> bool:
        with self._guard:
            if len(self._open) < MOST_CONNECTIONS:
                return True
            request, since = next(iter(self._open.items()))
            if time.monotonic() - since < EVICTED_AFTER_S:
                return False
            del self._open[request]
        _end(request)
        return True

    def _end_older_than(self, seconds: float) -> None:
        now = time.monotonic()
        with self._guard:
            old = [request for request, since in self._open.items() if now - since > seconds]
            for request in old:
                del self._open[request]
        for request in old:
            _end(request)


def _end(request: _Request) -> None:
    """Wake the connection's thread, which then closes it."""
    assert isinstance(request, socket.socket), "a server of HTTP has streams only"
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


def _handler(
    watchdog: Watchdog, name: Mapping[str, object], exposition: Exposition
) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        """One request."""

        server_version = "fleet"
        sys_version = ""
        timeout = LONGEST_S

        def do_GET(self) -> None:  # the standard library's name
            path = self.path.partition("?")[0].rstrip("/")
            if path == "/metrics":
                page = prometheus_client.generate_latest(exposition)
                self._answer(HTTPStatus.OK, page, prometheus_client.CONTENT_TYPE_LATEST)
            elif path == "/healthz/live":
                self._state(watchdog.live)
            elif path == "/healthz/ready" or path in ("/healthz", "/healthz/detail"):
                self._state(watchdog.ready)
            else:
                self._answer(HTTPStatus.NOT_FOUND, b'{"error": "ask for /healthz or /metrics"}\n')

        def _state(self, good: bool) -> None:
            body = json.dumps({**name, **watchdog.detail()}, indent=1).encode() + b"\n"
            self._answer(HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, body)

        def _answer(self, status: HTTPStatus, body: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # the standard library's name
            """Log nothing: probes come every few seconds."""

    return Handler
