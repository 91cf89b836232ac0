# SPDX-License-Identifier: Apache-2.0
"""What clients send: versions, bodies and parameters, right and wrong. The conductor is a fake."""

from __future__ import annotations

import json
import socket
from typing import Any

import oslo_messaging
import pytest
from falcon import testing

from fleet import errors
from fleet.objects import Flavor, ImageRecord
from fleet_api import conf as api_conf
from fleet_api import main
from fleet_api.own import own
from fleet_api.servers import parts, servers
from tests import factories
from tests.configuration import configuration
from tests.worlds.http_conductor import HttpConductor, named

FLAVOR = Flavor(vcpus=1, memory_mb=512, root_gb=1, name="tiny", flavorid="f1", id=1)
IMAGE = ImageRecord(uuid=factories.uuid(9), name="cirros", location="/c", min_disk=1)
INSTANCE = {"uuid": factories.uuid(1), "project_id": "web", "vm_state": "active", "deleted": False}
SERVER = {"name": "web", "flavorRef": "f1"}


LISTS = "aggregates flavors groups hosts images manageable networks services snapshots volume_types volumes"
POWER = ("stop", "start", "reboot", "suspend", "resume", "lock", "unlock", "shelve", "shelve_offload", "unshelve")


class FewServers(HttpConductor):
    """A conductor with one flavor, one image and a few instances. ``built`` are the requests, each with its token."""

    def __init__(self) -> None:
        super().__init__(
            **dict.fromkeys((f"list_{kind}" for kind in LISTS.split()), []),
            **dict.fromkeys(
                (f"{verb}_instance" for verb in (*POWER, "evacuate", "live_migrate", "resize", "update")), []
            ),
            **dict.fromkeys(("host_table", "reset_state"), []),
            list_zones={},
            show_flavor=named(FLAVOR.to_wire(), "tiny", "f1"),
            show_image=named(IMAGE.to_wire(), "cirros", IMAGE.uuid),
            show_instance=named({"instance": INSTANCE}, INSTANCE["uuid"]),
            **dict.fromkeys(("show_group", "show_key_pair"), named(None)),
            get_console_output="one\r\ntwo\r\nthree",
            list_instances=self._list_instances,
            create=self._create,
            terminate=None,
            takes_passwords=True,
        )
        self.built: list[tuple[dict[str, Any], str | None]] = []
        self.instances: list[dict[str, Any]] = []
        self.warnings: list[str] = []

    def _list_instances(self, limit: int, marker: str | None = None, **_filters: Any) -> list[dict[str, Any]]:
        start = 0 if marker is None else [each["uuid"] for each in self.instances].index(marker) + 1
        return self.instances[start : start + limit]

    def _create(self, wanted: dict[str, Any], token: str | None) -> dict[str, Any]:
        for kind in ("host", "node"):
            if wanted.get(f"requested_{kind}") == "none":
                raise errors.NotFound(kind=kind.capitalize(), name="none")
        if wanted["flavor"] != FLAVOR.flavorid:
            raise errors.NotFound(kind="Flavor", name=wanted["flavor"])
        self.built.append((wanted, token))
        instances = [{"uuid": factories.uuid(1), "name": wanted["name"]}]
        warnings = {"warnings": self.warnings} if self.warnings else {}
        return {"reservation_id": "r-1", "instances": instances, **warnings}


@pytest.fixture
def conductor() -> FewServers:
    return FewServers()


def post(client: testing.TestClient, body: Any, path: str = "/v2.1/servers", **headers: str) -> testing.Result:
    return client.simulate_post(path, body=body if isinstance(body, str) else json.dumps(body), headers=headers)


def said(answer: testing.Result) -> str:
    """The message of a failure, which has one key with its code."""
    ((_kind, failure),) = answer.json.items()
    assert answer.status_code == failure["code"]
    return failure["message"]


def test_the_next_part_of_the_images_has_the_filters_of_the_first(client, conductor) -> None:
    """A client that follows it gets no image that it has not asked for, and no more of them at once."""
    images = [ImageRecord(uuid=factories.uuid(number), name=f"i{number}", location="/i") for number in range(1, 6)]
    conductor.answers["list_images"] = [each.to_wire() for each in images]
    path, names = f"/v2/images?id=in:{images[0].uuid},{images[2].uuid},{images[4].uuid}&limit=1", list[str]()
    while path and len(names) <= len(images):
        answer = client.simulate_get(path).json
        names += [each["name"] for each in answer["images"]]
        path = answer.get("next")
    assert ["i1", "i3", "i5"] == names


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        ({}, "2.1"),
        ({"OpenStack-API-Version": "compute 2.53"}, "2.53"),
        ({"OpenStack-API-Version": "volume 3.0, compute 2.96"}, "2.96"),
        ({"X-OpenStack-Nova-API-Version": "2.60"}, "2.60"),
        ({"OpenStack-API-Version": "compute latest"}, "2.100"),
    ],
)
def test_versions(client, headers, version):
    """As named by either header; 2.1 without. The answer names what was used."""
    answer = client.simulate_get("/v2.1/flavors", headers=headers)
    assert (200, f"compute {version}", version) == (
        answer.status_code,
        answer.headers["OpenStack-API-Version"],
        answer.headers["X-OpenStack-Nova-API-Version"],
    )
    assert answer.headers["X-OpenStack-Request-ID"].startswith("req-")


