# SPDX-License-Identifier: Apache-2.0
"""The identity and the roles of the sender of a request.

:mod:`fleet_api.application` runs it before each request. ``auth_strategy = none`` takes everybody for the
administrator. With ``http_basic`` the sender is a user of a file, with ``keystone`` one of OpenStack's identity
service.
"""

from __future__ import annotations

import base64
import binascii
import pathlib
from collections.abc import Callable, Mapping

import falcon
from oslo_config import cfg

from fleet import errors
from fleet.context import RequestContext, new_context
from fleet.json_codec import JSONObject
from fleet.rpc.trust import grants
from fleet_api.access import tokens
from fleet_api.access.attempts import Attempts
from fleet_api.access.policies import Policies
from fleet_api.access.rules import (
    ALL_PROJECTS,
    ALL_VOLUMES,
    AS_ADMINISTRATOR,
    FREE_CHOICE,
    OF_CHOICES,
    OF_VOLUMES,
    OTHERS,
    PUBLIC,
)
from fleet_api.access.users import Busy, User, Users
from fleet_api.conf import HTTP_BASIC, KEYSTONE
from fleet_api.requests import page
from fleet_api.requests.faults import Fault
from fleet_api.requests.paths import templates

#: The user of every request with ``auth_strategy = none``.
ADMIN = "admin"
#: The sender of a request that needs none.
_NOBODY = User("", "", [])


class Identity:
    """Middleware: sets ``request.context.caller``, and returns its request id in the answer."""

    def __init__(self, conf: cfg.ConfigOpts, guarded: Mapping[tuple[str, str], str], attempts: Attempts) -> None:
        """:param guarded: the rule that each responder names, by method and route
        :param attempts: the same for all that take passwords
        :raises errors.ConfigError: the files of users cannot be used
        """
        #: Returns the sender of a request, or raises; None: every sender is the administrator.
        self._sender: Callable[[falcon.Request], User] | None = None
        if conf.api.auth_strategy == HTTP_BASIC:
            self._sender = _Passwords(_users(conf), attempts).sender
        elif conf.api.auth_strategy == KEYSTONE:
            self._sender = tokens.sender
        self._policies = Policies(conf, guarded)

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        """:raises falcon.HTTPUnauthorized: Fault:"""
        request.context.policies = self._policies
        request.context.is_open = self._sender is None
        request.context.sender = self._sender
        user = User(ADMIN, ADMIN, [ADMIN])
        if self._sender is not None:
            user = _NOBODY if is_public(request.method, request.path) else self._sender(request)
        caller = new_context(user.project, user.name)
        caller.roles = grants.without(user.roles)
        request.context.caller = caller
        for name in ("X-OpenStack-Request-ID", "X-Compute-Request-ID"):
            response.set_header(name, caller.request_id)

    def process_resource(
        self, request: falcon.Request, _response: falcon.Response, resource: object, _params: JSONObject
    ) -> None:
        """:raises Fault: the roles of the sender do not allow the request"""
        if resource is None or is_public(request.method, request.path):
            return
        route = templates.of(request)
        if self._policies.is_served(request.method, route):
            request.context.rule = self._policies.rule_of(request.method, route, request.path)
            request.context.caller.is_admin = _asks_as_administrator(request)
            require(request, request.context.rule)
            if request.context.rule in OF_CHOICES and allows(request, FREE_CHOICE):
                request.context.caller.roles.append(grants.FREE_CHOICE)


def require(request: falcon.Request, rule: str) -> None:
    """:raises Fault:"""
    if not allows(request, rule):
        only = "is for administrators" if rule == OTHERS else "is not allowed to your roles"
        raise Fault(403, f"This {only} (policy rule {rule}).")
    if rule in AS_ADMINISTRATOR:
        request.context.caller.is_admin = True


def authorise_again(request: falcon.Request) -> None:
    """Authenticate and authorise the sender of a request that lasts: a password, token or role may be gone by now.

    :raises falcon.HTTPUnauthorized: Fault: the sender may not go on
    """
    if request.context.is_open:
        return
    tokens.check_again(request)
    user = request.context.sender(request)
    caller: RequestContext = request.context.caller
    if (user.name, user.project) != (caller.user_id, caller.project_id):
        raise Fault(403, "The user belongs to another project now.")
    caller.roles = grants.without(user.roles)
    caller.is_admin = _asks_as_administrator(request)
    require(request, request.context.rule)


def _asks_as_administrator(request: falcon.Request) -> bool:
    """Return True if the conductor is to look past the sender's project.

    Otherwise it shows and changes that project only, unless :func:`require` names a rule of the administrator. Who may see
    all projects may not change them.
    """
    policies: Policies = request.context.policies
    rule = request.context.rule
    if request.method in ("GET", "HEAD") or policies.only_reads(rule):
        return allows(request, ALL_VOLUMES if rule.startswith(OF_VOLUMES) else ALL_PROJECTS)
    return allows(request, OTHERS)


def allows(request: falcon.Request, rule: str) -> bool:
    if request.context.is_open:
        return True
    caller: RequestContext = request.context.caller
    policies: Policies = request.context.policies
    return policies.allows(rule, caller.roles, caller.project_id)


