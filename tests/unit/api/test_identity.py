# SPDX-License-Identifier: Apache-2.0
"""Users with passwords, and what each role may do. The conductor is a fake."""

from __future__ import annotations

import base64
import functools
import json
import os
import pathlib
import re
from typing import Any

import bcrypt
import falcon
import pytest
from falcon import testing
from oslo_policy import opts as policy_opts

from conductor_stub.operators import redaction
from conductor_stub.operators.tenancy import CHECKS
from fleet import errors
from fleet.objects.quota import NO_LIMITS, RESOURCES
from fleet_api import conf as api_conf
from fleet_api.access import policies, rules, users
from fleet_api.access.policies import RULES
from fleet_api.access.rules import CALLS, OTHERS
from fleet_api.access.users import Users
from fleet_api.application import application, guarded, routes, streams_of
from fleet_api.own.openapi import OpenAPI, Route
from fleet_api.requests import guard
from tests import factories
from tests.configuration import configuration
from tests.unit.api.test_requests import SERVER, FewServers, said

PASSWORDS = {name: f"{name}-secret" for name in ("root", "alice", "bob", "rita")}
PROJECTS = "[root]\nroles = admin\nproject = ops\n[alice]\nproject = web\n[rita]\nproject = web\nroles = reader\n"
NEAR = {
    "text": "host7 lacks 768 MB of RAM: limit 4096, used 4096, asked 768",
    "host": "host7",
    "shortfalls": [{"resource": "RAM", "unit": "MB", "lacks": 768.0, "limit": 4096, "used": 4096, "asked": 768}],
}
FAULT = {
    "code": 500,
    "error": "NoValidHost",
    "created_at": "2026-01-01T00:00:00.000Z",
    "message": "No valid host was found. Nearest: host7 lacks 768 MB of RAM: limit 4096, used 4096, asked 768.",
    "details": {"reason_code": "CAPACITY", "filters": [{"name": "RamFilter", "start": 9, "end": 0}], "nearest": [NEAR]},
}


def instance(number: int, project: str) -> dict[str, Any]:
    times = dict.fromkeys(("created_at", "updated_at", "launched_at", "terminated_at"))
    flavor = {"name": "f", "flavorid": "f1", "vcpus": 2, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 0, "swap": 0}
    return {
        "uuid": factories.uuid(number),
        "name": f"s{number}",
        "project_id": project,
        "user_id": "u",
        "host": "host7",
        "node": "host7",
        "vm_state": "error",
        "task_state": None,
        "power_state": 0,
        "metadata": {},
        "image": {"id": ""},
        "flavor": {**flavor, "extra_specs": {}},
        "availability_zone": "",
        "scheduler_hints": {},
        "deleted": False,
        "reservation_id": "r",
        "group_uuid": None,
        **times,
        "created_at": "2026-01-01T00:00:00.000Z",
    }


EVENT = {
    "event": "stop",
    "request_id": "req-1",
    "result": "failed",
    "message": "host7 said no",
    "host": "host7",
    "duration_s": None,
    "created_at": "2026-01-01T00:00:00.000Z",
}


class FakeCalls:
    def __init__(self) -> None:
        self.contexts: list[Any] = []

    def answer(self, context: Any, *_call: Any) -> tuple[dict[str, Any], int]:
        self.contexts.append(context)
        return {"result": None}, 200


