# SPDX-License-Identifier: Apache-2.0
"""Serves the application with waitress, which reads requests and writes answers without a thread for each client."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import waitress
from oslo_config import cfg

from fleet import errors
from fleet.api.events import Streams

_STOP_S = 5.0
#: Bytes of the headers of a request, all together.
_MOST_HEADERS = 65_536


class HTTPServer:
    """A part of a worker process. It listens from the moment it is made.

    :raises errors.ConfigError: the address cannot be used
    """

    def __init__(self, application: Callable[..., Any], conf: cfg.ConfigOpts, streams: Streams) -> None:
        options = conf.api
        self._streams = streams
        try:
            self._server = waitress.create_server(
                application,
                host=options.bind_host,
                port=options.port,
                threads=options.threads + streams.most,
                connection_limit=options.connection_limit,
                channel_timeout=options.idle_timeout,
                max_request_body_size=options.max_body,
                max_request_header_size=_MOST_HEADERS,
                ident="fleet-api",
                clear_untrusted_proxy_headers=False,
            )
        except OSError as refused:
            where = f"{options.bind_host}:{options.port}"
            raise errors.ConfigError(
                option="[api] port", reason=f"cannot listen on {where}: {refused.strerror}"
            ) from None
        self._thread = threading.Thread(target=self._server.run, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Accept nothing more. Requests that are being worked on are answered."""
        self._streams.close()
        self._server.task_dispatcher.shutdown(timeout=_STOP_S)
        self._server.close()

    def wait(self) -> None:
        self._thread.join(_STOP_S)
