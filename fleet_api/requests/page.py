# SPDX-License-Identifier: Apache-2.0
"""The page at ``/ui/``: files of this package, for browsers. It reads :mod:`fleet_api.own.own`."""

from __future__ import annotations

import functools
import ipaddress
import pathlib
import socket

import falcon
from oslo_config import cfg

from fleet_api.conf import NONE
from fleet_api.requests.faults import Fault

ROOT = "/ui"
_FILES = pathlib.Path(__file__).parents[1] / "static"
#: Only files of this server, and none inside the page: a name with a script in it stays text.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


#: Methods that change nothing.
_READING = ("GET", "HEAD", "OPTIONS")


def add_routes(app: falcon.App) -> None:
    app.add_static_route(ROOT, str(_FILES), fallback_filename="index.html")


class Browsers:
    """Middleware: refuses what pages of other sites make a browser send, and tells browsers what our page may do."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        own_name = socket.gethostname()
        #: None if passwords protect: a browser does not send ours to another name.
        self._names: set[str] | None = None
        if conf.api.auth_strategy == NONE:
            self._names = {name.lower() for name in ("localhost", own_name, *conf.api.host_names)}

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        """:raises Fault: another site's page has sent the request, with the rights of whoever looks at it"""
        if self._names is not None and not self._is_ours(request.host.lower()):
            reason = "If it is a name of this service, add it to host_names in [api]."
            raise Fault(403, f"This request is for the name {request.host!r}, which may be another site's. {reason}")
        if request.method in _READING:
            return
        origin = request.get_header("Origin")
        if request.get_header("Sec-Fetch-Site") == "cross-site" or (origin and _host_of(origin) != request.netloc):
            raise Fault(403, "A page of another site has sent this request.")

    def _is_ours(self, host: str) -> bool:
        return host in (self._names or ()) or _is_address(host) or host == _full_name()

    def process_response(
        self, request: falcon.Request, response: falcon.Response, _resource: object, _succeeded: bool
    ) -> None:
        if request.path == ROOT or request.path.startswith(f"{ROOT}/"):
            response.set_header("Content-Security-Policy", _POLICY)
            response.set_header("X-Content-Type-Options", "nosniff")
            response.set_header("Referrer-Policy", "no-referrer")
            response.set_header("Cache-Control", "no-cache")


@functools.cache
def _full_name() -> str:
    """Return the machine's name with its domain. The question to the name service may take seconds: it is asked once, and
    only for a name that is not known otherwise.
    """
    return socket.getfqdn().lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _host_of(origin: str) -> str:
    return origin.partition("://")[2]


def wants_page(request: falcon.Request) -> bool:
    """Return True for browsers: other clients do not name HTML among what they accept."""
    return "text/html" in request.accept
