# SPDX-License-Identifier: Apache-2.0
"""Networks over HTTP: what a server asks for and shows, and what the openstack client reads of the Networking API."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Any

import pytest
from falcon import testing

from fleet import errors
from fleet_api.network import selection
from tests import factories
from tests.unit.api.test_server_details import UUID, OneServer
from tests.worlds.http_conductor import named

LAB, STORAGE, PORT = factories.uuid(41), factories.uuid(42), factories.uuid(43)
PLUG = {
    "uuid": PORT, "network": LAB, "name": "lab", "bridge": "br0", "prefix": 24, "address": "192.0.2.10",
    "gateway": "192.0.2.1", "dns": [], "mac": "02:00:00:00:00:01",
}  # fmt: skip
NETWORK = {
    "uuid": LAB, "name": "lab", "bridge": "br0", "subnet": "192.0.2.0/24", "first": "192.0.2.2", "last": "192.0.2.99",
    "gateway": "192.0.2.1", "dns": ["198.51.100.1"], "is_default": True, "projects": [],
    "created_at": "2026-11-22T05:07:38.149Z",
}  # fmt: skip
OTHER = {**NETWORK, "uuid": STORAGE, "name": "storage", "subnet": "10.0.0.0/8", "is_default": False, "projects": ["p"]}
ROOTS = ("/v2.0", "/v2.1")


@pytest.fixture
def conductor() -> OneServer:
    """The server has one address."""
    made = OneServer()
    server = {**made.instance, "interfaces": [PLUG]}
    made.answers |= {
        "list_networks": [NETWORK, OTHER],
        "list_instances": lambda filters, limit: [server] if UUID in filters.get("uuids", [UUID]) else [],
        "show_instance": named({"instance": server, "faults": []}, UUID),
        "create": {"instances": [{"uuid": UUID}]},
        "takes_passwords": False,
    }
    return made


def create(client: testing.TestClient, **server: Any) -> testing.Result:
    body = {"server": {"name": "web", "flavorRef": "f1", "imageRef": "", **server}}
    return client.simulate_post("/v2.1/servers", body=json.dumps(body))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "auto"),
        ({"networks": "auto"}, "auto"),
        ({"networks": []}, "auto"),
        ({"networks": "none"}, "none"),
        ({"networks": [{"uuid": LAB}]}, [{"network": LAB, "address": None}]),
        (
            {"networks": [{"uuid": LAB, "fixed_ip": "192.0.2.9"}, {"uuid": STORAGE}]},
            [{"network": LAB, "address": "192.0.2.9"}, {"network": STORAGE, "address": None}],
        ),
    ],
)
def test_networks_of_a_new_server(
    client: testing.TestClient, conductor: OneServer, given: dict[str, Any], expected: Any
) -> None:
    assert 202 == create(client, **given).status_code
    assert expected == conductor.given("create", "wanted")[0]["networks"]


@pytest.mark.parametrize(
    ("networks", "said"),
    [
        ("lab", "server.networks.word must be 'none' or 'auto'"),
        ([{"fixed_ip": "192.0.2.9"}], "server.networks.uuid is required"),
        ([{"uuid": "lab"}], "must be a UUID"),
        ([{"uuid": LAB, "fixed_ip": "2001:db8::1"}], "must be an IPv4 address"),
        ([{"uuid": LAB, "vlan": 1}], "vlan is not known here"),
    ],
)
def test_what_is_not_possible_is_refused(
    client: testing.TestClient, conductor: OneServer, networks: Any, said: str
) -> None:
    """If it were ignored, the client would not see that nothing was done."""
    answer = create(client, networks=networks)
    assert (400, True, []) == (answer.status_code, said in answer.text, conductor.writes)


@pytest.mark.parametrize(
    ("network", "said"),
    [({"port": PORT}, "A port that is made first"), ({"uuid": LAB, "tag": "nic"}, "A tag of a network")],
)
def test_what_a_fleet_does_not_have(
    client: testing.TestClient, conductor: OneServer, network: dict[str, str], said: str
) -> None:
    answer = create(client, networks=[network])
    assert (501, True, []) == (answer.status_code, said in answer.text, conductor.writes)


@pytest.mark.parametrize(
    ("refusal", "status", "said"),
    [
        (errors.NotFound(kind="Network", name=LAB), 400, "server.networks cannot be used"),
        (errors.Conflict(kind="Network", name="lab", reason="has too few free addresses"), 409, "too few free"),
    ],
)
def test_the_refusals_of_the_conductor(
    client: testing.TestClient, conductor: OneServer, refusal: errors.FleetError, status: int, said: str
) -> None:
    conductor.answers["create"] = refusal
    answer = create(client, networks=[{"uuid": LAB}])
    assert (status, True) == (answer.status_code, said in answer.text)


def test_a_server_shows_its_addresses(client: testing.TestClient) -> None:
    address = {"version": 4, "addr": "192.0.2.10", "OS-EXT-IPS:type": "fixed"}
    addresses = {"lab": [{**address, "OS-EXT-IPS-MAC:mac_addr": "02:00:00:00:00:01"}]}
    assert addresses == client.simulate_get(f"/v2.1/servers/{UUID}").json["server"]["addresses"]
    (listed,) = client.simulate_get("/v2.1/servers/detail").json["servers"]
    assert addresses == listed["addresses"]
    fixed = [{"subnet_id": LAB, "ip_address": "192.0.2.10"}]
    interface = {"port_id": PORT, "net_id": LAB, "mac_addr": "02:00:00:00:00:01", "port_state": "ACTIVE"}
    (there,) = client.simulate_get(f"/v2.1/servers/{UUID}/os-interface").json["interfaceAttachments"]
    assert {**interface, "fixed_ips": fixed} == there


@pytest.mark.parametrize(("ip", "count"), [("192.0.2.10", 1), ("^192", 1), ("2.1$", 0), ("10.0.0.1", 0)])
@pytest.mark.parametrize("path", ["/v2.1/servers", "/v2.1/servers/detail"])
def test_servers_by_address(client: testing.TestClient, path: str, ip: str, count: int) -> None:
    """The parameter is a pattern, as in nova."""
    assert count == len(client.simulate_get(path, params={"ip": ip}).json["servers"])


@pytest.mark.parametrize("root", ROOTS)
def test_networks_are_listed_and_shown(client: testing.TestClient, root: str) -> None:
    """A bridge is not shown: it is the operators'."""
    lab, storage = client.simulate_get(f"{root}/networks").json["networks"]
    assert ("lab", [LAB], True, True, "ACTIVE") == tuple(
        lab[name] for name in ("name", "subnets", "shared", "is_default", "status")
    )
    assert (False, False) == (storage["shared"], storage["is_default"])
    assert "br0" not in json.dumps([lab, storage])
    assert {"network": lab} == client.simulate_get(f"{root}/networks/{LAB}").json
    (subnet, _other) = client.simulate_get(f"{root}/subnets").json["subnets"]
    assert ("192.0.2.0/24", 4, "192.0.2.1", [{"start": "192.0.2.2", "end": "192.0.2.99"}], LAB, False) == tuple(
        subnet[name] for name in ("cidr", "ip_version", "gateway_ip", "allocation_pools", "network_id", "enable_dhcp")
    )
    assert {"subnet": subnet} == client.simulate_get(f"{root}/subnets/{LAB}").json
    for path in (f"networks/{UUID}", "networks/lab", f"subnets/{UUID}", f"ports/{UUID}"):
        assert 404 == client.simulate_get(f"{root}/{path}").status_code


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("name=lab", ["lab"]),
        ("name=lab&name=storage", ["lab", "storage"]),
        ("name=nope", []),
        (f"id={STORAGE}", ["storage"]),
        ("shared=True", ["lab"]),
        ("is_default=false", ["storage"]),
        ("limit=1", ["lab"]),
        (f"marker={LAB}", ["storage"]),
        ("qos_policy_id=7", ["lab", "storage"]),
    ],
)
def test_which_networks(client: testing.TestClient, query: str, expected: list[str]) -> None:
    """A parameter may name several values; one that this cloud does not know chooses nothing."""
    found = client.simulate_get("/v2.0/networks", query_string=query).json["networks"]
    assert expected == [each["name"] for each in found]


