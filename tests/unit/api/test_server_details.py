# SPDX-License-Identifier: Apache-2.0
"""Changes of servers over HTTP: name, description, metadata and tags. The conductor is a fake."""

from __future__ import annotations

import json
from typing import Any

import pytest
from falcon import testing

from fleet.objects import ImageRecord, InstanceChanges
from tests import factories
from tests.worlds.http_conductor import HttpConductor, named

UUID = factories.uuid(1)
SERVER = f"/v2.1/servers/{UUID}"
IMAGE = ImageRecord(uuid=factories.uuid(9), name="cirros", location="/c")
NEWEST = {"OpenStack-API-Version": "compute 2.100"}


class OneServer(HttpConductor):
    """A conductor with one instance, which it changes."""

    def __init__(self) -> None:
        self.instance: dict[str, Any] = {
            **dict.fromkeys(("host", "node", "updated_at", "launched_at", "terminated_at", "availability_zone")),
            **dict.fromkeys(("task_state", "group_uuid", "user_id")),
            "uuid": UUID, "name": "web", "description": "", "metadata": {"a": "1", "b": "2"}, "tags": ["x", "y"],
            "project_id": "p", "vm_state": "active", "power_state": 1, "deleted": False, "reservation_id": "r-1",
            "created_at": "2026-11-22T05:07:38.149Z", "image": {"id": ""}, "scheduler_hints": {},
            "flavor": {"flavorid": "f1", **dict.fromkeys(("vcpus", "memory_mb", "root_gb", "ephemeral_gb"), 1),
                       "name": "tiny", "swap": 0, "extra_specs": {}},
        }  # fmt: skip
        super().__init__(
            list_instances=lambda **_filters: [self.instance],
            show_instance=named(lambda **_parts: {"instance": self.instance, "faults": []}, UUID),
            show_image=named(IMAGE.to_wire(), IMAGE.uuid),
            show_key_pair=named({"name": "mine"}, "mine"),
            rebuild_instance=named(self._rebuild, UUID),
            update_instance=named(self._update, UUID),
        )

    def _rebuild(self, request: dict[str, Any]) -> dict[str, Any]:
        self.instance = {**self.instance, "task_state": "rebuild_block_device_mapping"}
        return {}

    def _update(self, changes: dict[str, Any]) -> dict[str, Any]:
        asked = InstanceChanges.from_wire(changes)
        name = asked.name or self.instance["name"]
        self.instance = {**self.instance, "name": name, **asked.details(self.instance)}
        return self.instance


@pytest.fixture
def conductor() -> OneServer:
    return OneServer()


def send(client: testing.TestClient, method: str, path: str, body: Any = None) -> testing.Result:
    return client.simulate_request(method, path, body=json.dumps(body) if body is not None else "", headers=NEWEST)


METADATA = [
    ("GET", "", None, 200, {"metadata": {"a": "1", "b": "2"}}),
    ("POST", "", {"metadata": {"a": "9"}}, 200, {"metadata": {"a": "9", "b": "2"}}),
    ("PUT", "", {"metadata": {"c": "3"}}, 200, {"metadata": {"c": "3"}}),
    ("PUT", "", {"metadata": {}}, 200, {"metadata": {}}),
    ("GET", "/a", None, 200, {"meta": {"a": "1"}}),
    ("PUT", "/a", {"meta": {"a": "7"}}, 200, {"meta": {"a": "7"}}),
    ("PUT", "/new", {"meta": {"new": "7"}}, 200, {"meta": {"new": "7"}}),
    ("DELETE", "/a", None, 204, None),
    ("GET", "/none", None, 404, None),
    ("DELETE", "/none", None, 404, None),
    ("PUT", "/a", {"meta": {"b": "7"}}, 400, None),
    ("PUT", "/a", {"meta": {"a": "7", "b": "7"}}, 400, None),
    ("PUT", "/a", {"metadata": {"a": "7"}}, 400, None),
    ("POST", "", {"metadata": {"a": None}}, 400, None),
    ("POST", "", {"metadata": {"a": "x" * 256}}, 400, None),
    ("POST", "", {"metadata": {"../../b": "1"}}, 400, None),
    ("PUT", "", {"metadata": {"..": "1"}}, 400, None),
    ("PUT", "/a%23b", {"meta": {"a#b": "7"}}, 400, None),
]