@pytest.mark.parametrize(
    ("version", "code"),
    [("2.101", 406), ("2.999", 406), ("2.0", 406), ("3.1", 406), ("two", 400), ("2.1.1", 400), ("", 400)],
)
def test_versions_that_are_not_served(client, version, code):
    answer = client.simulate_get("/v2.1/flavors", headers={"OpenStack-API-Version": f"compute {version}"})
    assert code == answer.status_code
    assert "ersion" in said(answer)


def test_discovery_of_a_service_with_a_root_of_its_own(client):
    """As catalogs of OpenStack have it for volumes. Other paths are not below it."""
    for path in ("/volume", "/volume/", "/volume/v3", "/volume/v3/"):
        answer = client.simulate_get(path, headers={"X-Forwarded-Proto": "https", "X-Forwarded-Host": "cloud.example"})
        (found,) = answer.json["versions"]
        assert (300 if "v3" not in path else 200) == answer.status_code
        assert ("v3.0", "https://cloud.example/volume/v3/") == (found["id"], found["links"][0]["href"])
    assert 200 == client.simulate_get("/volume/v3/types").status_code
    for path in ("/volume/v2.1/servers", "/volume/v30/types", "/volumes", "/volume/volume/v3"):
        assert 404 == client.simulate_get(path).status_code


def test_paths_without_versions(client):
    """``/v2`` is version 2.1, whatever version is named; the image API keeps its own path there."""
    assert "v2.0" == client.simulate_get("/").json["versions"][0]["id"]
    shown = client.simulate_get("/v2/").json["version"]
    assert ("v2.0", "SUPPORTED", "") == (shown["id"], shown["status"], shown["version"])
    for version in ("2.53", "2.999"):
        answer = client.simulate_get("/v2/flavors/detail", headers={"OpenStack-API-Version": f"compute {version}"})
        assert (200, "2.1") == (answer.status_code, answer.headers["X-OpenStack-Nova-API-Version"])
    assert "images" in client.simulate_get("/v2/images").json
    assert 404 == client.simulate_get("/v2/nosuch").status_code


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("/v2.1/images", "2.36"),
        (f"/v2.1/images/{IMAGE.uuid}", "2.36"),
        ("/v2.1/os-hypervisors/statistics", "2.88"),
    ],
)
def test_paths_that_nova_has_removed(client, path, end):
    """A client of the image API names no version of compute."""
    major, _, minor = end.partition(".")
    for version, code in ((f"{major}.{int(minor) - 1}", 200), (end, 404), ("2.100", 404)):
        headers = {"OpenStack-API-Version": f"compute {version}"}
        assert code == client.simulate_get(path, headers=headers).status_code
    assert 200 == client.simulate_get(path).status_code
    for gone in ("os-networks", "os-tenant-networks", "os-volumes", "os-snapshots", "os-fping", "os-floating-ips"):
        assert 404 == client.simulate_get(f"/v2.1/{gone}").status_code


def test_discovery(client):
    """Links have the host that was asked, also behind a proxy."""
    for path in ("/", "/v2.1", "/v2.1/"):
        answer = client.simulate_get(path, headers={"X-Forwarded-Proto": "https", "X-Forwarded-Host": "cloud.example"})
        found = answer.json.get("version") or answer.json["versions"][1]
        assert ("2.100", "2.1", "https://cloud.example/v2.1/") == (
            found["version"],
            found["min_version"],
            found["links"][0]["href"],
        )


def test_a_server(client, conductor):
    """Becomes a build request with flavor, image, hints and zone."""
    disk = {"uuid": IMAGE.uuid, "boot_index": 0, "source_type": "image", "destination_type": "local"}
    server = {**SERVER, "imageRef": IMAGE.uuid, "networks": "none", "block_device_mapping_v2": [disk], "min_count": "2"}
    body = {
        "server": {**server, "availability_zone": "az1", "host": "h1", "hypervisor_hostname": "n1"},
        "OS-SCH-HNT:scheduler_hints": {"a": ["1", "2"]},
    }
    answer = post(client, body, **{"Idempotency-Key": "k1"})
    assert (202, factories.uuid(1)) == (answer.status_code, answer.json["server"]["id"])
    assert answer.headers["Location"].endswith(f"/v2.1/servers/{factories.uuid(1)}")
    ((built, token),) = conductor.built
    assert {
        "name": "web",
        "flavor": "f1",
        "min_count": 2,
        "max_count": 2,
        "availability_zone": "az1",
        "requested_host": "h1",
        "requested_node": "n1",
        "scheduler_hints": {"a": ["1", "2"]},
        "metadata": {},
        "networks": "none",
        "image": IMAGE.to_image().to_wire(),
    } == built
    assert "k1" == token


@pytest.mark.parametrize(
    "index", [{}, {"boot_index": -1}, {"boot_index": None}, {"boot_index": "-1", "destination_type": "volume"}]
)
def test_a_server_with_volumes(client, conductor, index):
    """Those that exist, beside the disk from the image."""
    disk = {"uuid": IMAGE.uuid, "boot_index": 0, "source_type": "image", "destination_type": "local"}
    volumes = [
        {"uuid": factories.uuid(7), "source_type": "volume", **index},
        {"uuid": factories.uuid(8), "source_type": "volume", "device_name": "vdd", "delete_on_termination": False},
    ]
    server = {**SERVER, "imageRef": IMAGE.uuid, "block_device_mapping_v2": [disk, *volumes]}
    assert 202 == post(client, {"server": server}).status_code
    ((built, _token),) = conductor.built
    expected = [{"volume_id": factories.uuid(7)}, {"volume_id": factories.uuid(8), "device_name": "vdd"}]
    assert expected == built["block_device_mapping"]


