# SPDX-License-Identifier: Apache-2.0
"""Refuses malformed requests for any path: a wrong host or scheme, and control characters in path and query.

Called by :mod:`fleet_api.application`.
"""

from __future__ import annotations

import re

import falcon

from fleet_api.requests.faults import Fault

#: A name or an address, and perhaps a port (RFC 3986). Libraries read other texts in different ways.
_HOST = re.compile(r"(?:[A-Za-z0-9._~-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_LARGEST_PORT = 65535
_SCHEMES = ("http", "https")
#: Each proxy of several may add what it was asked for. falcon takes the first of Forwarded, but the whole of these.
_LISTS = ("HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PROTO")


class WellFormed:
    """Middleware, the first one: others read the host.

    Links in answers have the host and the scheme that proxies pass on. They are held to the rule for ``Host``.
    """

    def process_request(self, request: falcon.Request, _response: falcon.Response) -> None:
        """:raises Fault: 400"""
        host = request.env.get("HTTP_HOST")
        if host is not None and not _is_host(host):
            raise Fault(400, "The header Host must be a name or an address, and perhaps a port.")
        for each in _LISTS:
            if each in request.env:
                request.env[each] = request.env[each].partition(",")[0].strip(" \t")
        if not _is_host(request.forwarded_host):
            names = "The host of X-Forwarded-Host or Forwarded"
            raise Fault(400, f"{names} must be a name or an address, and perhaps a port.")
        if request.forwarded_scheme not in _SCHEMES:
            raise Fault(400, "The scheme of X-Forwarded-Proto or Forwarded must be http or https.")
        if not _is_printable(request.path):
            raise Fault(400, "The path must not contain control characters.")
        for name, given in request.params.items():
            if not all(_is_printable(each) for each in (name, *([given] if isinstance(given, str) else given))):
                raise Fault(400, f"The parameter {name[:40]!r} must not contain control characters.")


def _is_host(host: str) -> bool:
    if not _HOST.fullmatch(host):
        return False
    _name, colon, port = host.rpartition(":")
    return not colon or not port.isdigit() or int(port) <= _LARGEST_PORT


def _is_printable(text: str) -> bool:
    """Return False for control characters and characters that are no UTF-8; spaces of any kind are printable here."""
    return text.isascii() and text.isprintable() or not _UNPRINTABLE.search(text)


_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
