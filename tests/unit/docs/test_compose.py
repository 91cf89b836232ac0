# SPDX-License-Identifier: Apache-2.0
"""``compose.yaml`` runs every daemon, with options that exist and a user who may sign in. Docker itself is not used."""

from __future__ import annotations

import configparser
import pathlib
from typing import Any

import bcrypt
import pytest
import yaml

from fleet.checks import findings, option_check
from fleet.service import probes
from fleet_api.access import users

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return found


def content(compose: dict[str, Any], config: str) -> str:
    """The text of a configuration as a container sees it."""
    text: str = compose["configs"][config]["content"]
    return text.replace("$$", "$")


def test_every_daemon_runs(compose: dict[str, Any]) -> None:
    """Each as a service of its own, with the configuration, after the tables were made."""
    commands = [str(service.get("command")) for service in compose["services"].values()]
    for daemon in probes.DAEMONS:
        (service,) = [each for each in compose["services"].values() if daemon in str(each.get("command"))]
        assert {"source": "fleet", "target": "/etc/fleet/fleet.conf"} in service["configs"]
        assert {"tables": {"condition": "service_completed_successfully"}} == service["depends_on"]
    assert "fleet-manage db sync" in commands
    named = {each["source"] for service in compose["services"].values() for each in service.get("configs", ())}
    assert set(compose["configs"]) == named


def test_its_options_are_known(compose: dict[str, Any], tmp_path: pathlib.Path) -> None:
    """The doctor finds nothing wrong in the file."""
    file = tmp_path / "fleet.conf"
    file.write_text(content(compose, "fleet"))
    file.chmod(0o600)
    assert [findings.Level.OK] == [each.level for each in option_check.check([str(file)])]


def test_its_user_may_sign_in(compose: dict[str, Any], tmp_path: pathlib.Path) -> None:
    """As administrator, with the password of the comment; the API finds the files where they are put."""
    name, _colon, stored = content(compose, "users").strip().partition(":")
    assert bcrypt.checkpw(b"fleet", stored.encode())
    assert users.LEAST_COST <= int(stored.split("$")[2]) <= users.MOST_COST
    projects = configparser.ConfigParser(interpolation=None)
    projects.read_string(content(compose, "projects"))
    assert ("fleet", "admin") == (name, projects["fleet"]["roles"])
    options = configparser.ConfigParser(interpolation=None, strict=False)
    options.read_string(content(compose, "fleet"))
    api = compose["services"]["api"]
    assert options["api"]["projects_file"] in [each["target"] for each in api["configs"]]
    assert options["api"]["basic_auth_file"] == "/var/lib/fleet/htpasswd"
    assert "~/htpasswd" in api["command"][-1]
    assert "--home-dir /var/lib/fleet" in (ROOT / "Dockerfile").read_text()
    assert ["127.0.0.1:8774:8774"] == api["ports"]