@pytest.mark.parametrize(("method", "path", "body", "code", "expected"), METADATA)
def test_metadata(client, conductor, method, path, body, code, expected):
    """What is refused changes nothing."""
    answer = send(client, method, f"{SERVER}/metadata{path}", body)
    assert code == answer.status_code, answer.text
    if expected is not None:
        assert expected == answer.json
    if code == 204:
        assert {"b": "2"} == conductor.instance["metadata"]
    if code >= 400:
        assert ([], {"a": "1", "b": "2"}) == (conductor.writes, conductor.instance["metadata"])


def test_names_of_an_earlier_release_can_be_removed(client, conductor):
    """Whichever characters they have."""
    conductor.instance |= {"metadata": {"a#b": "1", "c": "2"}, "tags": ["a#b", "c"]}
    assert "1" == send(client, "GET", f"{SERVER}/metadata/a%23b").json["meta"]["a#b"]
    for of in ("metadata", "tags"):
        assert 204 == send(client, "DELETE", f"{SERVER}/{of}/a%23b").status_code
    assert ({"c": "2"}, ["c"]) == (conductor.instance["metadata"], conductor.instance["tags"])


TAGS = [
    ("GET", "", None, 200, ["x", "y"]),
    ("PUT", "", {"tags": ["z", "x"]}, 200, ["x", "z"]),
    ("DELETE", "", None, 204, []),
    ("GET", "/x", None, 204, ["x", "y"]),
    ("GET", "/z", None, 404, ["x", "y"]),
    ("PUT", "/x", None, 204, ["x", "y"]),
    ("PUT", "/z", None, 201, ["x", "y", "z"]),
    ("DELETE", "/x", None, 204, ["y"]),
    ("DELETE", "/z", None, 404, ["x", "y"]),
    ("PUT", "/a,b", None, 400, ["x", "y"]),
    ("PUT", "/a%23b", None, 400, ["x", "y"]),
    ("PUT", "", {"tags": [".."]}, 400, ["x", "y"]),
    ("PUT", "/" + "z" * 61, None, 400, ["x", "y"]),
    ("PUT", "", {"tags": "z"}, 400, ["x", "y"]),
    ("PUT", "", {"tags": [str(n) for n in range(51)]}, 400, ["x", "y"]),
]


@pytest.mark.parametrize(("method", "path", "body", "code", "left"), TAGS)
def test_tags(client, conductor, method, path, body, code, left):
    answer = send(client, method, f"{SERVER}/tags{path}", body)
    assert (code, left) == (answer.status_code, conductor.instance["tags"]), answer.text
    if code == 200:
        assert {"tags": left} == answer.json


def test_tags_are_not_known_before_their_version(client, conductor):
    assert 404 == client.simulate_get(f"{SERVER}/tags", headers={"OpenStack-API-Version": "compute 2.25"}).status_code