def test_what_no_filter_judges_is_told(client, conductor):
    """The answer has the conductor's sentences beside the server, or beside the reservation; without any, no key."""
    assert "warnings" not in post(client, {"server": SERVER}).json
    conductor.warnings = ["group: no filter judges it"]
    assert conductor.warnings == post(client, {"server": SERVER}).json["warnings"]
    reserved = post(client, {"server": {**SERVER, "return_reservation_id": True}})
    assert {"reservation_id": "r-1", "warnings": conductor.warnings} == reserved.json


def test_a_reservation(client):
    assert {"reservation_id": "r-1"} == post(client, {"server": {**SERVER, "return_reservation_id": True}}).json


_VOLUME = {"source_type": "volume", "uuid": factories.uuid(7)}
BAD_SERVERS = [
    ({}, 400, "name"),
    ({"name": "x"}, 400, "flavorRef"),
    ({**SERVER, "flavorRef": "none"}, 400, "flavorRef"),
    ({**SERVER, "imageRef": "cirros"}, 400, "imageRef"),
    ({**SERVER, "host": "none"}, 400, "server.host cannot be used: Host none"),
    ({**SERVER, "hypervisor_hostname": "none"}, 400, "server.hypervisor_hostname cannot be used: Node none"),
    ({**SERVER, "min_count": 0}, 400, "min_count"),
    ({**SERVER, "max_count": "many"}, 400, "max_count"),
    ({**SERVER, "min_count": True}, 400, "min_count must be a whole number from 1 to 1000"),
    ({**SERVER, "max_count": "1_0"}, 400, "max_count"),
    ({"name": "x", "flavorRef": True}, 400, "flavorRef"),
    ({"name": "x", "flavorRef": 2.0}, 400, "flavorRef"),
    ({**SERVER, "networks": [{"uuid": "n"}]}, 400, "networks"),
    ({**SERVER, "networks": "all"}, 400, "networks"),
    ({**SERVER, "block_device_mapping_v2": [{"source_type": "tape"}]}, 400, "block_device_mapping_v2"),
    ({**SERVER, "metadata": {"a": []}}, 400, "metadata"),
    ({**SERVER, "colour": "red"}, 400, "colour"),
    ({**SERVER, "host": "h1", "availability_zone": "z:h2"}, 400, "server.host may not stand beside"),
    ({**SERVER, "tags": ["a"]}, 400, "tags is known from version 2.52"),
    ({**SERVER, "description": "mine"}, 400, "description is known from version 2.19"),
    ({**SERVER, "key_name": "k"}, 400, "server.key_name"),
    ({**SERVER, "user_data": "x"}, 400, "server.user_data must be base64"),
    ({**SERVER, "user_data": "A" * 65536}, 400, "server.user_data must have at most 65535 characters"),
    ({**SERVER, "security_groups": [{"name": "web"}]}, 501, "security group"),
]


#: Disks of servers, whose form alone is right.
BAD_DISKS = [
    ({"source_type": "volume"}, 400, "block_device_mapping_v2.uuid is required for a volume"),
    ({"uuid": IMAGE.uuid}, 400, "block_device_mapping_v2"),
    ({**_VOLUME, "boot_index": 0}, 400, "boot_index of a volume must be -1 or null"),
    ({**_VOLUME, "destination_type": "local"}, 400, "destination_type of a volume must be volume"),
    ({**_VOLUME, "volume_size": 10}, 400, "volume_size cannot be chosen"),
    ({**_VOLUME, "delete_on_termination": True}, 501, "A volume that is deleted with its server"),
    ({**_VOLUME, "tag": "a"}, 501, "A tag of a volume"),
    ({**_VOLUME, "colour": "red"}, 400, "colour"),
    (
        {"source_type": "blank", "destination_type": "local"},
        400,
        "source_type is blank: swap and ephemeral disks",
    ),
    ({"source_type": "blank", "destination_type": "volume"}, 400, "no volume is made with a server"),
    ({**_VOLUME, "source_type": "snapshot"}, 400, "source_type is snapshot"),
    ({**_VOLUME, "source_type": "image", "destination_type": "volume"}, 400, "source_type is image"),
    (
        {**_VOLUME, "source_type": "image", "destination_type": "local"},
        400,
        "uuid of a local disk must be imageRef",
    ),
]


@pytest.mark.parametrize(
    ("server", "code", "word"),
    BAD_SERVERS + [({**SERVER, "block_device_mapping_v2": [disk]}, code, word) for disk, code, word in BAD_DISKS],
)
def test_servers_that_are_refused(client, conductor, server, code, word):
    """With the field that is wrong, or a sentence on what is not here. Nothing is built."""
    answer = post(client, {"server": server})
    assert code == answer.status_code, answer.text
    assert word in said(answer)
    assert [] == conductor.built


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "null", '"text"', "{}", '{"server": []}', '{"server": {}, "other": 1}', "[" * 5000]
)
def test_bodies_that_make_no_sense(client, conductor, body):
    answer = post(client, body)
    assert 400 == answer.status_code
    assert said(answer)
    assert [] == conductor.built


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v2.1/servers?limit=-1", 400),
        ("/v2.1/servers?limit=many", 400),
        ("/v2.1/servers?name=(", 400),
        ("/v2.1/servers?deleted=perhaps", 400),
        ("/v2.1/servers?deleted=True", 200),
        ("/v2.1/servers?limit=0", 200),
        ("/v2.1/servers/", 404),
        ("/v2.1/", 200),
        ("/v2.1/servers?changes-since=soon", 400),
        ("/v2.1/servers?sort_key=shoe", 400),
        ("/v2.1/flavors?marker=none", 400),
        ("/v2.1/flavors?minRam=x", 400),
        ("/v2.1/servers/web", 404),
        ("/v2.1/flavors/tiny", 404),
        ("/v2.1/images/cirros", 404),
        ("/v2.1/os-networks", 404),
        ("/v2.1/nowhere", 404),
        ("/", 200),
    ],
)
def test_paths(client, path, code):
    answer = client.simulate_get(path)
    assert code == answer.status_code
    assert code == 200 or said(answer)