def test_fields(client: testing.TestClient) -> None:
    found = client.simulate_get("/v2.0/networks", query_string="fields=id&fields=name").json["networks"]
    assert [{"id": LAB, "name": "lab"}, {"id": STORAGE, "name": "storage"}] == found
    answer = client.simulate_get("/v2.0/networks", query_string="fields=mtu")
    assert (400, True) == (answer.status_code, "fields must be of admin_state_up" in answer.text)


@pytest.mark.parametrize(
    ("query", "count"),
    [("", 1), (f"device_id={UUID}", 1), (f"device_id={LAB}", 0), ("device_id=web", 0), (f"network_id={STORAGE}", 0)],
)
@pytest.mark.parametrize("root", ROOTS)
def test_ports(client: testing.TestClient, root: str, query: str, count: int) -> None:
    found = client.simulate_get(f"{root}/ports", query_string=query).json["ports"]
    assert count == len(found)
    for port in found:
        assert (PORT, LAB, UUID, "compute:nova", "ACTIVE", [{"subnet_id": LAB, "ip_address": "192.0.2.10"}]) == tuple(
            port[name] for name in ("id", "network_id", "device_id", "device_owner", "status", "fixed_ips")
        )
        assert {"port": port} == client.simulate_get(f"{root}/ports/{PORT}").json


