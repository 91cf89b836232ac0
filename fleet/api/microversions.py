# SPDX-License-Identifier: Apache-2.0
"""The version of the compute API that a request asks for, and discovery.

A client names the version in one of two headers; without them it is 2.1. The documents that discovery returns need no
version.
"""

from __future__ import annotations

import re
from typing import Any

import falcon

from fleet.api import page
from fleet.api.faults import Fault

OLDEST, NEWEST = (2, 1), (2, 100)
#: Headers of the request and of the answer, the newer one first.
HEADER, OLD_HEADER = "OpenStack-API-Version", "X-OpenStack-Nova-API-Version"
_SERVICE = "compute"
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})")
#: Date of version 2.1, as nova's API gives it.
_UPDATED = "2013-07-23T11:33:21Z"

Version = tuple[int, int]


class Negotiation:
    """Middleware: sets ``request.context.version``, and the headers of the answer."""

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        response.set_header("Vary", f"{HEADER}, {OLD_HEADER}")
        request.context.version = asked = wanted(request)
        response.set_header(HEADER, f"{_SERVICE} {text(asked)}")
        response.set_header(OLD_HEADER, text(asked))


def wanted(request: falcon.Request) -> Version:
    """:raises Fault: 400 if it is no version, 406 if it is not served"""
    found = _of_header(request.get_header(HEADER))
    if found is None:
        found = request.get_header(OLD_HEADER)
    if found is None:
        return OLDEST
    if found == "latest":
        return NEWEST
    parts = _VERSION.fullmatch(found)
    if parts is None:
        raise Fault(
            400, f"API Version String {found[:40]!r} is of invalid format. Must be of format MajorNum.MinorNum."
        )
    version = int(parts[1]), int(parts[2])
    if not OLDEST <= version <= NEWEST:
        raise Fault(
            406,
            f"Version {text(version)} is not supported by the API. Minimum is {text(OLDEST)} and maximum is {text(NEWEST)}.",
        )
    return version


def _of_header(header: str | None) -> str | None:
    """Return the version for this service in a list such as ``compute 2.53, volume 3.0``."""
    for part in (header or "").split(","):
        service, _, version = part.strip().partition(" ")
        if service == _SERVICE:
            return version.strip()
    return None


def text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


class Discovery:
    """``/`` and ``/v2.1``: which versions there are, with links to the host that was asked."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        if page.wants_page(request):
            raise falcon.HTTPFound(f"{root(request)}{page.ROOT}/")
        response.media = {"versions": [document(request)]}

    def on_get_version(self, request: falcon.Request, response: falcon.Response) -> None:
        media_type = "application/vnd.openstack.compute+json;version=2.1"
        types = [{"base": "application/json", "type": media_type}]
        response.media = {"version": {**document(request), "media-types": types}}


def document(request: falcon.Request) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": text(NEWEST),
        "min_version": text(OLDEST),
        "updated": _UPDATED,
        "links": [{"rel": "self", "href": f"{root(request)}/v2.1/"}],
    }


def root(request: falcon.Request) -> str:
    """Return the URL of ``/`` as the client sees it, also behind a proxy."""
    return str(request.forwarded_prefix)


def link(request: falcon.Request, path: str, rel: str = "self") -> dict[str, str]:
    """Return a link to ``path`` below the API's root."""
    base = f"{root(request)}/v2.1" if rel != "bookmark" else root(request)
    return {"rel": rel, "href": f"{base}{path}"}


def links(request: falcon.Request, path: str) -> list[dict[str, str]]:
    return [link(request, path), link(request, path, "bookmark")]
