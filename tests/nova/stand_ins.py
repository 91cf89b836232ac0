# SPDX-License-Identifier: Apache-2.0
"""What a cloud needs beside nova and placement, as small as nova allows: runs in nova's own virtual environment.

``python stand_ins.py wsgi MODULE PORT`` serves an application; ``python stand_ins.py services PORT`` answers for the image
and network services. ``auth_factory`` is the filter of api-paste.ini in the place of the identity service.
"""

import http.server
import importlib
import json
import os
import socketserver
import sys
import wsgiref.simple_server

IMAGE_ID = "11111111-1111-1111-1111-111111111111"
HYPERV_IMAGE_ID = "22222222-2222-2222-2222-222222222222"
_STAMP = "2026-01-01T00:00:00Z"
_IMAGE_FIELDS = (
    *("id", "name", "status", "visibility", "checksum", "owner", "container_format", "disk_format", "size", "min_ram"),
    *("min_disk", "created_at", "updated_at", "protected", "os_hidden", "tags", "file", "schema"),
)


def auth_factory(_global_conf, **_local_conf):
    """Everybody is the administrator; the request carries a token that must appear nowhere."""

    def wrap(application):
        def call(environ, start_response):
            environ["HTTP_X_IDENTITY_STATUS"] = "Confirmed"
            environ["HTTP_X_USER_ID"] = "u1"
            environ["HTTP_X_USER_NAME"] = "admin"
            environ["HTTP_X_PROJECT_ID"] = "p1"
            environ["HTTP_X_PROJECT_NAME"] = "admin"
            environ["HTTP_X_USER_DOMAIN_ID"] = environ["HTTP_X_PROJECT_DOMAIN_ID"] = "default"
            environ["HTTP_X_ROLES"] = "admin,member,reader,manager,service"
            environ["HTTP_X_AUTH_TOKEN"] = os.environ.get("PLANTED_TOKEN", "token")
            environ["HTTP_X_SERVICE_CATALOG"] = "[]"
            return application(environ, start_response)

        return call

    return wrap


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_args):
        """Be quiet."""

    def _answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        path = self.path.partition("?")[0].rstrip("/")
        if "/images/" in path:
            number = path.rpartition("/")[2]
            image = {
                "id": number,
                "name": "cirros",
                "status": "active",
                "visibility": "public",
                "checksum": "d41d8cd98f00b204e9800998ecf8427e",
                "owner": "p1",
                "container_format": "bare",
                "disk_format": "raw",
                "size": 1024,
                "min_ram": 0,
                "min_disk": 0,
                "created_at": _STAMP,
                "updated_at": _STAMP,
                "protected": False,
                "os_hidden": False,
                "tags": [],
                "file": f"/v2/images/{number}/file",
                "schema": "/v2/schemas/image",
            }
            if number == HYPERV_IMAGE_ID:
                image.update({"img_hv_type": "hyperv", "hw_architecture": "x86_64", "hw_vm_mode": "hvm"})
            self._answer(200, image)
        elif path.endswith("/schemas/image"):
            known = {name: {} for name in _IMAGE_FIELDS}
            self._answer(200, {"name": "image", "properties": known, "additionalProperties": {"type": "string"}})
        elif path == "/v3":
            link = {"rel": "self", "href": f"http://{self.headers['Host']}/v3/"}
            self._answer(200, {"version": {"id": "v3.14", "status": "stable", "links": [link]}})
        elif path in ("", "/v2"):
            link = {"rel": "self", "href": f"http://{self.headers['Host']}/v2/"}
            self._answer(200, {"versions": [{"id": "v2.9", "status": "CURRENT", "links": [link]}]})
        else:
            self._answer(200, {path.rpartition("/")[2].replace("-", "_").removesuffix(".json"): []})

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(201, {})

    do_PUT = do_POST

    def do_DELETE(self):
        self.send_response(204)
        self.end_headers()


class _Threads(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 200


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_args):
        """Be quiet."""


if __name__ == "__main__":
    if sys.argv[1] == "wsgi":
        module, port = sys.argv[2], int(sys.argv[3])
        sys.argv = [module]  # the application reads the command line
        application = importlib.import_module(module).application
        wsgiref.simple_server.make_server("127.0.0.1", port, application, _Threads, _Quiet).serve_forever()
    else:
        http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), _Handler).serve_forever()