@pytest.mark.parametrize(
    ("servers", "ports"),
    [
        ((UUID, LAB), [PORT]),
        ((LAB, UUID), [PORT]),
        (("web", UUID, UUID), [PORT]),
        ((UUID, STORAGE), [PORT, LAB]),
        ((STORAGE, UUID), [LAB, PORT]),
    ],
)
def test_ports_of_several_servers(
    client: testing.TestClient, conductor: OneServer, servers: tuple[str, ...], ports: list[str]
) -> None:
    """One that is not there has none. STORAGE stands for a second server, with the port LAB."""
    first = {**conductor.instance, "interfaces": [PLUG]}
    known = {UUID: first, STORAGE: {**first, "uuid": STORAGE, "interfaces": [{**PLUG, "uuid": LAB}]}}

    conductor.answers["list_instances"] = lambda filters, limit: [
        each for uuid, each in known.items() if uuid in filters["uuids"]
    ]
    query = "&".join(f"device_id={each}" for each in servers)
    found = client.simulate_get("/v2.0/ports", query_string=query).json["ports"]
    assert ports == [each["id"] for each in found]
    # However many are named: a member may name a thousand.
    assert ["list_instances"] == [method for method, _arguments in conductor.asked]


def test_discovery(client: testing.TestClient) -> None:
    (found,) = client.simulate_get("/v2.0").json["versions"]
    assert ("v2.0", "CURRENT") == (found["id"], found["status"])
    assert found["links"][0]["href"].endswith("/v2.0/")


class Counted(list[str]):
    """Values of a parameter, with how often all of them were looked at."""

    looks = 0

    def __iter__(self) -> Iterator[str]:
        self.looks += 1
        return super().__iter__()

    def __contains__(self, value: object) -> bool:
        self.looks += 1
        return super().__contains__(value)


def test_the_values_of_a_request_are_read_once() -> None:
    """A member may name thousands of them: they are not looked through again for each port."""
    given = {"device_id": Counted([UUID.upper(), *map(str, range(100))]), "fields": Counted(["id", "port"])}
    request: Any = types.SimpleNamespace(get_param_as_list=given.get, get_param=lambda _name: None)
    ports = [{"id": str(number), "device_id": UUID, "name": ""} for number in range(50)]
    found = selection.chosen(request, ports, ["device_id"])
    assert [{"id": str(number)} for number in range(50)] == found
    assert [1, 1] == [each.looks for each in given.values()]
