# SPDX-License-Identifier: Apache-2.0
"""The API of volumes: what clients send, right and wrong, and what other projects see. The conductor is a fake."""

from __future__ import annotations

import base64
import json
import pathlib
from typing import Any

import bcrypt
import pytest
from falcon import testing

from fleet.objects import ImageRecord
from fleet.objects.quota import RESOURCES
from fleet_api import conf as api_conf
from fleet_api.access import users
from fleet_api.application import application
from fleet_api.block_storage import views
from tests import factories
from tests.configuration import configuration
from tests.worlds.http_conductor import HttpConductor, named

UUID, SNAPSHOT, IMAGE = factories.uuid(1), factories.uuid(2), factories.uuid(3)
NEWEST = {"OpenStack-API-Version": "volume 3.71"}
VOLUME = {
    **dict.fromkeys(("source", "snapshot", "image", "migration", "updated_at", "volume_type")),
    "uuid": UUID,
    "name": "v",
    "size_gb": 1,
    "status": "available",
    "availability_zone": "nova",
    "metadata": {},
    "host": "m@b#p",
    "project_id": "web",
    "user_id": "alice",
    "created_at": "2026-11-22T05:07:38.149Z",
}
KEPT = {**VOLUME, "uuid": SNAPSHOT, "name": "s", "volume": UUID}
POOL = {
    **dict.fromkeys(("total_capacity_gb", "free_capacity_gb", "allocated_capacity_gb", "provisioned_capacity_gb"), 1.0),
    **dict.fromkeys(("reserved_percentage", "max_over_subscription_ratio", "total_volumes"), 1),
    **dict.fromkeys(("thin_provisioning_support", "thick_provisioning_support"), True),
    "name": "m@b#p",
    "volume_backend_name": "b",
    "availability_zone": "az1",
    "state": "up",
    "updated_at": None,
    "capabilities": {"vendor_name": "fleet"},
}
SERVICE = {"binary": "fleet-volume", "host": "m@b", "status": "enabled", "state": "up", "disabled_reason": None}
OTHER_METHODS = [
    *(f"{verb}_volume_type" for verb in ("create", "update", "delete")),
    *("add_volume_type_access", "remove_volume_type_access", "update_service", "delete_snapshot"),
    *(f"{verb}_volume" for verb in ("delete", "extend", "migrate", "retype", "unmanage")),
]
FAST = {"name": "fast", "extra_specs": {"a": "b"}, "description": "", "id": 7}


@pytest.fixture
def conductor() -> HttpConductor:
    """Has volumes, a snapshot and a type."""
    manageable = {"pool": "m@b#p", "reference": "a.raw", "size_gb": 2, "reason": ""}
    made = {"volumes": [{"uuid": UUID}]}
    return HttpConductor(
        **dict.fromkeys(OTHER_METHODS, FAST),
        list_volumes=[{**VOLUME, "uuid": factories.uuid(n)} for n in range(10, 15)],
        list_snapshots=[KEPT],
        list_volume_types=[FAST],
        list_pools=[POOL],
        list_manageable=[manageable, {**manageable, "reference": "b", "size_gb": 1, "reason": "is a link"}],
        list_services=[{**SERVICE, "last_seen_up": None}, {"binary": "fleet-compute"}],
        show_quota={name: dict.fromkeys(RESOURCES, 5) for name in ("limits", "used", "default")},
        show_volume=named(VOLUME, UUID),
        show_snapshot=named(KEPT, SNAPSHOT),
        show_image=named(ImageRecord(uuid=IMAGE, name="i", location="/i").to_wire(), IMAGE),
        create_volumes=made,
        manage_volume=made,
        create_snapshot=KEPT,
        update_volume=lambda name, changes: {**VOLUME, **{key: changes[key] for key in changes if key in VOLUME}},
    )


