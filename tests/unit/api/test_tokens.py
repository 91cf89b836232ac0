# SPDX-License-Identifier: Apache-2.0
"""Users of keystone. ``tests/amqp/test_keystone.py`` has the real clients; here nothing listens."""

from __future__ import annotations

import importlib
import json
import pathlib
from typing import Any

import pytest
from falcon import testing
from oslo_config import cfg

from fleet import errors
from fleet.checks import findings, option_check
from fleet_api import conf as api_conf
from fleet_api.access import tokens
from fleet_api.application import application
from tests.unit.api.test_requests import FakeConductor

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
def conductor() -> FakeConductor:
    return FakeConductor()


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
def test_options_that_are_missing(tmp_path: pathlib.Path, conductor: FakeConductor, lacks: str, words: str) -> None:
    options = {name: value for name, value in COMPLETE.items() if name != lacks}
    with pytest.raises(errors.ConfigError, match=words):
        application(conductor, configured(tmp_path, **options))


def test_the_extra_is_not_installed(
    tmp_path: pathlib.Path, conductor: FakeConductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    conf = configured(tmp_path, **COMPLETE)
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(errors.ConfigError, match=r"pip install '\.\[keystone\]' in the"):
        application(conductor, conf)


def test_who_needs_no_token(tmp_path: pathlib.Path, conductor: FakeConductor) -> None:
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


def test_the_cookie_counts_for_the_page_only(tmp_path: pathlib.Path, conductor: FakeConductor) -> None:
    """503: the token is asked about, and no keystone listens. A form of another site may name the paths of nova's API."""
    client = testing.TestClient(application(conductor, configured(tmp_path, **COMPLETE)))
    cookie = {"Cookie": f"{tokens.COOKIE}=abc"}
    assert 503 == client.simulate_get("/fleet/v1/hosts", headers=cookie).status_code
    assert 401 == client.simulate_get("/v2.1/servers", headers=cookie).status_code


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