class TwoProjects(FewServers):
    """A conductor with one server of each of two projects."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = FakeCalls()
        self.instances = [instance(1, "web"), instance(2, "bob")]
        absent = ("delete_quota", "set_quota", "migrate_instance", "evacuate_instance")
        self.answers |= {
            **dict.fromkeys(absent, errors.NotFound(kind="Thing", name="that")),
            "list_instances": self._of_project,
            "show_instance": self._show_instance,
            "show_quota": self._show_quota,
            "newest_faults": lambda uuids: dict.fromkeys(uuids, FAULT),
        }

    def ask(self, request: falcon.Request, method: str, /, **arguments: Any) -> Any:
        """A project gets what the conductor lets it see."""
        caller, answer = request.context.caller, super().ask(request, method, **arguments)
        return answer if caller.is_admin else redaction.redact(answer, caller.project_id, "secret")

    def _of_project(self, filters: dict[str, Any], **_page: Any) -> list[dict[str, Any]]:
        return [each for each in self.instances if filters.get("project_id") in (None, each["project_id"])]

    def _show_instance(self, name: str, **_parts: Any) -> dict[str, Any]:
        found = [each for each in self.instances if each["uuid"] == name]
        return {"instance": found[0], "faults": [FAULT], "events": [EVENT]}

    def _show_quota(self, project_id: str) -> dict[str, Any]:
        used = {**dict.fromkeys(RESOURCES, 0), "instances": len(self._of_project({"project_id": project_id}))}
        limits = NO_LIMITS.to_wire()
        return {"project_id": project_id, "limits": limits, "default": limits, "own": {}, "used": used}


@functools.cache
def hashed_password(word: str, cost: int = users.LEAST_COST) -> str:
    return bcrypt.hashpw(word.encode(), bcrypt.gensalt(cost)).decode()


def htpasswd(path: pathlib.Path, **passwords: str) -> pathlib.Path:
    hashed = {name: hashed_password(word, users.LEAST_COST) for name, word in passwords.items()}
    path.write_text("# users\n" + "".join(f"{name}:{text}\n" for name, text in hashed.items()))
    path.chmod(0o600)
    return path


@pytest.fixture
def conductor() -> TwoProjects:
    return TwoProjects()


@pytest.fixture
def client(conductor: TwoProjects, tmp_path: pathlib.Path, cheap_passwords: None) -> testing.TestClient:
    return client_of(conductor, tmp_path)


def client_of(conductor: TwoProjects, tmp_path: pathlib.Path, **ruled: str) -> testing.TestClient:
    """:param ruled: of the policy file; without any there is none"""
    (tmp_path / "projects").write_text(PROJECTS)
    conf = configuration(api_conf.register_opts, policy_opts.set_defaults)
    if ruled:
        (tmp_path / "policy.yaml").write_text(json.dumps(ruled))
        conf.set_override("policy_file", str(tmp_path / "policy.yaml"), "oslo_policy")
    conf.set_override("auth_strategy", "http_basic", "api")
    conf.set_override("basic_auth_file", str(htpasswd(tmp_path / "htpasswd", **PASSWORDS)), "api")
    conf.set_override("projects_file", str(tmp_path / "projects"), "api")
    return testing.TestClient(application(conductor, conf))


def as_user(name: str, password: str | None = None) -> dict[str, str]:
    token = base64.b64encode(f"{name}:{PASSWORDS[name] if password is None else password}".encode()).decode()
    return {"Authorization": f"Basic {token}", "OpenStack-API-Version": "compute 2.100"}


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="nobody"),
        pytest.param(as_user("alice", "wrong"), id="a wrong password"),
        pytest.param(as_user("alice", ""), id="an empty password"),
        pytest.param(as_user("alice", "x" * 500), id="a long password"),
        pytest.param({"Authorization": f"Basic {base64.b64encode(b'mallory:x').decode()}"}, id="an unknown user"),
        pytest.param({"Authorization": "Basic ???"}, id="no base64"),
        pytest.param({"Authorization": f"Basic {base64.b64encode(bytes([255, 58])).decode()}"}, id="no text"),
        pytest.param({"Authorization": "Bearer abc"}, id="another scheme"),
        pytest.param({"X-Auth-Token": "notused"}, id="a token"),
    ],
)
def test_who_is_not_a_user(client, conductor, headers) -> None:
    """The answer is 401 and names the scheme of authentication. The conductor is not asked."""
    answer = client.simulate_get("/v2.1/servers", headers=headers)
    assert (401, 401) == (answer.status_code, answer.json["unauthorized"]["code"])
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")
    assert [] == conductor.asked


def test_discovery_and_the_page_need_no_user(client) -> None:
    """Clients read the versions first; the page has no data of its own."""
    for path in ("/", "/v2.1", "/v2.1/", "/ui/", "/ui/app.js"):
        assert 200 == client.simulate_get(path).status_code, path
    assert 401 == client.simulate_post("/", body="{}").status_code


#: Method, path, and who may: a reader, a member, an administrator.
ROLES = [
    ("GET", "/v2.1/servers", "rita alice root"),
    ("GET", "/v2.1/servers/detail?all_tenants=1", "root"),
    ("GET", "/v2.1/servers?all_projects=true", "root"),
    ("POST", "/v2.1/servers", "alice root"),
    ("DELETE", f"/v2.1/servers/{factories.uuid(1)}", "alice root"),
    ("GET", "/v2.1/flavors/detail", "rita alice root"),
    ("POST", "/v2.1/flavors", "root"),
    ("GET", "/v2/images", "rita alice root"),
    ("GET", "/v2.1/images", "rita alice root"),
    ("GET", "/v2.1/os-availability-zone", "rita alice root"),
    ("GET", "/v2.1/os-availability-zone/detail", "root"),
    ("GET", "/v2.1/limits", "rita alice root"),
    ("GET", "/v2.1/os-quota-sets/web", "rita alice root"),
    ("GET", "/v2.1/os-quota-sets/web/detail", "rita alice root"),
    ("PUT", "/v2.1/os-quota-sets/web", "root"),
    ("DELETE", "/v2.1/os-quota-sets/web", "root"),
    ("GET", "/v3/os-quota-sets/web", "rita alice root"),
    ("PUT", "/v3/os-quota-sets/web", "root"),
    ("GET", "/v3/limits", "rita alice root"),
    ("GET", "/v3/manageable_volumes?host=h", "root"),
    ("POST", "/v3/os-volume-manage", "root"),
    ("GET", "/v2.1/os-hypervisors", "root"),
    ("GET", "/v2.1/os-hypervisors/statistics", "root"),
    ("GET", "/v2.1/os-services", "root"),
    ("GET", "/v2.1/os-aggregates", "root"),
    ("POST", "/v2.1/os-aggregates", "root"),
    ("GET", "/v2.1/os-server-groups", "rita alice root"),
    ("POST", "/v2.1/os-server-groups", "alice root"),
    ("DELETE", "/v2.1/os-server-groups/g1", "alice root"),
    ("GET", "/fleet/v1/hosts", "root"),
    ("GET", "/fleet/v1/builds", "root"),
    ("GET", "/fleet/v1/flavors", "root"),
    ("POST", "/fleet/v1/explain", "root"),
    ("POST", "/fleet/v1/calls/operator/show_instance", "rita alice root"),
    ("POST", "/fleet/v1/calls/operator/stop_instance", "alice root"),
    ("POST", "/fleet/v1/calls/compute_task/create", "alice root"),
    ("POST", "/fleet/v1/calls/operator/list_hosts", "root"),
    ("POST", "/fleet/v1/calls/operator/no_such_method", "root"),
    ("POST", "/fleet/v1/calls/scheduler/explain", "root"),
]


def test_calls_of_projects_have_the_rules_of_the_requests_like_them() -> None:
    """What the conductor allows to projects, and nothing else: a policy file then holds for the command, too."""
    ruled = {
        tuple(each["path"].removeprefix(f"{CALLS}/").split("/"))
        for rule in RULES
        if rule.name != OTHERS
        for each in rule.operations
        if each["path"].startswith(CALLS)
    }
    assert set(CHECKS) == ruled


@pytest.mark.usefixtures("cheap_passwords")
@pytest.mark.parametrize(("volumes", "allowed"), [(True, ["root"]), (False, ["alice", "root"])])
def test_a_build_with_volumes_has_the_rule_of_attachments(
    conductor: TwoProjects, tmp_path: pathlib.Path, volumes: bool, allowed: list[str]
) -> None:
    """Also if the command sends it: a policy file that keeps volumes from members holds for each way to attach one."""
    client = client_of(conductor, tmp_path, **{rules.ATTACH: "role:admin"})
    build = {"flavor": "f1", **({"block_device_mapping": [{"volume_id": factories.uuid(5)}]} if volumes else {})}
    body = json.dumps({"arguments": {"request": build}})
    path = f"{CALLS}/compute_task/create"
    assert allowed == [
        name
        for name in ("rita", "alice", "root")
        if client.simulate_post(path, headers=as_user(name), body=body).status_code != 403
    ]
    assert len(allowed) == len(conductor.calls.contexts)


def test_a_call_is_of_the_senders_project(client, conductor) -> None:
    """An administrator names any project, and by default none."""
    path = f"{CALLS}/operator/show_instance"
    for name, asked, status, acts_for in (
        ("alice", {}, 200, ("web", "alice", False)),
        ("alice", {"project_id": "web", "user_id": "alice"}, 200, ("web", "alice", False)),
        ("alice", {"project_id": "bob"}, 403, None),
        ("alice", {"user_id": "bob"}, 403, None),
        ("root", {"project_id": "bob"}, 200, ("bob", None, True)),
        ("root", {}, 200, (None, None, True)),
    ):
        conductor.calls.contexts.clear()
        body = json.dumps({"arguments": {"name": "x"}, **asked})
        assert status == client.simulate_post(path, headers=as_user(name), body=body).status_code
        assert ([acts_for] if acts_for else []) == [
            (each.project_id, each.user_id, each.is_admin) for each in conductor.calls.contexts
        ]


@pytest.mark.parametrize(("method", "path", "allowed"), ROLES)
def test_what_each_role_may_do(client, method, path, allowed) -> None:
    """All others get 403; a route without a rule is the administrator's."""
    body = json.dumps({"server": SERVER})
    may = [
        name
        for name in ("rita", "alice", "root")
        if client.simulate_request(method, path, headers=as_user(name), body=body).status_code != 403
    ]
    assert allowed.split() == may