def send(client: testing.TestClient, method: str, path: str, body: Any = None, **headers: str) -> testing.Result:
    text = json.dumps(body) if body is not None else ""
    return client.simulate_request(method, f"/v3{path}", body=text, headers={**NEWEST, **headers})


def test_discovery(client: testing.TestClient) -> None:
    (found,) = client.simulate_get("/v3/").json["versions"]
    assert ("v3.0", "3.71") == (found["id"], found["version"])
    assert found["links"][0]["href"].endswith("/v3/")


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ("volume 3.64", 200, "volume 3.64"),
        ("volume latest", 200, "volume 3.71"),
        ("compute 2.1", 200, "volume 3.0"),
        ("volume 3.72", 406, None),
        ("volume 2.0", 406, None),
        ("volume x", 400, None),
    ],
)
def test_versions(client: testing.TestClient, asked: str, code: int, said: str | None) -> None:
    answer = client.simulate_get("/v3/volumes", headers={"OpenStack-API-Version": asked})
    assert code == answer.status_code
    assert said == answer.headers.get("OpenStack-API-Version")


@pytest.mark.parametrize(
    ("method", "path", "body", "changes"),
    [
        ("PUT", "", {"volume": {"name": "n", "description": ""}}, {"name": "n", "description": ""}),
        ("PUT", "", {"volume": {"display_name": "n", "display_description": "d"}}, {"name": "n", "description": "d"}),
        ("PUT", "", {"volume": {"metadata": {}}}, {"metadata": {}, "replace_metadata": True}),
        ("POST", "/metadata", {"metadata": {"b": "2"}}, {"metadata": {"b": "2"}, "replace_metadata": False}),
        ("PUT", "/metadata", {"metadata": {"b": "2"}}, {"metadata": {"b": "2"}, "replace_metadata": True}),
    ],
)
def test_a_change(
    client: testing.TestClient, conductor: HttpConductor, method: str, path: str, body: Any, changes: Any
) -> None:
    """What is not named stays."""
    answer = send(client, method, f"/volumes/{UUID}{path}", body)
    assert 200 == answer.status_code, answer.text
    assert [("update_volume", {"name": UUID, "changes": changes})] == conductor.writes
    shown = answer.json.get("volume", answer.json)
    assert changes.get("metadata", {}) == shown["metadata"]


def test_existing_data(client: testing.TestClient, conductor: HttpConductor) -> None:
    """They are listed, become a volume, and a volume is left to itself."""
    for path in ("/manageable_volumes", "/os-volume-manage"):
        found = send(client, "GET", f"{path}/detail?host=m@b").json["manageable-volumes"]
        assert [("a.raw", 2, True, None), ("b", 1, False, "is a link")] == [
            (each["reference"]["source-name"], each["size"], each["safe_to_manage"], each["reason_not_safe"])
            for each in found
        ]
        assert 2 == len(send(client, "GET", f"{path}?host=m@b").json["manageable-volumes"])
        assert 400 == send(client, "GET", path).status_code
        body = {"host": "m@b#p", "ref": {"source-name": "a.raw"}, "name": "n", "bootable": False, "metadata": None}
        made = send(client, "POST", path, {"volume": body}, **{"Idempotency-Key": "k"})
        assert (202, UUID) == (made.status_code, made.json["volume"]["id"])
    asked = {"host": "m@b#p", "reference": "a.raw", "name": "n"}
    assert [("manage_volume", {"request": asked, "client_token": "k"})] * 2 == conductor.writes
    assert 202 == send(client, "POST", f"/volumes/{UUID}/action", {"os-unmanage": None}).status_code
    assert ("unmanage_volume", {"name": UUID}) == conductor.writes[-1]


def test_a_change_of_nothing_is_refused(client: testing.TestClient, conductor: HttpConductor) -> None:
    for body in ({"volume": {}}, {"volume": {"size": 2}}, {"volume": {"name": ""}}):
        assert 400 == send(client, "PUT", f"/volumes/{UUID}", body).status_code
    assert 404 == send(client, "DELETE", f"/volumes/{UUID}/metadata/none").status_code
    assert [] == conductor.writes