def test_another_method(client):
    answer = client.simulate_put("/v2.1/flavors", body="{}")
    assert 405 == answer.status_code
    assert "badMethod" in answer.json


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (errors.Conflict(kind="Flavor", name="tiny", reason="exists already"), 409),
        (errors.InvalidInput(field="x", reason="is wrong"), 400),
        (errors.NotSupported(what="It", driver="this"), 501),
        (oslo_messaging.MessagingTimeout("late"), 503),
        (oslo_messaging.MessageDeliveryFailure("nobody"), 503),
        (RuntimeError("<secret>"), 500),
    ],
)
def test_failures_of_the_conductor(client, conductor, failure, code, caplog):
    """Become answers in nova's form, without what only the log may have."""
    conductor.failure = failure
    answer = client.simulate_get("/v2.1/flavors")
    assert code == answer.status_code
    assert "secret" not in said(answer)


def test_pages_of_servers(client, conductor):
    """A filter of the API does not end the list: it asks for more until the page is full."""
    conductor.instances = [_instance(number) for number in range(1, 2500)]
    answer = client.simulate_get("/v2.1/servers?name=7$&limit=100")
    assert 100 == len(answer.json["servers"])
    assert all(each["name"].endswith("7") for each in answer.json["servers"])
    assert f"marker={answer.json['servers'][-1]['id']}" in answer.json["servers_links"][0]["href"]
    everything = client.simulate_get("/v2.1/servers?name=7$").json
    assert (250, False) == (len(everything["servers"]), "servers_links" in everything)


def test_a_sorted_page_reads_no_more_than_it_has(client: testing.TestClient, conductor: FewServers) -> None:
    """The conductor sorts. The marker is a place in its order."""
    conductor.instances = [_instance(number) for number in range(1, 2500)]
    query = "sort_key=display_name&sort_dir=desc&sort_key=uuid&limit=3"
    answer = client.simulate_get(f"/v2.1/servers?{query}").json
    marker = answer["servers"][-1]["id"]
    client.simulate_get(f"/v2.1/servers?{query}&marker={marker}")
    assert [[["name", "desc"], ["uuid", "asc"]]] * 2 == conductor.given("list_instances", "sort")
    assert ([4, 4], [marker]) == (
        conductor.given("list_instances", "limit"),
        conductor.given("list_instances", "marker"),
    )


@pytest.mark.parametrize("key", ["key_name", "display_name"])
def test_an_order_that_no_conductor_has_is_made_here(
    client: testing.TestClient, conductor: FewServers, key: str
) -> None:
    """Its conductors may also be too old to sort."""
    conductor.instances = [{**_instance(number), "key_name": f"k{number}"} for number in range(10, 15)]
    whole = conductor.answers["list_instances"]

    def older(sort: Any = None, **listing: Any) -> Any:
        if sort is not None:
            raise errors.VersionPinned(topic="conductor", method="list_instances", needs="1.25", cap="1.24", pin="auto")
        return whole(**listing)

    conductor.answers["list_instances"] = older
    answer = client.simulate_get(f"/v2.1/servers?sort_key={key}&sort_dir=desc&limit=2").json
    assert [each["uuid"] for each in conductor.instances[:-3:-1]] == [each["id"] for each in answer["servers"]]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        *(("status=active", 1), ("status=ACTIVE&status=ERROR", 2)),
        *(("ip=10.0", 1), ("ip6=fe80", 0), ("ip6=.*0.*", 0)),
        *((unknown, None) for unknown in ("instance_name=1", "config_drive=true", "shoe=1")),
    ],
)
def test_filters_of_servers(client: testing.TestClient, conductor: FewServers, query: str, count: int | None) -> None:
    """One that is not known is refused: what follows a list may be the deletion of all that it shows."""
    there = {"interfaces": [{"address": "10.0.0.1"}]}
    conductor.instances = [{**_instance(1), "vm_state": "error"}, {**_instance(2), "vm_state": "active", **there}]
    answer = client.simulate_get(f"/v2.1/servers?{query}")
    assert (400 if count is None else 200) == answer.status_code
    assert count is None or count == len(answer.json["servers"])


def test_a_marker_that_is_no_server(client: testing.TestClient, conductor: FewServers) -> None:
    """A mistake of the request, in every order."""
    conductor.failure = errors.NotFound(kind="Instance", name="1")
    assert 400 == client.simulate_get("/v2.1/servers?marker=1").status_code


def test_a_part_that_no_answer_has_is_asked_for_in_smaller_ones() -> None:
    """Servers may be larger than those that came before. Another refusal is the caller's."""
    there = [{"uuid": str(number), "text": "x"} for number in range(300)]
    asked: list[int] = []

    def listed(filters: Any, limit: int, marker: str = "-1") -> list[dict[str, str]]:
        asked.append(limit)
        if limit > 30:
            raise errors.InvalidInput(field="limit", reason="must be at most 30 here")
        return there[int(marker) + 1 :][:limit]

    assert there == [each for part in parts.every(listed, {}) for each in part]
    assert [100, 25] == asked[:2]
    with pytest.raises(errors.InvalidInput, match="shoe"):
        parts.of(lambda **_asked: _refuse("shoe"), {}, 100, {})