@pytest.mark.parametrize("name", ["rita", "alice", "root"])
@pytest.mark.parametrize("path", ["/v2.1/servers", "/v2.1/os-aggregates", "/fleet/v1/calls/operator/list_hosts"])
def test_a_method_that_a_path_does_not_have(client, name: str, path: str) -> None:
    """It is no question of roles."""
    assert 405 == client.simulate_request("PATCH", path, headers=as_user(name)).status_code


@pytest.mark.parametrize(
    ("action", "allowed"),
    [
        ({"migrate": None}, ["root"]),
        ({"os-migrateLive": {}}, ["root"]),
        ({"evacuate": {}}, ["root"]),
        ({"resize": {"flavorRef": "f1"}}, ["alice", "root"]),
    ],
)
def test_actions(client, action, allowed) -> None:
    path = f"/v2.1/servers/{factories.uuid(1)}/action"
    may = [
        name
        for name in ("rita", "alice", "root")
        if client.simulate_post(path, headers=as_user(name), body=json.dumps(action)).status_code != 403
    ]
    assert allowed == may


def test_a_project_sees_its_own_servers(client, conductor) -> None:
    """Another project's server is not there for it, whatever it tries."""
    listed = client.simulate_get("/v2.1/servers", headers=as_user("alice")).json["servers"]
    assert ["s1"] == [each["name"] for each in listed]
    other = f"/v2.1/servers/{factories.uuid(2)}"
    assert 404 == client.simulate_get(other, headers=as_user("alice")).status_code
    assert 404 == client.simulate_delete(other, headers=as_user("alice")).status_code
    body = json.dumps({"resize": {"flavorRef": "f1"}})
    assert 404 == client.simulate_post(f"{other}/action", headers=as_user("alice"), body=body).status_code
    asked = client.simulate_get("/v2.1/servers?project_id=bob&tenant_id=bob", headers=as_user("alice"))
    assert ["s1"] == [each["name"] for each in asked.json["servers"]]
    assert [] == conductor.given("terminate", "uuid")


