# SPDX-License-Identifier: Apache-2.0
"""Users of keystone. ``tests/amqp/test_keystone.py`` has the real clients; here nothing listens."""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, cast
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import falcon
import pytest
import requests
from falcon import testing
from keystoneauth1 import access, adapter, exceptions
from keystoneauth1.identity.generic import password
from keystonemiddleware import auth_token
from keystonemiddleware.auth_token import _exceptions, _identity
from oslo_config import cfg

from fleet import errors
from fleet.checks import findings, option_check
from fleet.objects.quota import Quota
from fleet_api import conf as api_conf
from fleet_api.access import attempts, tokens
from fleet_api.application import application
from tests.unit.api.test_requests import FewServers
from tests.worlds.http_conductor import HttpConductor

COMPLETE = {
    "auth_type": "password",
    "auth_url": "http://127.0.0.1:9/v3",
    "www_authenticate_uri": "http://127.0.0.1:9/v3",
    "username": "fleet",
    "password": "secret",
    "project_name": "service",
    "user_domain_name": "Default",
    "project_domain_name": "Default",
}


@pytest.fixture
def conductor() -> FewServers:
    return FewServers()


def configured(tmp_path: pathlib.Path, **options: str) -> cfg.ConfigOpts:
    path = tmp_path / "fleet.conf"
    path.write_text("\n".join(["[keystone_authtoken]", *(f"{name} = {value}" for name, value in options.items())]))
    conf = cfg.ConfigOpts()
    api_conf.register_opts(conf)
    conf(["--config-file", str(path)])
    conf.set_override("auth_strategy", "keystone", "api")
    return conf


@pytest.mark.parametrize(
    ("lacks", "words"),
    [
        ("auth_type", r"\[keystone_authtoken\] auth_type is needed"),
        ("auth_url", r"\[keystone_authtoken\].*auth_url"),
        ("password", r"\[keystone_authtoken\] password is needed"),
    ],
)
def test_options_that_are_missing(tmp_path: pathlib.Path, conductor: FewServers, lacks: str, words: str) -> None:
    options = {name: value for name, value in COMPLETE.items() if name != lacks}
    with pytest.raises(errors.ConfigError, match=words):
        application(conductor, configured(tmp_path, **options))


