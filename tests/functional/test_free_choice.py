# SPDX-License-Identifier: Apache-2.0
"""The policy rule that grants more than the offers, from the HTTP request to the conductor's door."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from falcon import testing
from oslo_policy import opts as policy_opts

from conductor_stub.operators.tenancy import Tenancy
from fleet import errors
from fleet.rpc import batch_answers
from fleet_api import conf as api_conf
from fleet_api.access.rules import ALL_PROJECTS, CALLS, FREE_CHOICE
from fleet_api.application import application
from tests.configuration import configuration
from tests.unit.api.test_identity import PASSWORDS, as_user, htpasswd
from tests.unit.api.test_requests import FewServers
from tests.worlds.conductor import Conductor

PROJECTS = "[alice]\nproject = web\n[rita]\nproject = plan\n[root]\nroles = admin\n"
GRANTED = {FREE_CHOICE: "role:admin or project_id:plan"}
SIZES = {"request": {"flavor": {"vcpus": 1, "memory_mb": 512}}}
LEFT_OUT = {"request": {"flavor": "small", "ignore_hosts": ["h1"]}}


class Calls:
    """Passes what a conductor would receive to its door, and answers what the method would get."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    def answer(
        self, context: Any, namespace: str, method: str, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], int]:
        message = {"namespace": namespace, "method": method, "args": dict(arguments)}
        try:
            return batch_answers.result(self._tenancy.admit(context.to_dict(), message)["args"]), 200
        except errors.FleetError as refusal:
            return batch_answers.refusal(refusal), refusal.code


@pytest.fixture
def client(conductor: Conductor, tmp_path: pathlib.Path) -> Callable[..., testing.TestClient]:
    def opened(**rules: str) -> testing.TestClient:
        (tmp_path / "projects").write_text(PROJECTS)
        (tmp_path / "policy.yaml").write_text(json.dumps(rules))
        door = FewServers()
        door.calls = Calls(Tenancy(conductor.database))  # type: ignore[attr-defined]
        conf = configuration(api_conf.register_opts, policy_opts.set_defaults)
        conf.set_override("auth_strategy", "http_basic", "api")
        conf.set_override("basic_auth_file", str(htpasswd(tmp_path / "htpasswd", **PASSWORDS)), "api")
        conf.set_override("projects_file", str(tmp_path / "projects"), "api")
        conf.set_override("policy_file", str(tmp_path / "policy.yaml"), "oslo_policy")
        return testing.TestClient(application(door, conf))

    return opened


def statuses(client: testing.TestClient, call: str, arguments: Any) -> dict[str, int]:
    body = json.dumps({"arguments": arguments})
    return {
        name: client.simulate_post(f"{CALLS}/{call}", headers=as_user(name), body=body).status_code
        for name in ("alice", "rita", "root")
    }


@pytest.mark.parametrize("asked", [SIZES, LEFT_OUT], ids=["sizes", "hosts to leave out"])
def test_by_default_only_the_administrator_chooses_freely(
    client: Callable[..., testing.TestClient], asked: Any
) -> None:
    """A member names a flavor, and no host to leave out."""
    assert {"alice": 403, "rita": 403, "root": 200} == statuses(client(), "compute_task/create", asked)


@pytest.mark.parametrize("asked", [SIZES, LEFT_OUT], ids=["sizes", "hosts to leave out"])
def test_a_rule_grants_free_choice(client: Callable[..., testing.TestClient], asked: Any) -> None:
    """To the project that the policy file names, and to no other."""
    granted = client(**GRANTED)
    assert {"alice": 403, "rita": 200, "root": 200} == statuses(granted, "compute_task/create", asked)


def test_the_grant_is_for_builds_only(client: Callable[..., testing.TestClient]) -> None:
    """A caller who may choose freely still acts for its project, and lists by no place."""
    granted = client(**GRANTED)
    hosts = statuses(granted, "operator/list_instances", {"filters": {"host": "h1"}})
    assert {"alice": 403, "rita": 403, "root": 200} == hosts
    other = statuses(granted, "operator/show_quota", {"project_id": "shop"})
    assert {"alice": 403, "rita": 403, "root": 200} == other


def test_who_sees_all_projects_changes_its_own(client: Callable[..., testing.TestClient]) -> None:
    """The rule is about lists: it lifts neither the project's bounds from a request nor those of its changes."""
    granted = client(**{ALL_PROJECTS: "role:admin or project_id:plan"})
    seen = statuses(granted, "operator/list_instances", {"filters": {"project_id": "shop"}})
    assert {"alice": 403, "rita": 200, "root": 200} == seen
    for call, arguments in (
        ("compute_task/create", SIZES),
        ("compute_task/create", {"request": {"flavor": "small", "availability_zone": "nova:h1"}}),
    ):
        assert {"alice": 403, "rita": 403, "root": 200} == statuses(granted, call, arguments)