def calls_of(request: falcon.Request) -> dict[str, bool]:
    """Return which calls of the contract the sender may make; see :meth:`Policies.calls`."""
    policies: Policies = request.context.policies
    caller: RequestContext = request.context.caller
    found = policies.calls(caller.roles, caller.project_id)
    return dict.fromkeys(found, True) if request.context.is_open else found


def acting_for(request: falcon.Request, project_id: str | None, user_id: str | None) -> RequestContext:
    """Return the context of a call for this project and user.

    None stands for the sender's own project or user. For administrators it means: of no project, or of no user.

    :raises Fault: they are not the sender's, and the sender is no administrator
    """
    caller: RequestContext = request.context.caller
    if caller.is_admin:
        context = new_context(project_id, user_id)
        context.request_id, context.roles = caller.request_id, caller.roles
        return context
    if project_id not in (None, caller.project_id) or user_id not in (None, caller.user_id):
        who = f"user {caller.user_id} of project {caller.project_id}"
        raise Fault(403, f"You are {who}; only administrators act for others.")
    return caller


def act_for(request: falcon.Request, user_id: str) -> None:
    """Let the rest of the request be of another user. :raises Fault: the sender is no administrator"""
    require(request, OTHERS)
    request.context.caller.user_id = user_id


def sees_all(request: falcon.Request) -> bool:
    """Return True if the sender may see servers of all projects, and hosts."""
    return allows(request, ALL_PROJECTS)


def owns(request: falcon.Request, project_id: str | None) -> bool:
    return sees_all(request) or request.context.caller.project_id == project_id


def is_public(method: str, path: str) -> bool:
    """Return True if a request needs no user. The page has no data of its own."""
    path, method = path.rstrip("/") or "/", "GET" if method == "HEAD" else method
    is_page = path == page.ROOT or path.startswith(f"{page.ROOT}/")
    return (method, path) in PUBLIC or (method == "GET" and is_page)


def credential_of(strategy: str) -> Callable[[str, str, Mapping[str, str]], str]:
    """Return a function that reads the credential of a request from its method, path and headers, without checking it.

    Headers are named as in WSGI. The function that is returned returns "" if there is no credential, or none is needed.
    """

    def credential(method: str, path: str, headers: Mapping[str, str]) -> str:
        if is_public(method, path):
            return ""
        if strategy == HTTP_BASIC:
            found = _basic(headers.get("AUTHORIZATION", ""))
            return "" if found is None else f"{found[0]}:{found[1]!r}"
        return tokens.token_of(path, headers) if strategy == KEYSTONE else ""

    return credential


class _Passwords:
    """Senders of ``auth_strategy = http_basic``."""

    def __init__(self, users: Users, attempts: Attempts) -> None:
        self._users = users
        self._attempts = attempts

    def sender(self, request: falcon.Request) -> User:
        """:raises falcon.HTTPUnauthorized: falcon.HTTPTooManyRequests: falcon.HTTPServiceUnavailable:"""
        name, password = _credentials(request)
        address = request.remote_addr or ""
        if not self._users.is_remembered(name, password):
            self._attempts.admit(name, address)
        try:
            user = self._users.authenticate(name, password)
        except Busy:
            said = "Too many passwords are being checked. Try again in a second."
            raise falcon.HTTPServiceUnavailable(description=said, retry_after=1) from None
        if user is None:
            self._attempts.failed(name, address)
            raise _unauthorized()
        self._attempts.succeeded(name, address)
        return user


def _credentials(request: falcon.Request) -> tuple[str, bytes]:
    """Return name and password. :raises falcon.HTTPUnauthorized: there are none"""
    found = _basic(request.get_header("Authorization") or "")
    if found is None:
        raise _unauthorized()
    return found


def _basic(header: str) -> tuple[str, bytes] | None:
    kind, _, token = header.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        name, _, password = base64.b64decode(token.strip(), validate=True).partition(b":")
        return name.decode(), password
    except (binascii.Error, ValueError):
        return None


def _unauthorized() -> falcon.HTTPUnauthorized:
    return falcon.HTTPUnauthorized(
        title="Unauthorized",
        description="The name or the password is wrong, or there is none.",
        challenges=['Basic realm="fleet", charset="UTF-8"'],
    )


def require_options(conf: cfg.ConfigOpts) -> None:
    """Check that the options of ``auth_strategy`` are set. A daemon reads them once, so trying again does not help.

    :raises errors.ConfigError:
    """
    if conf.api.auth_strategy == HTTP_BASIC and not conf.api.basic_auth_file:
        raise errors.ConfigError(option="[api] basic_auth_file", reason="is needed with auth_strategy = http_basic")
    if conf.api.auth_strategy == KEYSTONE:
        tokens.register_opts(conf)


def _users(conf: cfg.ConfigOpts) -> Users:
    """:raises errors.ConfigError:"""
    require_options(conf)
    projects = conf.api.projects_file
    files = pathlib.Path(conf.api.basic_auth_file), pathlib.Path(projects) if projects else None
    return Users(*files, threads=conf.api.threads)