@pytest.mark.parametrize(
    ("name", "path", "status"),
    [
        ("alice", "/v2.1/web/servers", 200),
        ("alice", "/v2.1/web/servers/detail?limit=1", 200),
        ("alice", "/v2.1/web", 200),
        ("alice", "/v2.1/web/", 200),
        ("alice", "/v2.1/web/servers/", 404),
        ("alice", "/v3/web/limits", 200),
        ("alice", "/v2.1/ops/servers", 404),
        ("root", "/v2.1/web/servers", 404),
        ("alice", "/v2.1/web/web/servers", 404),
        ("alice", "/v2.1/web/os-hypervisors", 403),
        ("alice", "/fleet/v1/web/flavors", 404),
        (None, "/v2.1/web/servers", 401),
    ],
)
def test_the_senders_project_may_be_in_the_path(client, name, path, status) -> None:
    """The rules are those of the path without it. Another project is not there."""
    answer = client.simulate_get(path, headers=as_user(name) if name else {})
    assert status == answer.status_code, answer.text
    if path.endswith("/web/servers") and status == 200:
        assert answer.json == client.simulate_get("/v2.1/servers", headers=as_user(name)).json


def test_an_administrator_sees_all_if_it_asks(client) -> None:
    """As with nova: without all_tenants the list is the own project's."""
    for path, names in (("/v2.1/servers", []), ("/v2.1/servers?all_tenants=True", ["s1", "s2"])):
        found = client.simulate_get(path, headers=as_user("root")).json["servers"]
        assert names == [each["name"] for each in found]
    assert 200 == client.simulate_get(f"/v2.1/servers/{factories.uuid(2)}", headers=as_user("root")).status_code


