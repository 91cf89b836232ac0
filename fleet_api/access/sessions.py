# SPDX-License-Identifier: Apache-2.0
"""``/fleet/v1/session``: shows the sender's user and project, and signs browsers in with keystone.

The page's token is in a cookie that its scripts cannot read. Browsers send it below ``/fleet/v1`` only, and never for
pages of other sites. So it is of no use for nova's API, where a form of another site could name the path.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, NotRequired

import falcon
import pydantic
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import timeutils
from typing_extensions import TypedDict

from fleet.objects import fields
from fleet_api.access import identity, tokens
from fleet_api.access.attempts import Attempts
from fleet_api.conf import KEYSTONE
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.faults import Fault, NotHere

LOG = logging.getLogger(__name__)

#: Seconds to wait for keystone.
_WAIT_S = 30


@dataclasses.dataclass(frozen=True)
class _Known:
    """``domain`` is that of the user and of the project."""

    __pydantic_config__ = bodies.STRICT

    username: fields.Name
    password: Annotated[str, pydantic.Field(max_length=4096)] = dataclasses.field(repr=False)
    project: fields.Name
    domain: fields.Name = "Default"

    @property
    def full_name(self) -> str:
        """The name and the domain of the user, without case: some databases of keystone compare names without it."""
        return f"{self.username} of domain {self.domain}".casefold()


class SessionShown(TypedDict):
    user_id: str | None
    project_id: str | None
    roles: list[str]
    signed_in: bool
    calls: NotRequired[dict[str, bool]]
    sees_all: NotRequired[bool]


_SESSION = answers.Answer({"session": SessionShown})


class Sessions:
    """:raises errors.ConfigError: the options of keystone cannot be used"""

    def __init__(self, conf: cfg.ConfigOpts, attempts: Attempts) -> None:
        self._attempts = attempts
        self._options: Any = None
        if conf.api.auth_strategy == KEYSTONE:
            tokens.register_opts(conf)
            self._options = conf[tokens.GROUP]

    @guard.by("fleet:session:get")
    @answers.gives(_SESSION)
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """The sender's user, project and roles; ``signed_in``: with :meth:`on_post`.

        ``calls``: which calls of the contract the sender may make, by ``topic/method``; ``*``: all that are not named.
        ``sees_all``: whether the sender sees servers of all projects, and hosts.
        """
        caller = request.context.caller
        shown = {"user_id": caller.user_id, "project_id": caller.project_id, "roles": caller.roles}
        response.media = {
            "session": {
                **shown,
                "signed_in": bool(request.get_cookie_values(tokens.COOKIE)),
                "calls": identity.calls_of(request),
                "sees_all": identity.sees_all(request),
            }
        }

    @guard.public
    @answers.gives(_SESSION)
    @bodies.takes(bodies.Body(entire=_Known))
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        """Get a token of keystone for a browser, as a cookie.

        :raises Fault: the password is wrong, or keystone is away
        :raises falcon.HTTPTooManyRequests: too many were wrong
        """
        if self._options is None:
            raise NotHere("Signing in with a name and a password for keystone")
        known = bodies.entire(request, _Known)
        name, address = known.full_name, request.remote_addr or ""
        self._attempts.admit(name, address)
        exceptions = tokens.imported("keystoneauth1.exceptions")
        plugin = tokens.imported("keystoneauth1.identity").Password(
            auth_url=self._options.www_authenticate_uri or self._options.auth_url,
            username=known.username,
            password=known.password,
            project_name=known.project,
            user_domain_name=known.domain,
            project_domain_name=known.domain,
        )
        session = tokens.imported("keystoneauth1.session").Session(
            verify=False if self._options.insecure else self._options.cafile or True, timeout=_WAIT_S
        )
        try:
            access = plugin.get_access(session)
            left_s = timeutils.delta_seconds(timeutils.utcnow(True), access.expires)
            shown = {"user_id": access.user_id, "project_id": access.project_id, "roles": access.role_names}
        except exceptions.Unauthorized:
            self._attempts.failed(name, address)
            raise Fault(401, "The name, the password or the project is wrong.") from None
        except Exception as failure:
            # An answer in no form of keystone, such as that of a proxy, is a KeyError, among others.
            LOG.error("Cannot sign in with keystone: %s: %s", type(failure).__name__, failure)
            raise Fault(503, f"keystone cannot be asked: {type(failure).__name__}.") from None
        self._attempts.succeeded(name, address)
        response.set_cookie(
            tokens.COOKIE,
            access.auth_token,
            max_age=max(int(left_s), 0),
            path=tokens.COOKIE_PATH,
            secure=request.forwarded_scheme == "https",
            http_only=True,
            same_site="Strict",
        )
        response.media = {"session": {**shown, "signed_in": True}}

    @guard.public
    @answers.gives(answers.NOTHING, 204)
    def on_delete(self, request: falcon.Request, response: falcon.Response) -> None:
        """Forget the token of a browser."""
        response.unset_cookie(tokens.COOKIE, path=tokens.COOKIE_PATH, same_site="Strict")
        response.status = 204
