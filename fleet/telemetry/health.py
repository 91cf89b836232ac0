# SPDX-License-Identifier: Apache-2.0
"""``/healthz`` and ``/metrics`` over HTTP, on a port of the daemon's own."""

from __future__ import annotations

import http.server
import json
import threading
from http import HTTPStatus

import prometheus_client
from oslo_log import log as logging

from fleet.telemetry.watchdog import Watchdog

LOG = logging.getLogger(__name__)


class HealthServer:
    """Answers ``/healthz/live``, ``/healthz/ready``, ``/healthz`` (detail) and ``/metrics``.

    A port that is taken costs the daemon its health page, with one ERROR; the work goes on.
    """

    def __init__(self, watchdog: Watchdog, host: str, port: int) -> None:
        self._watchdog = watchdog
        self._address = host, port
        self._server: http.server.ThreadingHTTPServer | None = None

    @property
    def port(self) -> int:
        """The one that is open; 0 if none is."""
        return self._server.server_address[1] if self._server else 0

    def start(self) -> None:
        try:
            self._server = http.server.ThreadingHTTPServer(self._address, _handler(self._watchdog))
        except OSError as taken:
            LOG.error(
                "[health] port %d cannot be opened: %s. There is no health page", self._address[1], taken.strerror
            )
            return
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        LOG.info("Health and metrics are at http://%s:%d/healthz and /metrics", self._address[0], self.port)

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def wait(self) -> None:
        """stop() has waited."""


def _handler(watchdog: Watchdog) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        """One request."""

        server_version = "fleet"
        sys_version = ""
        timeout = 10

        def do_GET(self) -> None:  # the standard library's name
            path = self.path.partition("?")[0].rstrip("/")
            if path == "/metrics":
                self._answer(HTTPStatus.OK, prometheus_client.generate_latest(), prometheus_client.CONTENT_TYPE_LATEST)
            elif path == "/healthz/live":
                self._state(watchdog.live)
            elif path == "/healthz/ready" or path in ("/healthz", "/healthz/detail"):
                self._state(watchdog.ready)
            else:
                self._answer(HTTPStatus.NOT_FOUND, b'{"error": "ask for /healthz or /metrics"}\n')

        def _state(self, good: bool) -> None:
            body = json.dumps(watchdog.detail(), indent=1).encode() + b"\n"
            self._answer(HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, body)

        def _answer(self, status: HTTPStatus, body: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # the standard library's name
            """Probes come every few seconds: no line for them."""

    return Handler