def test_a_volume(client: testing.TestClient, conductor: HttpConductor) -> None:
    """As the client sends it: what is not wanted is null."""
    empty = dict.fromkeys(
        ("source_volid", "consistencygroup_id", "imageRef", "backup_id", "description", "snapshot_id")
    )
    volume = {**empty, "name": "v", "size": 1, "volume_type": "fast", "availability_zone": None, "metadata": {"x": "y"}}
    body = {"volume": volume, "OS-SCH-HNT:scheduler_hints": {"a": "b"}}
    answer = send(client, "POST", "/volumes", body, **{"Idempotency-Key": "k1"})
    assert (202, UUID) == (answer.status_code, answer.json["volume"]["id"]), answer.text
    wanted = {"size": 1, "name": "v", "volume_type": "fast", "metadata": {"x": "y"}, "scheduler_hints": {"a": "b"}}
    assert [("create_volumes", {"request": wanted, "client_token": "k1"})] == conductor.writes


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        ({"source_volid": UUID}, {"source": UUID}),
        ({"snapshot_id": SNAPSHOT}, {"snapshot": SNAPSHOT}),
        ({"imageRef": IMAGE, "size": 2}, {"image": IMAGE, "size": 2}),
    ],
)
def test_what_a_volume_begins_with(
    client: testing.TestClient, conductor: HttpConductor, origin: Any, wanted: Any
) -> None:
    assert 202 == send(client, "POST", "/volumes", {"volume": origin}).status_code
    assert [("create_volumes", {"request": wanted})] == conductor.writes


BAD = [
    ("/volumes", {"volume": {"size": 0}}, 400, "size"),
    ("/volumes", {"volume": {"size": "1"}}, 400, "size"),
    ("/volumes", {"volume": {"size": 1, "colour": "red"}}, 400, "colour"),
    ("/volumes", {"volume": {"size": 1, "metadata": {"a": 1}}}, 400, "metadata"),
    ("/volumes", {"volume": {"size": 1, "metadata": {"../../b": "1"}}}, 400, "metadata"),
    ("/snapshots", {"snapshot": {"volume_id": UUID, "metadata": {"..": "1"}}}, 400, "metadata"),
    (
        "/manageable_volumes",
        {"volume": {"host": "h", "ref": {"source-name": "x"}, "metadata": {"a/b": "1"}}},
        400,
        "metadata",
    ),
    ("/manageable_volumes", {"volume": {"host": "h", "ref": {}}}, 400, "volume.ref"),
    ("/manageable_volumes", {"volume": {"host": "h", "ref": {"name": "x"}}}, 400, "volume.ref"),
    ("/manageable_volumes", {"volume": {"ref": {"source-name": "x"}}}, 400, "host"),
    ("/manageable_volumes", {"volume": {"host": "h", "ref": {"source-name": "x"}, "bootable": True}}, 501, "Booting"),
    ("/volumes", {"volume": {"size": 1, "multiattach": True}}, 501, "several servers"),
    ("/volumes", {"volume": {"size": 1, "backup_id": "b"}}, 501, "backup"),
    ("/volumes", {"volume": {"size": 1, "description": 1}}, 400, "description"),
    ("/volumes", {"volume": {"size": 1, "imageRef": "none"}}, 400, "imageRef"),
    ("/volumes", {"volume": {"source_volid": factories.uuid(9)}}, 404, factories.uuid(9)),
    ("/volumes", {"volume": {"source_volid": UUID, "snapshot_id": SNAPSHOT}}, 400, "one of"),
    ("/volumes", {"size": 1}, 400, "size"),
    ("/volumes", [], 400, "object"),
    (f"/volumes/{UUID}/action", {}, 400, "action"),
    (f"/volumes/{UUID}/action", {"os-extend": {"new_size": "2"}}, 400, "new_size"),
    (f"/volumes/{UUID}/action", {"os-extend": None}, 400, "os-extend"),
    (f"/volumes/{UUID}/action", {"os-retype": {"new_type": "none"}}, 400, "new_type"),
    (f"/volumes/{UUID}/action", {"os-retype": {"new_type": "7", "migration_policy": "x"}}, 400, "migration_policy"),
    (f"/volumes/{UUID}/action", {"os-reset_status": {"status": "error"}}, 501, "os-reset_status"),
    ("/volumes/v/action", {"os-extend": {"new_size": 2}}, 404, "Volume v"),
    (f"/volumes/{UUID}/metadata", {"metadata": {"a": 1}}, 400, "metadata"),
    (f"/volumes/{UUID}/metadata", {"metadata": {"../../b": "1"}}, 400, "metadata"),
    ("/snapshots", {"snapshot": {"volume_id": "v"}}, 400, "volume_id"),
    ("/snapshots", {"snapshot": {"volume_id": factories.uuid(9)}}, 404, factories.uuid(9)),
    ("/types", {"volume_type": {}}, 400, "name"),
    ("/types/7/action", {"addProjectAccess": {}}, 400, "project"),
    ("/types/7/action", {"addTenantAccess": {"project": "p"}}, 400, "addProjectAccess"),
    ("/types/8/action", {"addProjectAccess": {"project": "p"}}, 404, "Volume type 8"),
    ("/types/8/extra_specs", {"extra_specs": {}}, 404, "Volume type 8"),
    ("/types/7/extra_specs", {"extra_specs": {"a": 1}}, 400, "extra_specs"),
]


