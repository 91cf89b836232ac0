# SPDX-License-Identifier: Apache-2.0
"""Other paths of the same services, as catalogs of OpenStack have them.

Called by :mod:`fleet_api.application` and :mod:`fleet_api.requests.microversions`. ``/volume/v3`` is the API of
volumes below a root of its own: ``/volume/`` lists its versions. ``/v2`` is version 2.1 of the compute API, in which
versions cannot be named. The image API keeps ``/v2/images``.
"""

from __future__ import annotations

from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_VOLUME, _BELOW_VOLUME = "/volume", "/v3"
_OLD, _COMPUTE, _IMAGES = "/v2/", "/v2.1/", "images"
#: Headers that name versions.
_VERSIONS = ("HTTP_OPENSTACK_API_VERSION", "HTTP_X_OPENSTACK_NOVA_API_VERSION")
#: Set for requests below ``/volume``.
OF_VOLUMES = "fleet.of_volumes"


class Roots:
    """WSGI middleware before all others: they see the paths of routes only."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path: str = environ["PATH_INFO"]
        if not path.startswith("/"):
            # As in "OPTIONS *", or a request line without the first slash.
            environ["PATH_INFO"] = path = f"/{path}"
        if path == _VOLUME or path.startswith(f"{_VOLUME}/"):
            below = path.removeprefix(_VOLUME) or "/"
            if below == "/" or f"{below}/".startswith(f"{_BELOW_VOLUME}/"):
                # Links in answers begin with it.
                environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + _VOLUME
                environ |= {"PATH_INFO": below, OF_VOLUMES: True}
        elif path.startswith(_OLD) and path != _OLD and path.split("/")[2] != _IMAGES:
            environ["PATH_INFO"] = _COMPUTE + path.removeprefix(_OLD)
            for name in _VERSIONS:
                environ.pop(name, None)
        return self._application(environ, start_response)