def _refuse(field: str) -> list[Any]:
    raise errors.InvalidInput(field=field, reason="is unknown")


def test_a_list_of_large_servers_has_pages(
    client: testing.TestClient, conductor: FewServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an answer nor one of the conductor grows with what users have stored: all servers come, in more pages."""
    monkeypatch.setattr(servers, "MOST_BYTES", 50_000)
    monkeypatch.setattr(parts, "_BYTES", 50_000)
    conductor.instances = [
        {**_instance(number), "name": "x" * 200, "image": {"properties": {"a": "x" * 10_000}}}
        for number in range(1, 400)
    ]
    path, listed, pages = "/v2.1/servers", [], 0
    while path:
        answer = client.simulate_get(path)
        assert len(answer.content) < 60_000
        listed += [each["id"] for each in answer.json["servers"]]
        pages += 1
        links = answer.json.get("servers_links")
        path = links[0]["href"].partition("falconframework.org")[2] if links else ""
    assert [each["uuid"] for each in conductor.instances] == listed
    assert pages > 3
    sizes = [asked["limit"] for method, asked in conductor.asked if method == "list_instances"]
    assert {100, 4} == {*sizes[:2]}
    assert 100 == max(sizes)


def _instance(number: int) -> dict[str, Any]:
    return {"uuid": factories.uuid(number), "name": f"web-{number}", "vm_state": "active", "task_state": None}


@pytest.mark.parametrize(
    ("host", "is_right"), [("127.0.0.1", True), ("::1", True), ("0.0.0.0", False), ("192.0.2.1", False)]
)
def test_everybody_is_administrator_on_this_machine_only(host, is_right):
    conf = configuration(api_conf.register_opts)
    conf.set_override("bind_host", host, "api")
    if is_right:
        main.require_loopback(conf)
    else:
        with pytest.raises(errors.ConfigError, match="bind_host"):
            main.require_loopback(conf)


def test_hosts_are_columns_and_rows(client, conductor):
    """As short as ten thousand of them need to be."""
    answer = client.simulate_get("/fleet/v1/hosts")
    assert ([], "host") == (answer.json["rows"], answer.json["columns"][0])
    assert [("host_table", {"columns": [*own.HOST_COLUMNS, "uuid"], "limit": 2000})] == conductor.asked


def test_a_host_of_several_zones_is_listed_in_each(client, conductor):
    rows = [["h1", "east,west", "up", "enabled", "", "u1"], ["h2", "west", "down", "enabled", "", "u2"]]
    conductor.answers["host_table"] = rows
    found = client.simulate_get("/v2.1/os-availability-zone/detail").json["availabilityZoneInfo"]
    assert [("east", ["h1"], True), ("west", ["h1", "h2"], True)] == [
        (each["zoneName"], list(each["hosts"]), each["zoneState"]["available"]) for each in found
    ]


def test_zones_are_listed_without_reading_hosts(client, conductor):
    """Any member may ask, and a fleet may have 100,000 hosts."""
    conductor.answers["list_zones"] = {"east": True, "west": False}
    found = client.simulate_get("/v2.1/os-availability-zone").json["availabilityZoneInfo"]
    assert [("east", True, None), ("west", False, None)] == [
        (each["zoneName"], each["zoneState"]["available"], each["hosts"]) for each in found
    ]
    assert [("list_zones", {})] == conductor.asked


def test_builds_are_listed_newest_first(client, conductor):
    """Bounded, whatever the client wants."""
    client.simulate_get("/fleet/v1/builds?limit=99999&vm_state=error")
    expected = {"filters": {"vm_state": "error"}, "limit": 500, "newest_first": True}
    assert [("list_instances", expected)] == conductor.asked


@pytest.mark.parametrize("what", ["explain", "capacity"])
@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("", "object"),
        ("[]", "object"),
        ({}, "body.request"),
        ({"request": "f1"}, "body.request"),
        ({"request": {}, "best": -1}, "body.best"),
        ({"request": {}, "group_by": "planet"}, "body.group_by"),
        ({"request": {}, "colour": "red"}, "body.colour"),
    ],
)
def test_questions_that_make_no_sense(client, conductor, what, body, word):
    answer = post(client, body, f"/fleet/v1/{what}")
    assert 400 == answer.status_code
    assert word in said(answer)
    assert [] == conductor.asked


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 202),
        ({"Origin": "http://falconframework.org", "Sec-Fetch-Site": "same-origin"}, 202),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_a_page_of_another_site_cannot_boot(client, conductor, headers, code):
    """A browser sends such a request with the rights of whoever looks at that page."""
    answer = post(client, {"server": SERVER}, **headers)
    assert code == answer.status_code
    assert (code == 202) == bool(conductor.built)
    assert 200 == client.simulate_get("/v2.1/flavors", headers=headers).status_code


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:8774", 200),
        ("[::1]:8774", 200),
        ("localhost:8774", 200),
        (socket.gethostname(), 200),
        ("FalconFramework.org", 200),
        ("evil.example:8774", 403),
        ("127.0.0.1.evil.example", 403),
    ],
)
def test_a_name_that_another_site_has_given_this_machine(client, host, code):
    """Its pages may read the answers of their own name, so they get none."""
    answer = client.simulate_get("/v2.1/flavors", headers={"Host": host})
    assert code == answer.status_code
    assert (code == 403) == ("host_names" in answer.text)


def test_the_page(client):
    """Browsers are led to it; it has a policy, and no file outside of its directory is served."""
    led = client.simulate_get("/", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (302, True) == (led.status_code, led.headers["Location"].endswith("/ui/"))
    page = client.simulate_get("/ui/")
    assert (200, True) == (page.status_code, "app.js" in page.text)
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert "javascript" in client.simulate_get("/ui/app.js").headers["Content-Type"]
    for path in ("/ui/../main.py", "/ui/%2e%2e/main.py", "/ui//etc/passwd"):
        assert "import" not in client.simulate_get(path).text.replace('type="module"', "")


@pytest.mark.parametrize(
    ("action", "asked"),
    [
        ({"os-stop": None}, ("stop_instance", {})),
        ({"os-start": None}, ("start_instance", {})),
        ({"reboot": {"type": "SOFT"}}, ("reboot_instance", {})),
        ({"suspend": None}, ("suspend_instance", {})),
        ({"resume": None}, ("resume_instance", {})),
        ({"lock": None}, ("lock_instance", {})),
        ({"lock": {"locked_reason": "ignored before 2.73"}}, ("lock_instance", {})),
        ({"unlock": None}, ("unlock_instance", {})),
        ({"shelve": None}, ("shelve_instance", {})),
        ({"unshelve": None}, ("unshelve_instance", {})),
        ({"unshelve": {"availability_zone": "ignored before 2.77"}}, ("unshelve_instance", {})),
        ({"shelveOffload": None}, ("shelve_offload_instance", {})),
        ({"os-resetState": {"state": "active"}}, ("reset_state", {"state": "active"})),
        ({"reboot": {"type": "Hard"}}, ("reboot_instance", {"hard": True})),
        ({"os-migrateLive": {"host": None, "block_migration": "auto"}}, ("live_migrate_instance", {})),
        (
            {"os-migrateLive": {"host": "h2", "block_migration": True, "disk_over_commit": False}},
            ("live_migrate_instance", {"host": "h2"}),
        ),
    ],
)
def test_power_actions(client, conductor, action, asked):
    answer = post(client, action, f"/v2.1/servers/{INSTANCE['uuid']}/action")
    assert (202, b"") == (answer.status_code, answer.content)
    method, options = asked
    assert (method, {"name": INSTANCE["uuid"], **options}) == conductor.asked[-1]


@pytest.mark.parametrize(
    ("wanted", "asked"),
    [
        (None, {}),
        ({}, {}),
        ({"host": "h2", "force": False}, {"host": "h2"}),
        ({"onSharedStorage": False, "adminPass": "of an older client"}, {}),
    ],
)
def test_an_evacuation(client, conductor, wanted, asked):
    answer = post(client, {"evacuate": wanted}, f"/v2.1/servers/{INSTANCE['uuid']}/action")
    assert (200, {}) == (answer.status_code, answer.json)
    assert ("evacuate_instance", {"name": INSTANCE["uuid"], **asked}) == conductor.asked[-1]


@pytest.mark.parametrize(
    ("action", "named"),
    [
        ({"evacuate": {"onSharedStorage": True}}, "evacuate.onSharedStorage must be false or left out"),
        ({"evacuate": {"onSharedStorage": "True"}}, "evacuate.onSharedStorage must be"),
        ({"evacuate": {"host": "h2", "force": True}}, "evacuate.force must be"),
        ({"evacuate": {"targetState": "active"}}, "evacuate.targetState is not known here"),
        ({"migrate": {"force": True}}, "migrate.force is not known here"),
    ],
)
def test_moves_that_are_refused(client, conductor, action, named):
    """A key that would be ignored, such as an order to keep the disk, is refused before anything is done."""
    answer = post(client, action, f"/v2.1/servers/{INSTANCE['uuid']}/action")
    assert (400, True) == (answer.status_code, named in answer.json["badRequest"]["message"]), answer.text
    assert ["show_instance"] == [method for method, _arguments in conductor.asked]


def test_deletions_are_final(client, conductor):
    """So nothing is restored, and a forced deletion is one as all others."""
    path = f"/v2.1/servers/{INSTANCE['uuid']}/action"
    assert 409 == post(client, {"restore": None}, path).status_code
    assert 202 == post(client, {"forceDelete": None}, path).status_code
    assert [INSTANCE["uuid"]] == conductor.given("terminate", "uuid")


@pytest.mark.parametrize(("given", "kept"), [({}, None), ({"OS-DCF:diskConfig": "AUTO"}, "AUTO")])
def test_the_disk_config_of_a_client_is_kept(client, conductor, given, kept):
    """At create, rebuild, resize and change. The answer to create has it."""
    answer = post(client, {"server": {**SERVER, **given}})
    assert (kept or "MANUAL") == answer.json["server"]["OS-DCF:diskConfig"]
    assert kept == conductor.built[0][0].get("disk_config")
    post(client, {"resize": {"flavorRef": "f1", **given}}, f"/v2.1/servers/{INSTANCE['uuid']}/action")
    client.simulate_put(f"/v2.1/servers/{INSTANCE['uuid']}", body=json.dumps({"server": given}))
    changes = [arguments["changes"] for method, arguments in conductor.asked if method == "update_instance"]
    assert ([{"disk_config": kept}] * 2 if kept else []) == changes
    assert 400 == post(client, {"server": {**SERVER, "OS-DCF:diskConfig": "auto"}}).status_code


def test_a_server_with_a_password(client, conductor):
    """The one that is sent, or a new one; the answer has it. A request that may be repeated gets none that was not sent."""
    answers = [post(client, {"server": {**SERVER, **given}}) for given in ({}, {}, {"adminPass": "mine"})]
    passwords = [answer.json["server"]["adminPass"] for answer in answers]
    assert (passwords, "mine") == ([wanted["admin_password"] for wanted, _token in conductor.built], passwords[2])
    assert ([12, 12], 3) == ([len(each) for each in passwords[:2]], len(set(passwords)))
    repeatable = post(client, {"server": SERVER}, **{"Idempotency-Key": "k"})
    assert "adminPass" not in repeatable.json["server"]
    assert "admin_password" not in conductor.built[-1][0]


def test_no_passwords(conductor):
    """With enable_instance_password = false those of requests are set, and no answer has one."""
    conf = configuration(api_conf.register_opts)
    conf.set_override("host_names", ["falconframework.org"], group="api")
    conf.set_override("enable_instance_password", False, group="api")
    client = testing.TestClient(main.application(conductor, conf))
    for given in ({}, {"adminPass": "mine"}):
        assert "adminPass" not in post(client, {"server": {**SERVER, **given}}).json["server"]
    assert [None, "mine"] == [wanted.get("admin_password") for wanted, _token in conductor.built]


def test_a_server_with_addresses_and_a_host_name(client, conductor):
    """The host name is known from version 2.90 on."""
    given = {"accessIPv4": "192.0.2.1", "accessIPv6": "2001:DB8::1", "hostname": "db.example"}
    headers = {"OpenStack-API-Version": "compute 2.90"}
    assert 202 == post(client, {"server": {**SERVER, **given}}, **headers).status_code
    ((wanted, _token),) = conductor.built
    expected = {"access_ip_v4": "192.0.2.1", "access_ip_v6": "2001:db8::1", "hostname": "db.example"}
    assert expected == {name: wanted[name] for name in expected}
    assert 400 == post(client, {"server": {**SERVER, **given}}).status_code


V273 = {"OpenStack-API-Version": "compute 2.73"}


@pytest.mark.parametrize(
    ("version", "given", "asked"),
    [
        ("2.77", {"availability_zone": "az1"}, {"availability_zone": "az1"}),
        ("2.91", {"availability_zone": None, "host": "h1"}, {"availability_zone": "", "host": "h1"}),
        ("2.90", {"host": "h1"}, None),
        ("2.91", {"zone": "az1"}, None),
        ("2.91", {"availability_zone": ""}, None),
    ],
)
def test_where_a_server_is_unshelved(client, conductor, version, given, asked):
    """A zone from version 2.77 on, null being any; a host from 2.91 on."""
    headers = {"OpenStack-API-Version": f"compute {version}"}
    answer = post(client, {"unshelve": given}, f"/v2.1/servers/{INSTANCE['uuid']}/action", **headers)
    assert (202 if asked is not None else 400) == answer.status_code, answer.text
    if asked is not None:
        assert ("unshelve_instance", {"name": INSTANCE["uuid"], **asked}) == conductor.asked[-1]


def test_a_lock_has_a_reason(client, conductor):
    """From version 2.73 on, at most 255 characters."""
    path = f"/v2.1/servers/{INSTANCE['uuid']}/action"
    assert 202 == post(client, {"lock": {"locked_reason": "why"}}, path, **V273).status_code
    assert ("lock_instance", {"name": INSTANCE["uuid"], "reason": "why"}) == conductor.asked[-1]
    for wrong in ("", "x" * 256, 5):
        assert 400 == post(client, {"lock": {"locked_reason": wrong}}, path, **V273).status_code


@pytest.mark.parametrize("wanted", [None, {}, {"state": "stopped"}, {"state": "active", "why": "x"}])
def test_states_that_cannot_be_set(client, conductor, wanted):
    answer = post(client, {"os-resetState": wanted}, f"/v2.1/servers/{INSTANCE['uuid']}/action")
    assert 400 == answer.status_code


@pytest.mark.parametrize(
    ("wanted", "output"),
    [
        (None, "one\r\ntwo\r\nthree"),
        ({"length": -1}, "one\r\ntwo\r\nthree"),
        ({"length": "2"}, "two\r\nthree"),
        ({"length": 9}, "one\r\ntwo\r\nthree"),
        ({"length": 0}, ""),
    ],
)
def test_a_console(client, wanted, output):
    """All lines, or as many as are asked for, as a number or as text."""
    answer = post(client, {"os-getConsoleOutput": wanted}, f"/v2.1/servers/{INSTANCE['uuid']}/action")
    assert (200, {"output": output}) == (answer.status_code, answer.json)


@pytest.mark.parametrize(
    "wanted", [{"length": "all"}, {"length": -2}, {"length": True}, {"length": "+1"}, {"lines": 1}, 5]
)
def test_a_console_that_is_refused(client, wanted):
    answer = post(client, {"os-getConsoleOutput": wanted}, f"/v2.1/servers/{INSTANCE['uuid']}/action")
    assert 400 == answer.status_code


@pytest.mark.parametrize("action", [{"reboot": None}, {"reboot": {}}, {"reboot": {"type": "WARM"}}, {"os-stop": "now"}])
def test_power_actions_that_are_refused(client, conductor, action):
    answer = post(client, action, f"/v2.1/servers/{INSTANCE['uuid']}/action")
    assert 400 == answer.status_code
    assert ["show_instance"] == [method for method, _arguments in conductor.asked]


@pytest.mark.parametrize(
    "path",
    [
        "/v2.1/servers?limit=" + "9" * 5000,
        "/v2.1/flavors?limit=" + "0" * 5000,
        "/v2.1/servers?name=(((",
        "/v2.1/servers?name=" + "a" * 256,
        "/v2.1/servers?name=a%00b",
        "/v2.1/servers?host=%1b[31m",
        "/v2.1/servers?a%00=b",
        "/v2.1/servers/%00",
        "/fleet/v1/trace/a%0ab",
        "/v2.1/servers?marker=%00",
    ],
)
def test_a_path_that_no_client_sends_is_a_mistake(client: testing.TestClient, path: str) -> None:
    """Of the sender's: code 400, nothing is asked, and no traceback is logged."""
    assert 400 == client.simulate_get(path).status_code


@pytest.mark.parametrize(
    "host", ["localhost:99@evil", "localhost:x", "localhost:99999", "a b", "", "[::1", "[::1]:8774:1", "h\u00e9"]
)
def test_a_host_that_is_none(client: testing.TestClient, host: str) -> None:
    """Libraries would read it in different ways."""
    assert 400 == client.simulate_get("/v2.1/servers", headers={"Host": host}).status_code


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-Host": 'x"><script>'},
        {"X-Forwarded-Host": "localhost:99@evil"},
        {"X-Forwarded-Host": ""},
        {"X-Forwarded-Host": "a b, cloud.example"},
        {"X-Forwarded-Proto": "javascript"},
        {"X-Forwarded-Proto": ""},
        {"Forwarded": 'host="a b"'},
        {"Forwarded": "host=cloud.example;proto=ftp"},
    ],
)
def test_a_proxy_that_names_no_host_or_scheme(client: testing.TestClient, headers: dict[str, str]) -> None:
    """Forwarded hosts stand in links of answers, so they must match the pattern of the header Host."""
    assert 400 == client.simulate_get("/", headers=headers).status_code