@pytest.mark.parametrize(("path", "body", "code", "word"), BAD)
def test_what_is_refused(
    client: testing.TestClient, conductor: HttpConductor, path: str, body: Any, code: int, word: str
) -> None:
    """With the field that is wrong, or a sentence on what is not here. Nothing is asked of the fleet."""
    answer = send(client, "POST", path, body)
    ((_, failure),) = answer.json.items()
    assert (code, code) == (answer.status_code, failure["code"]), answer.text
    assert word in failure["message"]
    assert [] == conductor.writes


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "asked"),
    [
        ("DELETE", f"/volumes/{UUID}?cascade=False&force=False", None, 202, ("delete_volume", {"name": UUID})),
        ("DELETE", f"/volumes/{UUID}?cascade=True", None, 202,
         ("delete_volume", {"name": UUID, "with_snapshots": True})),
        ("POST", f"/volumes/{UUID}/action", {"os-force_delete": {}}, 202, ("delete_volume", {"name": UUID, "force": True})),
        ("POST", f"/volumes/{UUID}/action", {"os-extend": {"new_size": 2}}, 202,
         ("extend_volume", {"name": UUID, "size": 2})),
        ("POST", f"/volumes/{UUID}/action", {"os-migrate_volume": {"host": "m@b#q", "lock_volume": False}}, 202,
         ("migrate_volume", {"name": UUID, "host": "m@b#q"})),
        ("POST", f"/volumes/{UUID}/action", {"os-retype": {"new_type": "7", "migration_policy": "on-demand"}}, 202,
         ("retype_volume", {"name": UUID, "volume_type": "fast", "migration_policy": "on-demand"})),
        ("POST", "/snapshots", {"snapshot": {"volume_id": UUID, "name": "s", "metadata": None, "description": None}}, 202,
         ("create_snapshot", {"volume": UUID, "name": "s", "metadata": {}})),
        ("DELETE", f"/snapshots/{SNAPSHOT}", None, 202, ("delete_snapshot", {"name": SNAPSHOT})),
        ("POST", "/types", {"volume_type": {"name": "x", "description": None}}, 200,
         ("create_volume_type", {"volume_type": {"name": "x", "extra_specs": {}, "description": ""}})),
        *(("POST", "/types", {"volume_type": {"name": "x", key: False}}, 200,
           ("create_volume_type",
            {"volume_type": {"name": "x", "extra_specs": {}, "description": "", "is_public": False}}))
          for key in ("is_public", "os-volume-type-access:is_public")),
        ("PUT", "/types/7", {"volume_type": {"is_public": False}}, 200,
         ("update_volume_type", {"name": "fast", "extra_specs": {}, "is_public": False})),
        ("POST", "/types/7/action", {"addProjectAccess": {"project": "p"}}, 202,
         ("add_volume_type_access", {"name": "fast", "project_id": "p"})),
        ("POST", "/types/7/action", {"removeProjectAccess": {"project": "p"}}, 202,
         ("remove_volume_type_access", {"name": "fast", "project_id": "p"})),
        ("POST", "/types/7/extra_specs", {"extra_specs": {"c": "d"}}, 200,
         ("update_volume_type", {"name": "fast", "extra_specs": {"c": "d"}})),
        ("DELETE", "/types/7/extra_specs/a", None, 202,
         ("update_volume_type", {"name": "fast", "extra_specs": {"a": None}})),
        ("DELETE", "/types/7", None, 202, ("delete_volume_type", {"name": "fast"})),
    ],
)  # fmt: skip
def test_changes(
    client: testing.TestClient, conductor: HttpConductor, method: str, path: str, body: Any, code: int, asked: Any
) -> None:
    assert code == send(client, method, path, body).status_code
    assert [asked] == conductor.writes


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/volumes/v", 404),
        (f"/volumes/{factories.uuid(9)}", 404),
        ("/types/fast", 404),
        ("/types/7/os-volume-type-access", 404),
        ("/types/7/extra_specs", 200),
        ("/snapshots/s", 404),
        (f"/snapshots/{SNAPSHOT}", 200),
        ("/volumes?marker=none", 404),
        ("/volumes?limit=x", 400),
        ("/backups", 404),
    ],
)
def test_paths(client: testing.TestClient, path: str, code: int) -> None:
    assert code == send(client, "GET", path).status_code