def test_hosts_are_not_shown_to_projects(client) -> None:
    """Neither in a server nor in its fault and its events; what the request lacks is."""
    path = f"/v2.1/servers/{factories.uuid(1)}"
    event = f"{path}/os-instance-actions/req-1"
    assert "host7 said no" in client.simulate_get(event, headers=as_user("root")).text
    assert 403 == client.simulate_get("/v2.1/os-migrations", headers=as_user("alice")).status_code
    for text in (
        client.simulate_get(path, headers=as_user("alice")).text,
        client.simulate_get("/v2.1/servers/detail", headers=as_user("alice")).text,
        client.simulate_get(event, headers=as_user("alice")).text,
    ):
        assert "host7" not in text
        assert "4096" not in text
    fault = client.simulate_get(path, headers=as_user("alice")).json["server"]["fault"]["message"]
    expected = "CAPACITY: No valid host was found. Hosts: RamFilter kept 0 of 9. The nearest host lacks 768 MB of RAM."
    assert expected == fault
    assert "host7" in client.simulate_get(path, headers=as_user("root")).json["server"]["fault"]["message"]


@pytest.mark.parametrize(
    "placed", [{"availability_zone": "nova:host7"}, {"host": "host7"}, {"hypervisor_hostname": "host7"}]
)
def test_only_an_administrator_names_the_host(client, conductor, placed) -> None:
    body = json.dumps({"server": {**SERVER, **placed}})
    refused = client.simulate_post("/v2.1/servers", headers=as_user("alice"), body=body)
    assert (403, True) == (refused.status_code, "forced_host" in said(refused))
    assert [] == conductor.built
    assert 202 == client.simulate_post("/v2.1/servers", headers=as_user("root"), body=body).status_code


def test_limits_are_those_of_the_project(client) -> None:
    found = client.simulate_get("/v2.1/limits", headers=as_user("alice")).json["limits"]["absolute"]
    assert (1, -1) == (found["totalInstancesUsed"], found["maxTotalInstances"])
    for path in ("/v2.1/limits?tenant_id=bob", "/v2.1/os-quota-sets/bob"):
        assert 403 == client.simulate_get(path, headers=as_user("alice")).status_code
        assert 200 == client.simulate_get(path, headers=as_user("root")).status_code


def test_a_user_without_a_section_is_a_member_of_its_own_project(client) -> None:
    listed = client.simulate_get("/v2.1/servers", headers=as_user("bob")).json["servers"]
    assert ["s2"] == [each["name"] for each in listed]
    assert 403 == client.simulate_get("/v2.1/os-services", headers=as_user("bob")).status_code


def test_files_are_read_again(tmp_path: pathlib.Path) -> None:
    """A removed user is refused at once, although the password was right a moment ago. A broken file changes nothing."""
    path = htpasswd(tmp_path / "htpasswd", alice="one", bob="two")
    users = Users(path, None)
    assert users.authenticate("alice", b"one") is not None
    htpasswd(path, bob="two")
    os.utime(path, ns=(1, 1))
    assert users.authenticate("alice", b"one") is None
    path.write_text("nonsense\n")
    assert users.authenticate("bob", b"two") is not None


