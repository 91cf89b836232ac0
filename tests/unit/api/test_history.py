# SPDX-License-Identifier: Apache-2.0
"""What was done with servers: instance actions of a server, and migrations."""

from __future__ import annotations

from typing import Any

import pytest
from falcon import testing

from fleet_api.compute.services import number_of
from tests import factories
from tests.worlds.http_conductor import HttpConductor

UUID = factories.uuid(1)
PATH = f"/v2.1/servers/{UUID}/os-instance-actions"
INSTANCE = {"uuid": UUID, "project_id": "web", "user_id": "alice", "vm_state": "active", "deleted": False}


def event(name: str, request_id: str | None, second: int, result: str = "success", **values: Any) -> dict[str, Any]:
    known = {"created_at": f"2026-11-22T05:00:{second:02}.000Z", "duration_s": None, "host": "h1", "message": ""}
    return {"event": name, "request_id": request_id, "result": result, **known, **values}


EVENTS = [
    event("create", "req-a", 1, host=None),
    event("claim", "req-a", 2),
    event("attempt", "req-a", 5, duration_s=2.5),
    event("power", None, 6, "crashed", message="its process has ended"),
    event("stop", "req-b", 9, "failed", message="h1 said no"),
]
MOVE = {
    "uuid": "ee8570ae-6adf-4470-9bce-c0a0ff40915f",
    "instance_uuid": UUID,
    "migration_type": "resize",
    "resized": False,
    "status": "confirmed",
    "created_at": "2026-11-22T05:07:38.149Z",
    "updated_at": None,
    "old_flavor": "small",
    "new_flavor": "small",
    **dict.fromkeys(("source_compute", "source_node"), "h1"),
    **dict.fromkeys(("dest_compute", "dest_node"), "h2"),
}


FLAVOR = {"name": "small", "flavorid": "f1", "id": 7, "vcpus": 1, "memory_mb": 512}


ANSWERS = {
    "show_instance": {"instance": INSTANCE, "events": EVENTS},
    "list_migrations": [{**MOVE, "uuid": factories.uuid(7), "migration_type": "evacuation", "resized": False}, MOVE],
    "list_flavors": [FLAVOR],
}


@pytest.fixture
def conductor() -> HttpConductor:
    return HttpConductor(**ANSWERS)


def get(client: testing.TestClient, path: str, version: str = "2.84") -> testing.Result:
    return client.simulate_get(path, headers={"OpenStack-API-Version": f"compute {version}"})


def test_actions_of_a_server(client):
    """One for each request, the newest first. What an agent found by itself is none."""
    stop, create = get(client, PATH).json["instanceActions"]
    assert ("req-b", "stop", "Error") == (stop["request_id"], stop["action"], stop["message"])
    assert {
        "action": "create",
        "instance_uuid": UUID,
        "request_id": "req-a",
        "project_id": "web",
        "user_id": "alice",
        "start_time": "2026-11-22T05:00:01.000000",
        "updated_at": "2026-11-22T05:00:05.000000",
        "message": None,
    } == create
    assert "updated_at" not in get(client, PATH, "2.57").json["instanceActions"][0]


def test_events_of_an_action(client):
    """Each with its host and its duration; a failure with its message."""
    action = get(client, f"{PATH}/req-a").json["instanceAction"]
    claim, attempt = action["events"]
    assert ("compute_claim", "Success", "h1") == (claim["event"], claim["result"], claim["host"])
    times = "2026-11-22T05:00:02.500000", "2026-11-22T05:00:05.000000"
    assert times == (attempt["start_time"], attempt["finish_time"])
    (stop,) = get(client, f"{PATH}/req-b").json["instanceAction"]["events"]
    assert ("Error", "h1 said no") == (stop["result"], stop["details"])
    assert "host" not in get(client, f"{PATH}/req-b", "2.61").json["instanceAction"]["events"][0]
    assert 404 == get(client, f"{PATH}/req-c").status_code


def ids(client: testing.TestClient, query: str, version: str = "2.84") -> list[str]:
    return [each["request_id"] for each in get(client, f"{PATH}?{query}", version).json["instanceActions"]]


def test_actions_in_parts(client):
    """A client that asks for the actions after the last one comes to an end, as does one that follows the links."""
    first = get(client, f"{PATH}?limit=1").json
    assert ["req-b"] == [each["request_id"] for each in first["instanceActions"]]
    href = first["links"][0]["href"]
    second = get(client, href[href.index(PATH) :]).json
    assert (["req-a"], False) == ([each["request_id"] for each in second["instanceActions"]], "links" in second)
    assert [] == ids(client, "marker=req-a")
    assert 400 == get(client, f"{PATH}?marker=req-c").status_code
    assert ["req-b", "req-a"] == ids(client, "limit=1&marker=req-b", "2.57")


