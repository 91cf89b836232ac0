# SPDX-License-Identifier: Apache-2.0
"""Services and hypervisors in versions before their ids were uuids: a number stands for the same one in every list."""

from __future__ import annotations

from typing import Any

import pytest
from falcon import testing

from fleet_api.compute import services
from tests.worlds.http_conductor import HttpConductor

OLD, NEW = ({"OpenStack-API-Version": f"compute {version}"} for version in ("2.52", "2.53"))
HOSTS = ("h1", "h2", "h3")


def service(host: str) -> dict[str, Any]:
    about = {"host": host, "binary": "fleet-compute", "state": "down", "status": "enabled"}
    return {**about, "disabled_reason": None, "forced_down": False, "last_seen_up": None}


def node(host: str) -> dict[str, Any]:
    about = {"host": host, "node": host, "uuid": services.service_id(host, "node"), "state": "up", "status": "enabled"}
    sizes = ("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "free_ram_mb")
    sizes += ("local_gb", "local_gb_used", "free_disk_gb", "running_vms")
    return {**about, "hypervisor_type": "fake", "hypervisor_version": 1, "host_ip": "", **dict.fromkeys(sizes, 0)}


@pytest.fixture
def conductor() -> HttpConductor:
    return HttpConductor(
        list_services=[service(host) for host in HOSTS],
        host_table=[[host, "nova", services.service_id(host, "node")] for host in HOSTS],
        delete_service=None,
        list_hosts=[node(host) for host in HOSTS],
    )


def ids(client: testing.TestClient, query: str = "", headers: dict[str, str] = OLD) -> dict[str, Any]:
    listed = client.simulate_get(f"/v2.1/os-services{query}", headers=headers).json["services"]
    return {each["host"]: each["id"] for each in listed}


def test_the_number_of_a_list_of_one_host_is_its_own(client: testing.TestClient, conductor: HttpConductor) -> None:
    """And not that of the first service of all, which a deletion by the number would remove."""
    (found,) = ids(client, "?host=h3").values()
    assert 204 == client.simulate_delete(f"/v2.1/os-services/{found}", headers=OLD).status_code
    assert ["h3"] == conductor.given("delete_service", "host")


def test_numbers_stay_when_others_have_gone(client: testing.TestClient, conductor: HttpConductor) -> None:
    before = ids(client)
    assert len(HOSTS) == len(set(before.values()))
    assert all(isinstance(each, int) for each in before.values())
    conductor.answers["list_services"] = [service(host) for host in HOSTS[1:]]
    assert {host: before[host] for host in HOSTS[1:]} == ids(client)
    assert 404 == client.simulate_delete(f"/v2.1/os-services/{before['h1']}", headers=OLD).status_code
    assert [] == conductor.given("delete_service", "host")


def test_two_services_of_one_number(
    client: testing.TestClient, conductor: HttpConductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers have 31 bits: none of the two is taken for the other one. Uuids differ."""
    monkeypatch.setattr(services, "number_of", lambda identity: 7)
    assert 409 == client.simulate_delete("/v2.1/os-services/7", headers=OLD).status_code
    assert [] == conductor.given("delete_service", "host")
    assert 204 == client.simulate_delete(f"/v2.1/os-services/{ids(client, headers=NEW)['h2']}", headers=NEW).status_code


def test_numbers_of_hypervisors(client: testing.TestClient, conductor: HttpConductor) -> None:
    """They stay, and the service of one has the number that the list of services shows."""
    listed = client.simulate_get("/v2.1/os-hypervisors/detail", headers=OLD).json["hypervisors"]
    third = listed[2]
    assert ids(client)["h3"] == third["service"]["id"]
    conductor.answers["list_hosts"] = conductor.answers["list_hosts"][1:]
    shown = client.simulate_get(f"/v2.1/os-hypervisors/{third['id']}", headers=OLD).json["hypervisor"]
    assert "h3" == shown["hypervisor_hostname"]
