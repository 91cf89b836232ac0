# SPDX-License-Identifier: Apache-2.0
"""Serves keystone: ``keystone_server.py CONFIGURATION PORT``."""

from __future__ import annotations

import os
import socketserver
import sys
import wsgiref.simple_server


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_words: object) -> None:
        """keystone has a log of its own."""

    def address_string(self) -> str:
        return self.client_address[0]


def main() -> None:
    configuration, port = sys.argv[1:]
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = configuration
    sys.argv[1:] = []
    from keystone.server.wsgi import initialize_public_application

    application = initialize_public_application()
    with wsgiref.simple_server.make_server(
        "127.0.0.1", int(port), application, server_class=_Server, handler_class=_Quiet
    ) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