@pytest.mark.parametrize(
    ("query", "version", "expected"),
    [
        ("changes-since=2026-11-22T05:00:05Z", "2.58", ["req-b", "req-a"]),
        ("changes-since=2026-11-22T05:00:06Z", "2.58", ["req-b"]),
        ("changes-since=2026-11-22T05:00:10Z", "2.58", []),
        ("changes-since=2026-11-22T05:00:10Z", "2.57", ["req-b", "req-a"]),
        ("changes-before=2026-11-22T05:00:05Z", "2.66", ["req-a"]),
        ("changes-before=2026-11-22T05:00:04Z", "2.66", []),
        ("changes-before=2026-11-22T05:00:04Z", "2.65", ["req-b", "req-a"]),
    ],
)
def test_actions_of_a_period(client, query, version, expected):
    """That of the last change of each. Older versions know no period."""
    assert expected == ids(client, query, version)


def test_migrations(client, conductor):
    """A resize to the same flavor is a migration, as in nova."""
    found = get(client, f"/v2.1/os-migrations?instance_uuid={UUID}&limit=1", "2.80").json
    assert [("evacuation", factories.uuid(7))] == [
        (each["migration_type"], each["uuid"]) for each in found["migrations"]
    ]
    assert f"marker={factories.uuid(7)}" in found["migrations_links"][0]["href"]
    assert ("list_migrations", {"filters": {"instance_uuid": UUID}, "limit": 1000}) == conductor.asked[0]
    assert 7 == found["migrations"][0]["old_instance_type_id"]
    (migration,) = get(client, "/v2.1/os-migrations?migration_type=migration", "2.80").json["migrations"]
    assert (MOVE["uuid"], "h1", "h2") == tuple(migration[key] for key in ("uuid", "source_compute", "dest_compute"))
    assert isinstance(migration["id"], int)
    old = get(client, "/v2.1/os-migrations", "2.1").json["migrations"][0]
    assert not {"uuid", "migration_type", "project_id"} & old.keys()


@pytest.mark.parametrize(
    ("query", "version", "expected"),
    [
        ("user_id=alice", "2.80", ["web"]),
        ("user_id=nobody", "2.80", []),
        ("user_id=nobody", "2.79", ["web", "shop"]),
        ("source_compute=h2", "2.1", []),
        ("source_compute=h1", "2.1", ["web", "shop"]),
        ("changes-since=2026-11-22T05:08:00Z", "2.59", ["shop"]),
        ("changes-since=2026-11-22T05:08:00Z", "2.58", ["web", "shop"]),
        ("changes-before=2026-11-22T05:08:00Z", "2.66", ["web"]),
        ("changes-before=2026-11-22T05:08:00Z", "2.65", ["web", "shop"]),
        ("changes-since=2026-11-22T05:07:38.149Z&changes-before=2026-11-22T05:09:00Z", "2.66", ["web", "shop"]),
    ],
)
def test_migrations_that_are_asked_for(client, conductor, query, version, expected):
    """A filter that were ignored would list the moves of others as well. Older versions do not know it."""
    later = "2026-11-22T05:09:00.000Z"
    conductor.answers["list_migrations"] = [
        {**MOVE, "project_id": "web", "user_id": "alice"},
        {**MOVE, "uuid": factories.uuid(8), "project_id": "shop", "user_id": "bob", "updated_at": later},
    ]
    found = get(client, f"/v2.1/os-migrations?{query}", version).json["migrations"]
    uuids = {"web": number_of(MOVE["uuid"]), "shop": number_of(factories.uuid(8))}
    assert [uuids[each] for each in expected] == [each["id"] for each in found]


@pytest.mark.parametrize(("version", "filters"), [("2.80", {"project_id": "web"}), ("2.79", {})])
def test_migrations_of_a_project(client, conductor, version, filters):
    get(client, "/v2.1/os-migrations?project_id=web", version)
    assert [filters] == conductor.given("list_migrations", "filters")


@pytest.mark.parametrize(("version", "code"), [("2.20", 404), ("2.21", 200)])
def test_actions_of_a_deleted_server(
    client: testing.TestClient, conductor: HttpConductor, version: str, code: int
) -> None:
    """As long as its row is kept. The server itself is gone."""
    conductor.answers["show_instance"] = {"instance": {**INSTANCE, "deleted": True}, "events": EVENTS}
    assert code == get(client, PATH, version).status_code
    assert code == get(client, f"{PATH}/req-a", version).status_code
    assert 404 == get(client, f"/v2.1/servers/{UUID}", version).status_code
