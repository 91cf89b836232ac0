# SPDX-License-Identifier: Apache-2.0
"""The versions of the compute API and of the API of volumes: which one a request asks for, and discovery.

Called by :mod:`fleet_api.application` and the resources. A client names the version in a header; without one it is
the oldest. The documents that discovery returns need no version.
"""

from __future__ import annotations

import dataclasses
import re

import falcon
from typing_extensions import TypedDict

from fleet_api.requests import answers, guard, page
from fleet_api.requests.faults import Fault
from fleet_api.requests.paths import roots

Version = tuple[int, int]

#: Headers of the request and of the answer; the older one is for the compute API only.
HEADER, OLD_HEADER = "OpenStack-API-Version", "X-OpenStack-Nova-API-Version"
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})")
#: Dates of version 2.1 and 2.0, as nova's API gives them.
_UPDATED, _UPDATED_OLD = "2013-07-23T11:33:21Z", "2011-01-21T11:33:21Z"


@dataclasses.dataclass(frozen=True)
class Service:
    """``path`` is that of the newest version, ``id`` its name in discovery."""

    name: str
    path: str
    id: str
    oldest: Version
    newest: Version


COMPUTE = Service("compute", "/v2.1", "v2.1", (2, 1), (2, 100))
#: The compute API as clients know it that name no versions.
OLD_PATH = "/v2"
VOLUME = Service("volume", "/v3", "v3.0", (3, 0), (3, 71))
#: Its requests name no version.
NETWORK = Service("network", "/v2.0", "v2.0", (2, 0), (2, 0))


class Negotiation:
    """Middleware: sets ``request.context.version``, and the headers of the answer."""

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        _require_whole(request)
        service = VOLUME if request.path == VOLUME.path or request.path.startswith(f"{VOLUME.path}/") else COMPUTE
        response.set_header("Vary", f"{HEADER}, {OLD_HEADER}")
        request.context.version = asked = wanted(request, service)
        response.set_header(HEADER, f"{service.name} {text(asked)}")
        if service is COMPUTE:
            response.set_header(OLD_HEADER, text(asked))


def _require_whole(request: falcon.Request) -> None:
    """:raises Fault: 404: the path ends with ``/``, so that the name or the id of something is missing"""
    path = request.env["PATH_INFO"]
    if (
        path.endswith("/")
        and path.rstrip("/").count("/") > 1
        and path.startswith((f"{COMPUTE.path}/", f"{VOLUME.path}/"))
    ):
        raise Fault(404, "The path ends with /: the name or the id of what is asked for is missing.")


def wanted(request: falcon.Request, service: Service = COMPUTE) -> Version:
    """:raises Fault: 400 if it is no version, 406 if it is not served"""
    found = _of_header(request.get_header(HEADER), service)
    if found is None and service is COMPUTE:
        found = request.get_header(OLD_HEADER)
    if found is None:
        return service.oldest
    if found == "latest":
        return service.newest
    parts = _VERSION.fullmatch(found)
    if parts is None:
        raise Fault(
            400, f"API Version String {found[:40]!r} is of invalid format. Must be of format MajorNum.MinorNum."
        )
    version = int(parts[1]), int(parts[2])
    if not service.oldest <= version <= service.newest:
        served = f"Minimum is {text(service.oldest)} and maximum is {text(service.newest)}."
        raise Fault(406, f"Version {text(version)} is not supported by the API. {served}")
    return version


def require_before(request: falcon.Request, end: Version) -> None:
    """:raises Fault: 404: the version does not have the path any more"""
    if request.context.version >= end:
        raise Fault(404, f"This path is not in version {text(end)} and later.")


def _of_header(header: str | None, wanted: Service) -> str | None:
    """Return the version for a service in a list such as ``compute 2.53, volume 3.0``."""
    for part in (header or "").split(","):
        service, _, version = part.strip().partition(" ")
        if service == wanted.name:
            return version.strip()
    return None


def text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


class ApiVersion(TypedDict):
    id: str
    status: str
    version: str
    min_version: str
    updated: str
    links: list[answers.Link]


class MediaType(TypedDict):
    base: str
    type: str


_MediaTypes = TypedDict("_MediaTypes", {"media-types": list[MediaType]})


class DetailedVersion(ApiVersion, _MediaTypes):
    """Versions 2.1 and 3 as their own documents show them."""


class Discovery:
    """``/``, ``/v2``, ``/v2.1``, ``/v3`` and ``/v2.0``: which versions there are, with links to the host that was asked."""

    @guard.public
    @answers.gives(answers.Answer({"versions": list[ApiVersion]}))
    @answers.gives(answers.Answer({"versions": list[DetailedVersion]}), 300)
    @answers.gives(answers.NOTHING, 302)
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """The versions of the compute API, or below ``/volume`` those of the API of volumes."""
        if request.env.get(roots.OF_VOLUMES):
            self.on_get_volume(request, response)
            response.status = falcon.HTTP_300
            return
        if page.wants_page(request):
            raise falcon.HTTPFound(f"{root(request)}{page.ROOT}/")
        response.media = {"versions": [_old(request), document(request)]}

    @guard.public
    @answers.gives(answers.Answer({"version": DetailedVersion}))
    def on_get_old(self, request: falcon.Request, response: falcon.Response) -> None:
        types = [{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2"}]
        response.media = {"version": {**_old(request), "media-types": types}}

    @guard.public
    @answers.gives(answers.Answer({"version": DetailedVersion}))
    def on_get_version(self, request: falcon.Request, response: falcon.Response) -> None:
        media_type = "application/vnd.openstack.compute+json;version=2.1"
        types = [{"base": "application/json", "type": media_type}]
        response.media = {"version": {**document(request), "media-types": types}}

    @guard.public
    @answers.gives(answers.Answer({"versions": list[DetailedVersion]}))
    def on_get_volume(self, request: falcon.Request, response: falcon.Response) -> None:
        types = [{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}]
        response.media = {"versions": [{**document(request, VOLUME), "media-types": types}]}

    @guard.public
    @answers.gives(answers.Answer({"versions": list[ApiVersion]}))
    def on_get_network(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = {"versions": [document(request, NETWORK)]}


def document(request: falcon.Request, service: Service = COMPUTE) -> ApiVersion:
    return {
        "id": service.id,
        "status": "CURRENT",
        "version": text(service.newest),
        "min_version": text(service.oldest),
        "updated": _UPDATED,
        "links": [{"rel": "self", "href": f"{root(request)}{service.path}/"}],
    }


def _old(request: falcon.Request) -> ApiVersion:
    links: list[answers.Link] = [{"rel": "self", "href": f"{root(request)}{OLD_PATH}/"}]
    return {
        "id": "v2.0",
        "status": "SUPPORTED",
        "version": "",
        "min_version": "",
        "updated": _UPDATED_OLD,
        "links": links,
    }


def root(request: falcon.Request) -> str:
    """Return the URL of ``/`` as the client sees it, also behind a proxy."""
    return str(request.forwarded_prefix)


def link(request: falcon.Request, path: str, rel: str = "self", service: Service = COMPUTE) -> answers.Link:
    """Return a link to ``path`` below the API's root."""
    base = f"{root(request)}{service.path}" if rel != "bookmark" else root(request)
    return {"rel": rel, "href": f"{base}{path}"}


def links(request: falcon.Request, path: str, service: Service = COMPUTE) -> list[answers.Link]:
    return [link(request, path, service=service), link(request, path, "bookmark")]
