# SPDX-License-Identifier: Apache-2.0
"""``auth_strategy = keystone``: senders are users of OpenStack's identity service, and show a token of it.

keystonemiddleware stands in front of the application and asks keystone about each token. Its options are in the group
``[keystone_authtoken]``, as for every service of OpenStack. It is an extra of the package
(``pip install '.[keystone]'`` in the directory of the source), and imported only where it is used, because it takes memory.

Each service of the catalog has paths of its own here, so a middleware for each checks the access rules of an application
credential: they name the type of a service, a method and a path.

Browsers cannot add a header to a stream of events. So the page has its token in a cookie, see
:mod:`fleet_api.access.sessions`.
"""

from __future__ import annotations

import functools
import importlib
import io
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import cachetools
import falcon
from oslo_config import cfg
from oslo_log import log as logging

from fleet import errors
from fleet.json_codec import JSONObject
from fleet_api.access.users import User
from fleet_api.requests.faults import Fault

LOG = logging.getLogger(__name__)

GROUP = "keystone_authtoken"
COOKIE = "fleet-token"
#: Where browsers send the cookie.
COOKIE_PATH = "/fleet/v1"
#: Where keystonemiddleware looks for a cache of tokens, and how many a process keeps without ``memcached_servers``.
_CACHE, _MOST_REMEMBERED = "fleet.tokens", 10_000
#: Seconds after which a call without an answer fails, unless http_connect_timeout is set. keystoneauth waits for ever.
_TIMEOUT_S = 10
#: Type in keystone's catalog by the begin of a path; the first that fits. fleet's own paths are those of the compute API.
_COMPUTE = "compute"
_SERVICES = (("/v3/", "block-storage"), ("/v2.0/", "network"), ("/v2/images", "image"), ("/", _COMPUTE))
#: Set as soon as the application has the request.
_ADMITTED = "fleet.admitted"
#: Where the application finds how to ask about the token again, and what begins the headers that name its sender.
_AGAIN, _SAID = "fleet.check_again", ("HTTP_X_IDENTITY_STATUS", "HTTP_X_USER", "HTTP_X_PROJECT", "HTTP_X_ROLES")


def token_of(path: str, headers: Mapping[str, str]) -> str:
    """Return the token of a request that is not checked yet; "" if it has none. :param headers: named as in WSGI"""
    return headers.get("X_AUTH_TOKEN") or _of_cookie(path, headers.get("COOKIE", ""))


def _of_cookie(path: str, header: str) -> str:
    if not path.startswith(f"{COOKIE_PATH}/"):
        return ""
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "HTTP_COOKIE": header}
    found = falcon.Request({**environ, "wsgi.input": io.BytesIO(), "wsgi.errors": io.StringIO()}).get_cookie_values(
        COOKIE
    )
    return found[0] if found else ""