def test_a_right_password_is_remembered_for_a_minute(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """bcrypt is slow on purpose; a client sends its password with every request."""
    now = [0.0]
    users = Users(htpasswd(tmp_path / "htpasswd", alice="one"), None, lambda: now[0])
    compared = []
    check = bcrypt.checkpw
    monkeypatch.setattr(bcrypt, "checkpw", lambda *words: compared.append(words) or check(*words))
    for _ in range(5):
        assert users.authenticate("alice", b"one") is not None
        assert users.authenticate("alice", b"two") is None
    assert 6 == len(compared)
    now[0] = 61.0
    assert users.authenticate("alice", b"one") is not None
    assert 7 == len(compared)


BAD_FILES = [
    ("alice:secret\n", "", "line 1 is not NAME:HASH with a bcrypt hash"),
    ("alice\n", "", "line 1 is not NAME:HASH"),
    ("# nobody\n", "", "has no users"),
    (f"alice:$2b$05${'x' * 53}\n", "", "cost of alice is 05, and it must be 10 to 15: htpasswd -B -C 10"),
    (f"alice:$2b$31${'x' * 53}\n", "", "cost of alice is 31"),
    (f"alice:$2b$10${'x' * 52}\n", "", "line 1 is not NAME:HASH with a bcrypt hash"),
    (None, "", "cannot be read: No such file"),
    ("good", "[alice]\nroles = king\n", "section alice king is not one of reader, member, admin"),
    ("good", "[alice]\nprojet = x\n", "section alice projet is not project or roles"),
    ("good", "roles = admin\n", "projects"),
    ("good", "[a]\n[a]\n", "projects"),
]


@pytest.mark.parametrize(("passwords", "projects", "words"), BAD_FILES)
def test_files_that_cannot_be_used(tmp_path: pathlib.Path, passwords: str | None, projects: str, words: str) -> None:
    """The daemon does not start; the message names the option, the file and the line."""
    path, other = tmp_path / "htpasswd", tmp_path / "projects"
    if passwords == "good":
        htpasswd(path, alice="one")
    elif passwords is not None:
        path.write_text(passwords)
        path.chmod(0o600)
    other.write_text(projects)
    with pytest.raises(errors.ConfigError, match=words) as refused:
        Users(path, other)
    assert "[api] " in refused.value.message


def test_passwords_that_everybody_may_read(tmp_path: pathlib.Path) -> None:
    path = htpasswd(tmp_path / "htpasswd", alice="one")
    path.chmod(0o644)
    with pytest.raises(errors.ConfigError, match="chmod o-rw"):
        Users(path, None)


def test_a_session_says_what_its_user_may_do(client, conductor) -> None:
    """By the rules that decide about the calls, so the page shows no button that is always refused."""

    def session(name: str) -> dict[str, Any]:
        return client.simulate_get("/fleet/v1/session", headers=as_user(name)).json["session"]

    reader, member, admin = (session(name) for name in ("rita", "alice", "root"))
    asked = ("operator/list_instances", "operator/stop_instance", "compute_task/create", "*")
    assert [True, False, False, False] == [reader["calls"][each] for each in asked]
    assert [True, True, True, False] == [member["calls"][each] for each in asked]
    assert [True] * 4 == [admin["calls"][each] for each in asked]
    assert [False, False, True] == [each["sees_all"] for each in (reader, member, admin)]
    for topic, _, method in (each.partition("/") for each in member["calls"] if each != "*"):
        answer = client.simulate_post(f"{CALLS}/{topic}/{method}", json={"wrong": 1}, headers=as_user("alice"))
        assert (403 != answer.status_code) == member["calls"][f"{topic}/{method}"], (topic, method)


def test_each_responder_names_the_rule_that_the_policy_file_documents(conductor: TwoProjects) -> None:
    """And no other request needs no user. A rule that nobody documents is for administrators."""
    conf = configuration(api_conf.register_opts)
    found = guarded([*routes(conductor, conf, streams_of(conf)), Route(rules.DOCUMENT, OpenAPI([]))])
    documented = policies.documented()
    wrong = {
        key: (rule, documented.get(key))
        for key, rule in found.items()
        if rule not in (guard.NOBODY, documented.get(key, rules.OTHERS))
    }
    assert {} == wrong
    assert rules.PUBLIC == {key for key, rule in found.items() if rule == guard.NOBODY}
    real = {key for key in documented if key[1].startswith("/") and not key[1].startswith(f"{rules.CALLS}/")}
    # With a remark, such as (with a host), it is a part of another request.
    assert set() == {key for key in real if not re.search(r"[ ?]|[.]{3}", key[1])} - found.keys()


def test_rules_that_are_not_there(conductor: TwoProjects) -> None:
    """They stop the program, and so does a responder without a rule."""

    class Open:
        def on_get(self, request: falcon.Request, response: falcon.Response) -> None: ...

    class Misspelt:
        @guard.by("compute:servers:gett")
        def on_get(self, request: falcon.Request, response: falcon.Response) -> None: ...

    with pytest.raises(AttributeError):
        guarded([Route("/v2.1/open", Open())])
    with pytest.raises(ValueError, match="compute:servers:gett"):
        policies.Policies(configuration(api_conf.register_opts), guarded([Route("/v2.1/open", Misspelt())]))
