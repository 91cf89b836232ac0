# SPDX-License-Identifier: Apache-2.0
"""A stub that speaks as much of keystone's v3 API as keystonemiddleware and the clients use. It is no keystone."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import threading
import uuid
import wsgiref.simple_server
from collections.abc import Iterator
from typing import Any

import falcon

#: Name: password, project, roles. The first one is the user of fleet-api itself.
USERS = {
    "fleet": ("of fleet", "service", ("service",)),
    "alice": ("of alice", "web", ("member", "reader")),
    "rita": ("of rita", "web", ("reader",)),
    "root": ("of root", "ops", ("admin", "member", "reader")),
}
_DOMAIN = {"id": "default", "name": "Default"}
_LIFE = datetime.timedelta(hours=1)


def id_of(name: str) -> str:
    """Return the id of a user or a project: keystone's are no names."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, name).hex


@dataclasses.dataclass
class Keystone:
    """``endpoints`` are what its catalog names, by type of service. ``checked`` counts questions about tokens."""

    url: str = ""
    endpoints: dict[str, str] = dataclasses.field(default_factory=dict)
    tokens: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    checked: int = 0
    is_away: bool = False

    def process_request(self, _request: falcon.Request, _response: falcon.Response) -> None:
        if self.is_away:
            raise falcon.HTTPServiceUnavailable

    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        links = [{"rel": "self", "href": f"{self.url}/"}]
        response.media = {"version": {"id": "v3.14", "status": "stable", "links": links, "media-types": []}}

    def on_get_root(self, _request: falcon.Request, response: falcon.Response) -> None:
        links = [{"rel": "self", "href": f"{self.url}/"}]
        values = [{"id": "v3.14", "status": "stable", "links": links, "media-types": []}]
        response.status, response.media = 300, {"versions": {"values": values}}

    def on_post_tokens(self, request: falcon.Request, response: falcon.Response) -> None:
        asked = request.get_media()["auth"]
        if "token" in asked["identity"]["methods"]:
            name = self._known(asked["identity"]["token"]["id"])["user"]["name"]
        else:
            user = asked["identity"]["password"]["user"]
            name = user["name"]
            if USERS.get(name, ("",))[0] != user["password"]:
                raise falcon.HTTPUnauthorized
        scope = asked.get("scope", {}).get("project")
        if scope and USERS[name][1] != scope.get("name", USERS[name][1]):
            raise falcon.HTTPUnauthorized
        token = self._token(name, bool(scope))
        key = uuid.uuid4().hex
        self.tokens[key] = token
        response.status, response.media = 201, {"token": token}
        response.set_header("X-Subject-Token", key)

    def on_get_tokens(self, request: falcon.Request, response: falcon.Response) -> None:
        """Only for users that have a token themselves."""
        self._known(request.get_header("X-Auth-Token"))
        self.checked += 1
        response.media = {"token": self._known(request.get_header("X-Subject-Token"), falcon.HTTPNotFound)}

    def on_delete_tokens(self, request: falcon.Request, response: falcon.Response) -> None:
        self.tokens.pop(request.get_header("X-Subject-Token"), None)
        response.status = 204

    def on_get_projects(self, request: falcon.Request, response: falcon.Response) -> None:
        names = {project for _, project, _ in USERS.values()}
        wanted = request.get_param("name")
        response.media = {"projects": [_project(each) for each in sorted(names) if wanted in (None, each)], "links": {}}

    def on_get_project(self, _request: falcon.Request, response: falcon.Response, project: str) -> None:
        for _, name, _ in USERS.values():
            if id_of(name) == project:
                response.media = {"project": _project(name)}
                return
        raise falcon.HTTPNotFound

    def _known(self, token: str | None, unknown: type[falcon.HTTPError] = falcon.HTTPUnauthorized) -> dict[str, Any]:
        if token not in self.tokens:
            raise unknown
        return self.tokens[token]

    def _token(self, name: str, is_scoped: bool) -> dict[str, Any]:
        now = datetime.datetime.now(datetime.UTC)
        times = {
            "issued_at": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
            "expires_at": f"{now + _LIFE:%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        user = {"id": id_of(name), "name": name, "domain": _DOMAIN, "password_expires_at": None}
        token: dict[str, Any] = {"methods": ["password"], "user": user, **times, "audit_ids": [uuid.uuid4().hex]}
        if is_scoped:
            _, project, roles = USERS[name]
            token["project"] = {"id": id_of(project), "name": project, "domain": _DOMAIN}
            token["roles"] = [{"id": id_of(each), "name": each} for each in roles]
            token["is_domain"] = False
            token["catalog"] = [_service(kind, url) for kind, url in (self.endpoints | {"identity": self.url}).items()]
        return token


def _project(name: str) -> dict[str, Any]:
    return {"id": id_of(name), "name": name, "domain_id": "default", "enabled": True, "is_domain": False, "links": {}}


def _service(kind: str, url: str) -> dict[str, Any]:
    faces = ("public", "internal", "admin")
    endpoints = [
        {"id": id_of(f"{kind} {face}"), "interface": face, "region": "one", "region_id": "one", "url": url}
        for face in faces
    ]
    return {"type": kind, "name": kind, "id": id_of(kind), "endpoints": endpoints}


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_words: object) -> None:
        """The tests' output is for failures."""


@contextlib.contextmanager
def serving() -> Iterator[Keystone]:
    """Serve the stub on a free port of this machine."""
    keystone = Keystone()
    app = falcon.App(middleware=[keystone])
    app.req_options.strip_url_path_trailing_slash = True
    for path, suffix in (
        ("/", "root"),
        ("/v3", None),
        ("/v3/auth/tokens", "tokens"),
        ("/v3/projects", "projects"),
        ("/v3/projects/{project}", "project"),
    ):
        app.add_route(path, keystone, suffix=suffix)
    with wsgiref.simple_server.make_server("127.0.0.1", 0, app, handler_class=_Quiet) as server:
        keystone.url = f"http://127.0.0.1:{server.server_port}/v3"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield keystone
        finally:
            server.shutdown()
            thread.join()