def test_pages(client: testing.TestClient) -> None:
    """The newest come first. The link leads to the next part of the same list."""
    answer = send(client, "GET", "/volumes/detail?limit=2&with_count=True").json
    assert ([factories.uuid(14), factories.uuid(13)], 5) == (
        [each["id"] for each in answer["volumes"]],
        answer["count"],
    )
    (link,) = answer["volumes_links"]
    assert "/v3/volumes/detail?" in link["href"]
    last = send(client, "GET", f"/volumes?marker={factories.uuid(11)}").json
    assert ([factories.uuid(10)], False) == ([each["id"] for each in last["volumes"]], "volumes_links" in last)


@pytest.mark.parametrize("status", ["in-use", "deleted"])
@pytest.mark.parametrize("kind", ["volume", "snapshot"])
def test_the_last_of_a_page_may_leave_the_list(
    client: testing.TestClient, conductor: HttpConductor, kind: str, status: str
) -> None:
    """The marker is a place. What is there may have another status by now, which the list does not ask for."""
    there = [{**KEPT, "uuid": factories.uuid(n)} for n in range(10, 15)]
    gone = {**there.pop(2), "status": status}
    conductor.answers |= {f"list_{kind}s": there, f"show_{kind}": named(gone, gone["uuid"])}
    answer = send(client, "GET", f"/{kind}s?status=available&with_count=True&limit=1&marker={gone['uuid']}").json
    assert ([factories.uuid(11)], 4) == ([each["id"] for each in answer[f"{kind}s"]], answer["count"])