@pytest.mark.parametrize(
    ("server", "changes"),
    [
        ({"name": "db"}, {"name": "db"}),
        ({"description": "mine"}, {"description": "mine"}),
        ({"name": "db", "description": None}, {"name": "db", "description": ""}),
        (
            {"accessIPv4": "192.0.2.1", "hostname": "db.example"},
            {"access_ip_v4": "192.0.2.1", "hostname": "db.example"},
        ),
        ({"accessIPv4": "", "accessIPv6": "::1"}, {"access_ip_v4": "", "access_ip_v6": "::1"}),
    ],
)
def test_a_new_name_or_description(client, conductor, server, changes):
    """The answer shows the server as it is now."""
    answer = send(client, "PUT", SERVER, {"server": server})
    assert (200, [changes]) == (answer.status_code, conductor.given("update_instance", "changes")), answer.text
    expected = {
        "name": changes.get("name", "web"),
        "description": changes.get("description") or None,
        "accessIPv4": changes.get("access_ip_v4", ""),
        "accessIPv6": changes.get("access_ip_v6", ""),
        "OS-EXT-SRV-ATTR:hostname": changes.get("hostname") or changes.get("name", "web"),
    }
    assert expected == {name: answer.json["server"][name] for name in expected}


@pytest.mark.parametrize(
    ("server", "code", "word"),
    [
        ({"name": ""}, 400, "name"),
        ({"hostname": "a_b"}, 400, "hostname"),
        ({"accessIPv4": "::1"}, 400, "accessIPv4"),
        ({"accessIPv6": "192.0.2.1"}, 400, "accessIPv6"),
        ({"accessIPv6": None, "hostname": ""}, 400, "hostname"),
        ({"name": 7}, 400, "name"),
        ({"colour": "red"}, 400, "colour"),
    ],
)
def test_changes_that_are_refused(client, conductor, server, code, word):
    answer = send(client, "PUT", SERVER, {"server": server})
    assert (code, []) == (answer.status_code, conductor.writes)
    assert word in answer.text


def test_a_change_of_nothing(client, conductor):
    """The answer is the server; the conductor is not asked to change it."""
    answer = send(client, "PUT", SERVER, {"server": {}})
    assert (200, "web", []) == (answer.status_code, answer.json["server"]["name"], conductor.writes)


@pytest.mark.parametrize(("version", "code"), [("2.89", 400), ("2.90", 200)])
def test_a_host_name_is_known_from_its_version_on(client, version, code):
    headers = {"OpenStack-API-Version": f"compute {version}"}
    body = json.dumps({"server": {"hostname": "db"}})
    assert code == client.simulate_put(SERVER, body=body, headers=headers).status_code


REBUILDS = [
    ({}, {}),
    ({"name": "db", "description": None}, {"changes": {"name": "db", "description": ""}}),
    ({"metadata": {"c": "3"}}, {"changes": {"metadata": {"c": "3"}, "replace_metadata": True}}),
    ({"key_name": "mine", "user_data": "YQ=="}, {"key_name": "mine", "user_data": "YQ=="}),
    ({"key_name": None, "user_data": None}, {"key_name": "", "user_data": ""}),
    ({"accessIPv4": "192.0.2.1", "hostname": "db"}, {"changes": {"access_ip_v4": "192.0.2.1", "hostname": "db"}}),
    ({"OS-DCF:diskConfig": "AUTO", "preserve_ephemeral": False}, {"changes": {"disk_config": "AUTO"}}),
]


@pytest.mark.parametrize(("given", "asked"), REBUILDS)
def test_a_rebuild(client, conductor, given, asked):
    """The answer is the server as it is then, with a password."""
    body = {"rebuild": {"imageRef": IMAGE.uuid, **given}}
    answer = send(client, "POST", f"{SERVER}/action", body)
    assert (202, "REBUILD") == (answer.status_code, answer.json["server"]["status"]), answer.text
    password = answer.json["server"]["adminPass"]
    assert [{"image": IMAGE.uuid, "admin_password": password, **asked}] == conductor.given(
        "rebuild_instance", "request"
    )
    send(client, "POST", f"{SERVER}/action", {"rebuild": {**body["rebuild"], "adminPass": "mine"}})
    assert "mine" == conductor.given("rebuild_instance", "request")[-1]["admin_password"]