class Protected:
    """The application behind keystonemiddleware, but for the requests that need no user.

    :param is_public: takes a method and a path; returns True if such a request needs no user
    :raises errors.ConfigError: keystonemiddleware is not installed, or ``[keystone_authtoken]`` lacks something
    """

    def __init__(
        self, application: WSGIApplication, conf: cfg.ConfigOpts, is_public: Callable[[str, str], bool]
    ) -> None:
        register_opts(conf)
        middleware, exceptions = imported("keystonemiddleware.auth_token"), imported("keystoneauth1.exceptions")
        self._open = application
        self._is_public = is_public
        self._remembered = _Remembered(conf[GROUP].token_cache_time)
        options: JSONObject = {"oslo_config_config": conf}
        if not conf[GROUP].memcached_servers:
            options["cache"] = _CACHE
        #: By the type of the service.
        self._checked: dict[str, WSGIApplication] = {}
        self._checked_again: dict[str, WSGIApplication] = {}
        try:
            for _begin, service in _SERVICES:
                for checked, behind in ((self._checked, self._admitted), (self._checked_again, _no_answer)):
                    # keystonemiddleware takes the configuration out of what it is given.
                    checked[service] = middleware.AuthProtocol(behind, {**options, "service_type": service})
        except exceptions.ClientException as wrong:
            raise errors.ConfigError(option=f"[{GROUP}]", reason=f"cannot be used: {wrong}") from None
        if "password" in conf[GROUP] and not conf[GROUP].password:
            raise errors.ConfigError(option=f"[{GROUP}] password", reason="is needed")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if self._is_public(environ["REQUEST_METHOD"], path):
            return self._open(environ, start_response)
        if "HTTP_X_AUTH_TOKEN" not in environ and (kept := _of_cookie(path, environ.get("HTTP_COOKIE", ""))):
            environ["HTTP_X_AUTH_TOKEN"] = kept
        environ[_CACHE] = self._remembered
        service = next(kind for begin, kind in _SERVICES if path.startswith(begin))
        environ[_AGAIN] = functools.partial(self._known_now, service, dict(environ))
        answer = _answer(self._checked[service], environ, start_response)
        return _unavailable(start_response) if answer is None else answer

    def _admitted(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ[_ADMITTED] = True
        return self._open(environ, start_response)

    def _known_now(self, service: str, environ: WSGIEnvironment) -> WSGIEnvironment | None:
        """Check the token of an earlier request again. Return the environment with the sender as keystone knows it now.

        None: keystone cannot be asked.
        """
        answer = _answer(self._checked_again[service], environ, lambda *_begun: lambda _part: None)
        return None if answer is None else environ


def _answer(
    checked: WSGIApplication, environ: WSGIEnvironment, start_response: StartResponse
) -> Iterable[bytes] | None:
    """Return the answer of keystonemiddleware, or of the application behind it.

    None: keystone cannot be asked, or answers in no form of its own. keystoneclient then raises a KeyError, among others.
    """
    refusal = _Refusal(environ, start_response)
    try:
        answer = checked(environ, refusal)
    except Exception as failure:
        if _ADMITTED in environ:
            raise
        LOG.error("Cannot check a token with keystone: %s: %s", type(failure).__name__, failure)
        return None
    return None if refusal.is_unavailable else answer


def _no_answer(_environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Stand for the application where only the check of a token counts."""
    start_response(falcon.HTTP_204, [])
    return ()


class _Refusal:
    """Passes the beginning of an answer on, but for a 503 of keystonemiddleware, which has a form of its own."""

    def __init__(self, environ: WSGIEnvironment, start_response: StartResponse) -> None:
        self._environ = environ
        self._start_response = start_response
        self.is_unavailable = False

    def __call__(self, status: str, headers: list[tuple[str, str]], *failure: Any) -> Callable[[bytes], object]:
        if status.startswith("503") and _ADMITTED not in self._environ:
            self.is_unavailable = True
            return lambda _part: None
        return self._start_response(status, headers, *failure)


def check_again(request: falcon.Request) -> None:
    """Replace the facts about the sender by those that keystone has now. Without keystone, do nothing.

    Afterwards :func:`sender` raises if the token is not valid any more.
    """
    again = request.env.get(_AGAIN)
    found = None if again is None else again()
    if found is None:
        return
    for name in [each for each in request.env if each.startswith(_SAID)]:
        del request.env[name]
    request.env.update({name: value for name, value in found.items() if name.startswith(_SAID)})


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of ``[keystone_authtoken]``.

    :raises errors.ConfigError: the extra is not installed, or ``auth_type`` is missing
    """
    for group, opts in imported("keystonemiddleware.auth_token").list_opts():
        conf.register_opts(opts, group)
    conf.set_default("http_connect_timeout", _TIMEOUT_S, GROUP)
    imported("keystoneauth1.loading").register_auth_conf_options(conf, GROUP)
    if not conf[GROUP].auth_type:
        reason = "is needed with auth_strategy = keystone: how fleet-api proves who it is, such as password"
        raise errors.ConfigError(option=f"[{GROUP}] auth_type", reason=reason)


def imported(name: str) -> Any:
    """Import a module of the extra. :raises errors.ConfigError: it is not installed"""
    try:
        return importlib.import_module(name)
    except ImportError:
        advice = "pip install '.[keystone]' in the directory of the source"
        reason = f"is keystone, which needs keystonemiddleware; install it with: {advice}"
        raise errors.ConfigError(option="[api] auth_strategy", reason=reason) from None


def sender(request: falcon.Request) -> User:
    """Return the user that keystonemiddleware has authenticated.

    :raises falcon.HTTPUnauthorized: it has authenticated nobody
    :raises Fault: the token is of no project
    """
    if request.get_header("X-Identity-Status") != "Confirmed":
        raise falcon.HTTPUnauthorized(title="Unauthorized", description="There is no token of keystone.")
    user, project = request.get_header("X-User-Id"), request.get_header("X-Project-Id")
    if not user or not project:
        raise Fault(403, "The token is of no project. Ask keystone for one of a project, such as with OS_PROJECT_NAME.")
    roles = [each.strip().lower() for each in (request.get_header("X-Roles") or "").split(",")]
    return User(user, project, [each for each in roles if each])


class _Remembered:
    """Keeps keystone's answers about tokens for ``lifetime_s``. It has the methods of a memcached client that
    keystonemiddleware calls. ``_lock`` guards the cache: all threads of the server use it.
    """

    def __init__(self, lifetime_s: int) -> None:
        self._lock = threading.Lock()
        self._known: cachetools.TTLCache[str, Any] = cachetools.TTLCache(_MOST_REMEMBERED, max(0, lifetime_s))

    def get(self, key: str) -> Any:
        with self._lock:
            return self._known.get(key)

    def set(self, key: str, value: object, time: int = 0) -> None:
        with self._lock:
            self._known[key] = value


def _unavailable(start_response: StartResponse) -> Iterable[bytes]:
    """503 in the form of all failures; falcon is not asked before the token is known."""
    body = json.dumps({"serviceUnavailable": {"code": 503, "message": "keystone cannot be asked."}}).encode()
    start_response(falcon.HTTP_503, [("Content-Type", falcon.MEDIA_JSON), ("Content-Length", str(len(body)))])
    return [body]