@pytest.mark.parametrize("path", ["/limits", "/os-quota-sets/web", "/os-quota-sets/web/defaults"])
def test_each_service_has_quotas_of_its_own(client: testing.TestClient, path: str) -> None:
    """Clients of one service refuse the names of the other one."""
    ((_, ours),) = send(client, "GET", path).json.items()
    newest = {"OpenStack-API-Version": "compute 2.100"}
    ((_, theirs),) = client.simulate_get(f"/v2.1{path}", headers=newest).json.items()
    ours, theirs = ours.get("absolute", ours), theirs.get("absolute", theirs)
    assert {"id"} >= ours.keys() & theirs.keys()
    assert 5 in (ours.get("volumes"), ours.get("maxTotalVolumes"))


def test_old_names_of_a_volume_and_the_id_of_its_type(client: testing.TestClient, conductor: HttpConductor) -> None:
    volume = {"size": 1, "display_name": "v", "display_description": "d", "volume_type": "7"}
    assert 202 == send(client, "POST", "/volumes", {"volume": volume}).status_code
    wanted = {"size": 1, "name": "v", "description": "d", "volume_type": "fast"}
    assert [("create_volumes", {"request": wanted})] == conductor.writes


def test_a_type_whose_name_is_the_id_of_another(client: testing.TestClient, conductor: HttpConductor) -> None:
    """Clients look up names in the list, and send the id."""
    conductor.answers["list_volume_types"] = [{**FAST, "id": 9, "name": "7"}, FAST]
    for given, meant in (("7", "fast"), ("9", "7"), ("fast", "fast")):
        assert 202 == send(client, "POST", "/volumes", {"volume": {"size": 1, "volume_type": given}}).status_code
        assert meant == conductor.writes[-1][1]["request"]["volume_type"]


def test_a_full_part_has_a_link(client: testing.TestClient) -> None:
    """Also if nothing follows: clients go on until a part is not full."""
    assert "volumes_links" in send(client, "GET", "/volumes?limit=5").json
    assert "volumes_links" not in send(client, "GET", "/volumes?limit=6").json


def test_lists_in_another_order(client: testing.TestClient, conductor: HttpConductor) -> None:
    uuids = [factories.uuid(n) for n in range(10, 15)]
    for query in ("sort_key=id&sort_dir=asc", "sort=id:asc"):
        assert uuids == [each["id"] for each in send(client, "GET", f"/volumes?{query}").json["volumes"]]
    conductor.answers["list_volumes"] = [
        {**VOLUME, "uuid": uuid, "availability_zone": zone}
        for uuid, zone in zip(uuids, ("west", None, "", "east"), strict=False)
    ]
    found = send(client, "GET", "/volumes/detail?sort=availability_zone:asc").json["volumes"]
    assert [None, "", "east", "west"] == [each["availability_zone"] for each in found]
    assert 400 == send(client, "GET", "/volumes?sort=shoe:asc").status_code
    assert 400 == send(client, "GET", "/volumes?sort=id:up").status_code


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("metadata={'env':'test'}", [11]),
        ("metadata={'env':'none'}", []),
        ("bootable=true", [12]),
        ("bootable=false&id=" + factories.uuid(11), [11]),
        ("availability_zone=west", [13]),
        ("user_id=alice&size=2", [14]),
        *((wrong, None) for wrong in ("metadata=env", "metadata={1:2}", "metadata={[]:1}", "bootable=maybe")),
        ("metadata=" + "[" * 3000, None),
        *((unknown, None) for unknown in ("created_at=gt:2026-01-01", "shoe=1")),
    ],
)
def test_filters_of_volumes(
    client: testing.TestClient, conductor: HttpConductor, query: str, found: list[int] | None
) -> None:
    """One that is not known is refused: what follows a list may be the deletion of all that it shows."""
    others = ({}, {"metadata": {"env": "test", "a": "b"}}, {"bootable": True}, {"availability_zone": "west"})
    conductor.answers["list_volumes"] = [
        {**VOLUME, "uuid": factories.uuid(10 + n), **each} for n, each in enumerate((*others, {"size_gb": 2}))
    ]
    answer = send(client, "GET", f"/volumes?{query}")
    assert (200 if found is not None else 400) == answer.status_code
    if found is not None:
        assert [factories.uuid(n) for n in found] == [each["id"] for each in answer.json["volumes"]]