def test_the_extra_is_not_installed(
    tmp_path: pathlib.Path, conductor: FewServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    conf = configured(tmp_path, **COMPLETE)
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(errors.ConfigError, match=r"pip install '\.\[keystone\]' in the"):
        application(conductor, conf)


@pytest.mark.parametrize("path", ["*", "v2.1/servers", "v3/volumes", ""])
def test_a_path_without_its_first_slash(tmp_path: pathlib.Path, conductor: FewServers, path: str) -> None:
    """It is no reason for a failure, and needs a token where the path with the slash does."""
    environ = {**testing.create_environ("/"), "PATH_INFO": path}
    statuses: list[str] = []
    protected = application(conductor, configured(tmp_path, **COMPLETE))
    protected(environ, lambda status, _headers, *_failure: statuses.append(status))  # type: ignore[arg-type,return-value]
    assert ["200 OK" if path == "" else "401 Unauthorized"] == statuses


def test_who_needs_no_token(tmp_path: pathlib.Path, conductor: FewServers) -> None:
    """Discovery, the page and signing out. Other requests get 401, whatever their headers; the conductor is not called."""
    client = testing.TestClient(application(conductor, configured(tmp_path, **COMPLETE)))
    for path in ("/", "/v2.1", "/v2.1/", "/v3/", "/ui/", "/ui/sign_in.js", "/fleet/v1/openapi.json"):
        assert 200 == client.simulate_get(path).status_code, path
    assert 204 == client.simulate_delete("/fleet/v1/session").status_code
    forged = {"X-Identity-Status": "Confirmed", "X-User-Id": "u", "X-Project-Id": "p", "X-Roles": "admin"}
    for path in ("/v2.1/servers", "/v2.1//servers", "/fleet/v1/hosts", "/fleet/v1/session", "/nowhere"):
        for headers in ({}, forged, {"Cookie": "fleet-token="}):
            assert 401 == client.simulate_get(path, headers=headers).status_code, path
    assert [] == conductor.asked


def test_the_cookie_counts_for_the_page_only(tmp_path: pathlib.Path, conductor: FewServers) -> None:
    """503: the token is asked about, and no keystone listens. A form of another site may name the paths of nova's API."""
    client = testing.TestClient(application(conductor, configured(tmp_path, **COMPLETE)))
    cookie = {"Cookie": f"{tokens.COOKIE}=abc"}
    silent = client.simulate_get("/fleet/v1/hosts", headers=cookie)
    assert (503, {"serviceUnavailable": {"code": 503, "message": "keystone cannot be asked."}}) == (
        silent.status_code,
        silent.json,
    )
    assert 401 == client.simulate_get("/v2.1/servers", headers=cookie).status_code


@pytest.mark.parametrize(("option", "limit_s"), [({}, 10), ({"http_connect_timeout": "3"}, 3)])
def test_a_keystone_that_never_answers(
    tmp_path: pathlib.Path,
    conductor: FewServers,
    monkeypatch: pytest.MonkeyPatch,
    option: dict[str, str],
    limit_s: float,
) -> None:
    """Keeps no thread for ever: each call has a limit, and the answer is 503."""
    limits: list[object] = []

    def silent(_session: object, _method: str, _url: str, **options: object) -> requests.Response:
        limits.append(options.get("timeout"))
        raise requests.exceptions.ReadTimeout

    monkeypatch.setattr(requests.Session, "request", silent)
    conf = configured(tmp_path, **COMPLETE, http_request_max_retries="0", **option)
    client = testing.TestClient(application(conductor, conf))
    assert 503 == client.simulate_get("/v2.1/servers", headers={"X-Auth-Token": "t"}).status_code
    assert {limit_s} == set(limits)


def a_token(role: str = "reader", **more: object) -> dict[str, Any]:
    """The answer of keystone about a token of user u and project p."""
    domain = {"id": "default", "name": "Default"}
    times = {"expires_at": "2099-01-01T00:00:00.000000Z", "issued_at": "2026-01-01T00:00:00.000000Z"}
    named = {each: {"id": each[0], "name": each[0], "domain": domain} for each in ("user", "project")}
    return {"token": {"methods": ["password"], **times, **named, "roles": [{"id": "r", "name": role}], **more}}


@pytest.fixture
def open_request(tmp_path: pathlib.Path, conductor: FewServers) -> Callable[[], falcon.Request]:
    """Return a request that the application has got, and that lasts. No answer about its token is remembered."""

    def made() -> falcon.Request:
        conf = configured(tmp_path, **COMPLETE, token_cache_time="0")
        protected = cast(tokens.Protected, cast(Any, application(conductor, conf))._application)
        admitted: list[WSGIEnvironment] = []

        def opened(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            admitted.append(environ)
            start_response("204 No Content", [])
            return ()

        protected._open = opened
        testing.TestClient(protected).simulate_get("/fleet/v1/events", headers={"X-Auth-Token": "t"})
        return falcon.Request(admitted[0])

    return made


def answered(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | Exception) -> None:
    """Let keystone answer so from now on when it is asked about a token."""

    def verify(*_arguments: object, **_options: object) -> dict[str, Any]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(_identity.IdentityServer, "verify_token", verify)


NONSENSE = ["<html>", "", "[]", "null", "{}", '{"token": {}}', '{"token": {"methods": [], "user": {}}}']


@pytest.mark.parametrize("body", NONSENSE)
def test_an_answer_that_is_none_of_keystone(
    tmp_path: pathlib.Path, conductor: FewServers, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """A proxy answers in its place: fleet-api accepts no token, signs nobody in, and answers 503."""
    root = {"version": {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": COMPLETE["auth_url"]}]}}
    endpoint = {"interface": "internal", "region": "R", "region_id": "R", "url": COMPLETE["auth_url"], "id": "1"}
    own = a_token(catalog=[{"type": "identity", "name": "keystone", "endpoints": [endpoint]}])

    def answer(_session: object, method: str, url: str, **options: Any) -> requests.Response:
        found = requests.Response()
        found.url, found.status_code, found.headers["X-Subject-Token"] = url, 200, "fleet"
        its_own = method == "POST" and b'"secret"' in options["data"]
        text = json.dumps(own) if its_own else body if "auth/tokens" in url else json.dumps(root)
        found._content = text.encode()
        return found

    monkeypatch.setattr(requests.Session, "request", answer)
    client = testing.TestClient(application(conductor, configured(tmp_path, **COMPLETE)))
    shown = client.simulate_get("/v2.1/servers", headers={"X-Auth-Token": "t"})
    assert (503, "keystone cannot be asked.") == (shown.status_code, shown.json["serviceUnavailable"]["message"])
    known = {"username": "alice", "password": "x", "project": "web"}
    signed_in = client.simulate_post("/fleet/v1/session", json=known)
    assert (503, {}) == (signed_in.status_code, signed_in.cookies)
    assert "keystone cannot be asked: " in signed_in.text
    assert [] == conductor.asked


def test_a_failure_of_the_application_is_none_of_keystone(
    tmp_path: pathlib.Path, conductor: FewServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken for a token that cannot be checked."""

    def failing(_environ: WSGIEnvironment, _start_response: StartResponse) -> Iterable[bytes]:
        raise KeyError("token")

    answered(monkeypatch, a_token())
    protected = cast(tokens.Protected, cast(Any, application(conductor, configured(tmp_path, **COMPLETE)))._application)
    protected._open = failing
    with pytest.raises(KeyError):
        testing.TestClient(protected).simulate_get("/v2.1/servers", headers={"X-Auth-Token": "t"})


def test_a_token_is_checked_again(monkeypatch: pytest.MonkeyPatch, open_request: Callable[[], falcon.Request]) -> None:
    """As each minute in a stream of events: the sender has the roles of now, until the token is none any more."""
    answered(monkeypatch, a_token())
    request = open_request()
    for role in ("reader", "member"):
        answered(monkeypatch, a_token(role))
        tokens.check_again(request)
        assert ("u", "p", [role]) == dataclasses.astuple(tokens.sender(request))
    answered(monkeypatch, _exceptions.InvalidToken())
    tokens.check_again(request)
    with pytest.raises(falcon.HTTPUnauthorized):
        tokens.sender(request)


@pytest.mark.parametrize(
    "away",
    [exceptions.ConnectFailure("silence"), _exceptions.ServiceError(), exceptions.EndpointNotFound("no"), KeyError()],
)
def test_a_token_is_not_lost_while_keystone_is_away(
    monkeypatch: pytest.MonkeyPatch, open_request: Callable[[], falcon.Request], away: Exception
) -> None:
    """Until keystone answers again, fleet-api uses its last answer about the token."""
    answered(monkeypatch, a_token())
    request = open_request()
    for answer in (away, a_token("member")):
        answered(monkeypatch, answer)
        tokens.check_again(request)
        known = "reader" if answer is away else "member"
        assert ("u", "p", [known]) == dataclasses.astuple(tokens.sender(request))


RULES = [
    ("compute", "GET", "/v2.1/servers", "/v2.1/servers", 200),
    ("compute", "GET", "/v2.1/servers/**", "/v2.1/servers/detail", 200),
    ("compute", "GET", "/v2.1/servers", "/v2.1/flavors", 401),
    ("compute", "POST", "/v2.1/servers", "/v2.1/servers", 401),
    ("block-storage", "GET", "/v3/volumes", "/v3/volumes", 200),
    ("compute", "GET", "/v3/volumes", "/v3/volumes", 401),
    ("block-storage", "GET", "/v2.1/servers", "/v2.1/servers", 401),
    ("block-storage", "GET", "/volume/v3/volumes", "/volume/v3/volumes", 200),
    ("image", "GET", "/v2/images", "/v2/images", 200),
    ("network", "GET", "/v2.0/networks", "/v2.0/networks", 200),
    ("compute", "GET", "/fleet/v1/session", "/fleet/v1/session", 200),
    ("compute", "GET", "/v2.1/servers", "/fleet/v1/session", 401),
]


@pytest.mark.parametrize(("service", "method", "rule", "path", "code"), RULES)
def test_access_rules_of_an_application_credential(
    tmp_path: pathlib.Path,
    conductor: FewServers,
    monkeypatch: pytest.MonkeyPatch,
    service: str,
    method: str,
    rule: str,
    path: str,
    code: int,
) -> None:
    """They name a service of the catalog, a method and a path. What they do not allow is 401."""
    catalog = [{"type": each, "endpoints": []} for each in ("compute", "block-storage", "image", "network")]
    rules = [{"id": "1", "service": service, "method": method, "path": rule}]
    credential = {"id": "a", "restricted": True, "access_rules": rules}
    token = a_token(methods=["application_credential"], catalog=catalog, application_credential=credential)
    monkeypatch.setattr(auth_token.AuthProtocol, "fetch_token", lambda *_args, **_options: token)
    client = testing.TestClient(application(conductor, configured(tmp_path, **COMPLETE)))
    assert code == client.simulate_get(path, headers={"X-Auth-Token": "t"}).status_code


@pytest.mark.parametrize(
    ("answer", "code"),
    [(200, 200), (404, 400), (403, 200), (500, 200), (exceptions.ConnectFailure("silence"), 200)],
)
def test_quotas_of_a_project_that_keystone_does_not_know(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, answer: int | Exception, code: int
) -> None:
    """400 if keystone answers that there is none. One that it does not show may exist. The own one is not looked up."""
    asked: list[str] = []

    def get(_adapter: adapter.Adapter, path: str, **_options: object) -> requests.Response:
        asked.append(path)
        if isinstance(answer, Exception):
            raise answer
        found = requests.Response()
        found.status_code = answer
        return found

    monkeypatch.setattr(adapter.Adapter, "get", get)
    limits, conf = Quota().to_wire(), configured(tmp_path, **COMPLETE)
    quota = {"project_id": "p", "limits": limits, "own": {}, "default": limits, "used": dict.fromkeys(limits, 0)}
    conductor = HttpConductor(show_quota=quota, set_quota=quota)
    client = testing.TestClient(signed_in(application(conductor, conf), "admin"))
    found = [
        client.simulate_get("/v2.1/os-quota-sets/a%3Fb"),
        client.simulate_put("/v2.1/os-quota-sets/a%3Fb", body=json.dumps({"quota_set": {"cores": 5}})),
        client.simulate_get("/v3/os-quota-sets/a%3Fb/defaults"),
    ]
    assert [code] * 3 == [each.status_code for each in found]
    assert {"/projects/a%3Fb"} == set(asked)
    asked.clear()
    assert 200 == client.simulate_get("/v2.1/os-quota-sets/p").status_code
    assert [] == asked


def test_who_guesses_passwords_of_keystone_has_to_wait(
    tmp_path: pathlib.Path,
    conductor: FewServers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With the page's form, as with ``http_basic``: guesses are logged, and keystone is not asked meanwhile."""
    asked: list[tuple[str, str]] = []

    def refuse(plugin: password.Password, _session: object) -> None:
        asked.append((plugin._username, plugin._password))
        raise exceptions.Unauthorized

    monkeypatch.setattr(password.Password, "get_access", refuse)
    client = testing.TestClient(application(conductor, configured(tmp_path, **COMPLETE)))

    def sign_in(name: str, word: str, address: str = "10.0.0.1") -> testing.Result:
        body = json.dumps({"username": name, "password": word, "project": "p"})
        return client.simulate_post("/fleet/v1/session", body=body, remote_addr=address)

    with caplog.at_level(logging.WARNING):
        codes = [sign_in(("alice", "ALICE")[number % 2], f"guess-{number}").status_code for number in range(7)]
    assert ([401] * 5 + [429] * 2, 5) == (codes, len(asked))
    said = "The sign-in of user alice of domain default from 10.0.0.1 has failed"
    assert 5 == len([each for each in caplog.messages if said in each])
    assert "guess" not in caplog.text
    refused = sign_in("alice", "right")
    assert (429, True) == (refused.status_code, int(refused.headers["Retry-After"]) >= 1)
    assert [401, 401] == [sign_in("bob", "x").status_code, sign_in("alice", "x", "10.0.0.2").status_code]


def test_a_name_that_has_signed_in_with_keystone_is_not_held_up(
    tmp_path: pathlib.Path, conductor: FewServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its failures are forgotten, and guesses of other names from its address do not count for it."""
    monkeypatch.setattr(attempts, "FREE_OF_ADDRESS", 6)

    def answer(plugin: password.Password, _session: object) -> access.AccessInfo:
        if plugin._password != "right":
            raise exceptions.Unauthorized
        return access.create(body=a_token(), auth_token="t")

    monkeypatch.setattr(password.Password, "get_access", answer)
    client = testing.TestClient(application(conductor, configured(tmp_path, **COMPLETE)))

    def sign_in(name: str, word: str) -> int:
        body = json.dumps({"username": name, "password": word, "project": "p"})
        return client.simulate_post("/fleet/v1/session", body=body).status_code

    assert [401] * 4 + [200] == [sign_in("alice", word) for word in ("a", "b", "c", "d", "right")]
    assert [401, 401, 429] == [sign_in(name, "a") for name in ("bob", "carol", "dave")]
    assert [401, 200] == [sign_in("alice", word) for word in ("a", "right")]


def signed_in(application: WSGIApplication, role: str) -> WSGIApplication:
    """The application as keystonemiddleware calls it for a user of project p."""
    protected = cast(tokens.Protected, cast(Any, application)._application)

    def admitted(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        said = {"IDENTITY_STATUS": "Confirmed", "USER_ID": "u", "PROJECT_ID": "p", "ROLES": role}
        environ.update({f"HTTP_X_{name}": value for name, value in said.items()})
        return protected._open(environ, start_response)

    return admitted


def test_without_keystone_such_headers_count_for_nothing(client: testing.TestClient) -> None:
    """``none``: everybody is the same administrator. Nobody signs in."""
    forged = {"X-Identity-Status": "Confirmed", "X-User-Id": "u", "X-Project-Id": "p", "X-Roles": "reader"}
    found = client.simulate_get("/fleet/v1/session", headers=forged).json["session"]
    expected = {"user_id": "admin", "project_id": "admin", "roles": ["admin"], "signed_in": False}
    assert expected == {name: found[name] for name in expected}
    body = json.dumps({"username": "a", "password": "b", "project": "c"})
    assert 501 == client.simulate_post("/fleet/v1/session", body=body).status_code


def test_options_of_the_section_are_known(tmp_path: pathlib.Path) -> None:
    """The check of options does not complain of them: they are those of keystonemiddleware and of its plugin."""
    path = tmp_path / "fleet.conf"
    path.write_text("[keystone_authtoken]\nauth_type = password\nusername = fleet\n")
    assert [findings.Level.OK] == [each.level for each in option_check.check([str(path)])]