@pytest.mark.parametrize(
    ("headers", "root"),
    [
        ({"X-Forwarded-Proto": "HTTPS", "X-Forwarded-Host": "cloud.example:8774"}, "https://cloud.example:8774"),
        ({"X-Forwarded-Proto": "https, http", "X-Forwarded-Host": "cloud.example, inner"}, "https://cloud.example"),
        ({"Forwarded": 'host="[::1]:80";proto=https, host=inner'}, "https://[::1]:80"),
        ({"Forwarded": "for=10.0.0.1", "Host": "localhost:1"}, "http://localhost:1"),
    ],
)
def test_links_behind_proxies(client: testing.TestClient, headers: dict[str, str], root: str) -> None:
    """They have what the first proxy was asked for."""
    answer = client.simulate_get("/v2.1", headers=headers)
    assert f"{root}/v2.1/" == answer.json["version"]["links"][0]["href"]


@pytest.mark.parametrize("host", ["localhost", "localhost:8774", "127.0.0.1:1", "[::1]:8774", "[::1]"])
def test_hosts(client: testing.TestClient, host: str) -> None:
    """Names and addresses, with a port or without."""
    assert 200 == client.simulate_get("/v2.1/servers", headers={"Host": host}).status_code


@pytest.mark.parametrize(
    ("hints", "why"),
    [
        ('{"free": 1%s}' % ("0" * 320), "body.os:scheduler_hints.free must be a whole number from -2**63"),
        ('{"free": [1e400]}', "body.os:scheduler_hints.free.0 must be a finite number"),
        ('{"free": NaN}', "body.os:scheduler_hints.free must be a finite number"),
        ('{"free": "\\ud800"}', "must not contain half a surrogate pair"),
        ('{"free": "\\u0000"}', "must not contain a NUL character"),
        ("[" * 100_000, "is nested too deeply"),
        (f'{{"free": {"[" * 70}1{"]" * 70}}}', "is nested too deeply"),
    ],
    ids=["321 digits", "infinite", "NaN", "surrogate", "NUL", "brackets", "depth"],
)
def test_what_cannot_be_stored_is_named(
    client: testing.TestClient, conductor: FewServers, hints: str, why: str
) -> None:
    """Before the conductor is asked."""
    answer = post(client, f'{{"server": {json.dumps(SERVER)}, "os:scheduler_hints": {hints}}}')
    assert 400 == answer.status_code
    assert why in said(answer)
    assert [] == conductor.built


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v2.1/servers", True),
        ("/v2.1/servers?name=web&status=ACTIVE", True),
        ("/v2.1/servers?flavor=f1", False),
        ("/v2.1/servers?image=i1", False),
        ("/v2.1/servers?tags=a", False),
        ("/v2.1/servers/detail", False),
    ],
)
def test_a_list_asks_for_what_it_shows(client: Any, conductor: FewServers, path: str, expected: bool) -> None:
    """A brief list reads neither requests nor flavors, unless it filters by them."""
    assert 200 == client.simulate_get(path).status_code
    ((_method, asked),) = conductor.asked
    assert expected == asked.get("brief", False)


@pytest.mark.parametrize(("project", "status"), [("0" * 32, 200), ("admin", 200), ("0" * 31, 404), ("G" * 32, 404)])
def test_without_authentication_a_path_may_name_any_project(
    client: testing.TestClient, project: str, status: int
) -> None:
    """As catalogs write them."""
    assert status == client.simulate_get(f"/v2.1/{project}/flavors").status_code