@pytest.mark.parametrize(
    ("given", "version", "code"),
    [
        ({"imageRef": "nonsense"}, "2.100", 400),
        ({"imageRef": factories.uuid(8)}, "2.100", 400),
        ({"imageRef": 5}, "2.100", 400),
        ({"key_name": "yours"}, "2.100", 400),
        ({"key_name": "mine"}, "2.53", 400),
        ({"user_data": "YQ=="}, "2.56", 400),
        ({"description": None}, "2.18", 400),
        ({"hostname": "db"}, "2.89", 400),
        ({"flavorRef": "f1"}, "2.100", 400),
        ({"preserve_ephemeral": True}, "2.100", 501),
        ({"personality": [{"path": "/a"}]}, "2.1", 501),
    ],
)
def test_rebuilds_that_are_refused(client, conductor, given, version, code):
    body = json.dumps({"rebuild": {"imageRef": IMAGE.uuid, **given}})
    headers = {"OpenStack-API-Version": f"compute {version}"}
    assert code == client.simulate_post(f"{SERVER}/action", body=body, headers=headers).status_code
    assert [] == conductor.writes


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("tags=x", 1),
        ("tags=x,y", 1),
        ("tags=x,z", 0),
        ("tags-any=x,z", 1),
        ("tags-any=z", 0),
        ("not-tags=x,y", 0),
        ("not-tags=x,z", 1),
        ("not-tags-any=x,z", 0),
        ("not-tags-any=z", 1),
    ],
)
def test_lists_by_tags(client, query, count):
    assert count == len(client.simulate_get(f"/v2.1/servers?{query}", headers=NEWEST).json["servers"])


@pytest.mark.parametrize(
    ("query", "version", "count"),
    [
        ("locked=true", "2.73", 1),
        ("locked=1", "2.100", 1),
        ("locked=False", "2.73", 0),
        ("locked=False", "2.72", 1),
    ],
)
def test_lists_by_locks(client, conductor, query, version, count):
    """From version 2.73 on; before, the parameter is ignored."""
    conductor.instance |= {"locked_by": "admin", "locked_reason": "why"}
    for path in ("/v2.1/servers", "/v2.1/servers/detail"):
        answer = client.simulate_get(f"{path}?{query}", headers={"OpenStack-API-Version": f"compute {version}"})
        assert count == len(answer.json["servers"])


def test_a_filter_by_locks_that_is_neither_true_nor_false(client):
    assert 400 == client.simulate_get("/v2.1/servers?locked=maybe", headers=NEWEST).status_code


@pytest.mark.parametrize(
    ("version", "shown"), [("2.8", ()), ("2.9", (True,)), ("2.72", (True,)), ("2.73", (True, "why"))]
)
def test_locks_are_shown(client, conductor, version, shown):
    """Each field from its version on."""
    conductor.instance |= {"locked_by": "owner", "locked_reason": "why"}
    found = client.simulate_get(SERVER, headers={"OpenStack-API-Version": f"compute {version}"}).json["server"]
    assert shown == tuple(found[name] for name in ("locked", "locked_reason") if name in found)


@pytest.mark.parametrize(
    ("task", "shown"), [("scheduling", "unshelving"), ("placing", "unshelving"), ("spawning", "spawning")]
)
def test_a_server_that_is_unshelved(client, conductor, task, shown):
    """It is built again, and shown as shelved until it runs."""
    conductor.instance |= {"vm_state": "building", "task_state": task, "is_unshelved": True}
    found = client.simulate_get(SERVER, headers=NEWEST).json["server"]
    assert ("SHELVED_OFFLOADED", "shelved_offloaded", shown) == (
        found["status"],
        found["OS-EXT-STS:vm_state"],
        found["OS-EXT-STS:task_state"],
    )


def test_what_networks_would_have(client):
    """Terraform asks for both of every server."""
    assert {"interfaceAttachments": []} == send(client, "GET", f"{SERVER}/os-interface").json
    assert {"security_groups": []} == send(client, "GET", f"{SERVER}/os-security-groups").json