def test_snapshots_have_orders_of_their_own(client: testing.TestClient) -> None:
    """They have no image to boot from, and a key that comes again decides nothing."""
    for query, code in (("sort_key=bootable", 400), ("sort=name,name,id:asc", 200), ("bootable=true", 400)):
        assert code == send(client, "GET", f"/snapshots?{query}").status_code


CHANGES_OF_SERVICES = [
    ("enable", {}, {"disabled": False, "reason": None}),
    ("disable", {}, {"disabled": True, "reason": None}),
    ("disable-log-reason", {"disabled_reason": "old"}, {"disabled": True, "reason": "old"}),
]


@pytest.mark.parametrize(
    ("action", "more", "wanted"), CHANGES_OF_SERVICES, ids=[each[0] for each in CHANGES_OF_SERVICES]
)
def test_a_backend_is_enabled_or_disabled(
    client: testing.TestClient, conductor: HttpConductor, action: str, more: dict[str, str], wanted: dict[str, Any]
) -> None:
    service = {"host": "m@b", "binary": "cinder-volume"}
    answer = send(client, "PUT", f"/os-services/{action}", {**service, **more})
    assert (200, wanted["disabled"]) == (answer.status_code, answer.json["disabled"])
    assert [("update_service", {"host": "m@b", "binary": "fleet-volume", **wanted})] == conductor.writes
    assert 404 == send(client, "PUT", f"/os-services/{action}", {**service, **more, "host": "m@c"}).status_code
    assert 400 == send(client, "PUT", "/os-services/disable-log-reason", service).status_code


@pytest.mark.parametrize(
    ("status", "migration", "migrated", "shown"),
    [
        ("available", None, None, None),
        ("migrating", {"step": "copying"}, False, "copying"),
        ("retyping", {"step": "copying"}, None, "copying"),
        ("retyping", None, True, "success"),
        ("available", {"step": "removing"}, True, "success"),
        ("available", {"step": "removing"}, False, "error"),
        ("in-use", None, True, "success"),
    ],
)
def test_the_status_of_a_migration(
    status: str, migration: dict[str, str] | None, migrated: bool | None, shown: str | None
) -> None:
    """Its step while it lasts, and afterwards how it has ended: what it leaves is removed later."""
    found = {**VOLUME, "status": status, "migration": migration, "migrated": migrated}
    assert shown == views._migration_status(found)


@pytest.mark.parametrize(("host", "code"), [("m@c", 400), ("m@b", 501)])
def test_no_backend_is_frozen(client: testing.TestClient, host: str, code: int) -> None:
    """A backend that is not there is named first."""
    assert [code] * 2 == [
        send(client, "PUT", f"/os-services/{each}", {"host": host}).status_code for each in ("freeze", "thaw")
    ]


@pytest.mark.parametrize(("query", "count"), [("host=m", 1), ("host=m@b", 1), ("host=b", 0), ("host=m@", 0)])
def test_services_of_a_machine_or_a_backend(client: testing.TestClient, query: str, count: int) -> None:
    assert count == len(send(client, "GET", f"/os-services?{query}").json["services"])


def test_pools_services_and_zones(client: testing.TestClient) -> None:
    assert {"pools": [{"name": "m@b#p"}]} == send(client, "GET", "/scheduler-stats/get_pools").json
    (pool,) = send(client, "GET", "/scheduler-stats/get_pools?detail=True").json["pools"]
    assert ("fleet", 1.0) == (pool["capabilities"]["vendor_name"], pool["capabilities"]["free_capacity_gb"])
    (service,) = send(client, "GET", "/os-services").json["services"]
    assert ("cinder-volume", "m@b", "az1") == (service["binary"], service["host"], service["zone"])
    (zone,) = send(client, "GET", "/os-availability-zone").json["availabilityZoneInfo"]
    assert "az1" == zone["zoneName"]


class TestProjects:
    """Users with passwords: alice's project has the volume, bob's has not."""

    @pytest.fixture
    def client(self, conductor: HttpConductor, tmp_path: pathlib.Path, cheap_passwords: None) -> testing.TestClient:
        known, projects = tmp_path / "htpasswd", tmp_path / "projects"
        hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(users.LEAST_COST)).decode()
        known.write_text("".join(f"{name}:{hashed}\n" for name in ("alice", "bob", "ron", "root")))
        known.chmod(0o600)
        projects.write_text(
            "[alice]\nproject=web\n[bob]\nproject=db\n[ron]\nproject=web\nroles=reader\n[root]\nroles=admin\n"
        )
        conf = configuration(api_conf.register_opts)
        for name, value in (("auth_strategy", "http_basic"), ("basic_auth_file", known), ("projects_file", projects)):
            conf.set_override(name, str(value), "api")
        return testing.TestClient(application(conductor, conf))

    @pytest.mark.parametrize(
        ("user", "method", "path", "body", "code"),
        [
            ("alice", "GET", f"/volumes/{UUID}", None, 200),
            ("ron", "GET", f"/volumes/{UUID}", None, 200),
            ("bob", "GET", f"/volumes/{UUID}", None, 404),
            ("root", "GET", f"/volumes/{UUID}", None, 200),
            ("bob", "DELETE", f"/volumes/{UUID}", None, 404),
            ("bob", "POST", f"/volumes/{UUID}/action", {"os-extend": {"new_size": 2}}, 404),
            ("ron", "POST", f"/volumes/{UUID}/action", {"os-extend": {"new_size": 2}}, 403),
            ("ron", "POST", "/volumes", {"volume": {"size": 1}}, 403),
            ("alice", "POST", f"/volumes/{UUID}/action", {"os-migrate_volume": {}}, 403),
            ("bob", "POST", "/volumes", {"volume": {"source_volid": UUID}}, 404),
            ("bob", "POST", "/volumes", {"volume": {"snapshot_id": SNAPSHOT}}, 404),
            ("bob", "POST", "/snapshots", {"snapshot": {"volume_id": UUID}}, 404),
            ("bob", "GET", f"/snapshots/{SNAPSHOT}", None, 404),
            ("bob", "DELETE", f"/snapshots/{SNAPSHOT}", None, 404),
            ("bob", "GET", f"/volumes?marker={UUID}", None, 404),
            ("alice", "GET", "/volumes?all_tenants=1", None, 403),
            ("alice", "GET", "/scheduler-stats/get_pools", None, 403),
            ("alice", "GET", "/os-services", None, 403),
            ("alice", "POST", "/types", {"volume_type": {"name": "x"}}, 403),
        ],
    )
    def test_who_may_do_what(
        self,
        client: testing.TestClient,
        conductor: HttpConductor,
        user: str,
        method: str,
        path: str,
        body: Any,
        code: int,
    ) -> None:
        answer = send(client, method, path, body, **_password(user))
        assert code == answer.status_code, answer.text
        if code >= 400:
            assert [] == conductor.writes

    def test_what_a_project_sees(self, client: testing.TestClient, conductor: HttpConductor) -> None:
        """Its own volumes, without pools; types without extra specs."""
        volume = send(client, "GET", f"/volumes/{UUID}", **_password("alice")).json["volume"]
        assert "os-vol-host-attr:host" not in volume
        send(client, "GET", "/volumes/detail", **_password("bob"))
        assert {"project_id": "db"} == conductor.given("list_volumes", "filters")[-1]
        assert "extra_specs" not in send(client, "GET", "/types/7", **_password("alice")).json["volume_type"]
        assert {"a": "b"} == send(client, "GET", "/types/7", **_password("root")).json["volume_type"]["extra_specs"]


def _password(user: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:secret'.encode()).decode()}"}
