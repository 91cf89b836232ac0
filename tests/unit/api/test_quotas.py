# SPDX-License-Identifier: Apache-2.0
"""Quotas and limits over HTTP. The conductor is a fake."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet import errors
from fleet.objects.quota import NO_LIMITS, RESOURCES, Quota
from tests.unit.api.test_requests import SERVER, FewServers, said


def show_quota(**asked: Any) -> dict[str, Any]:
    limits, used = Quota(cores=8).to_wire(), dict.fromkeys(RESOURCES, 3)
    return {**asked, "limits": limits, "own": {"cores": 8}, "default": NO_LIMITS.to_wire(), "used": used}


@pytest.fixture
def conductor() -> FewServers:
    """Every project has 8 cores and uses 3 of everything."""
    made = FewServers()
    made.answers |= {
        **dict.fromkeys(("set_quota", "delete_quota")),
        "show_quota": show_quota,
        "list_quotas": [{"project_id": "web"}],
    }
    return made


def test_a_quota_set_has_the_names_of_its_version(client) -> None:
    """What is not limited is -1, and the limit of key pairs is always the same. Older versions have more names."""
    newest = client.simulate_get("/v2.1/os-quota-sets/web", headers={"OpenStack-API-Version": "compute 2.57"})
    found = newest.json["quota_set"]
    assert ("web", 8, -1, 500) == tuple(found[name] for name in ("id", "cores", "metadata_items", "key_pairs"))
    assert {"injected_files", "floating_ips"}.isdisjoint(found)
    assert {"injected_files", "floating_ips"} <= client.simulate_get("/v2.1/os-quota-sets/web").json["quota_set"].keys()
    assert {"local_gb", "gigabytes"}.isdisjoint(found)
    defaults = client.simulate_get("/v2.1/os-quota-sets/web/defaults").json["quota_set"]
    assert -1 == defaults["cores"]


@pytest.mark.parametrize("path", ["/os-quota-sets/web/detail", "/os-quota-sets/web?usage=True"])
def test_what_is_used_is_beside_the_limit(client, path) -> None:
    """In the two ways in which clients of servers and of volumes ask for it."""
    found = client.simulate_get(f"/v2.1{path}").json["quota_set"]
    assert {"limit": 8, "in_use": 3, "reserved": 0} == found["cores"]


def test_limits_are_changed_and_removed(client, conductor) -> None:
    """Numbers may be text, as clients send them."""
    body = {"quota_set": {"cores": "8", "ram": 5, "force": True, "tenant_id": "web", "key_pairs": 500}}
    answer = client.simulate_put("/v2.1/os-quota-sets/web", body=json.dumps(body))
    assert (200, 8, False) == (
        answer.status_code,
        answer.json["quota_set"]["cores"],
        "id" in answer.json["quota_set"],
    )
    assert ("set_quota", {"project_id": "web", "limits": {"cores": 8, "ram": 5}}) == conductor.asked[0]
    assert 202 == client.simulate_delete("/v2.1/os-quota-sets/web").status_code
    names = ("instances", "cores", "ram", "local_gb", "server_groups")
    assert ("set_quota", {"project_id": "web", "limits": dict.fromkeys(names)}) == conductor.asked[-1]


def test_a_service_changes_its_own_quotas(client, conductor) -> None:
    answer = client.simulate_put("/v2.1/os-quota-sets/web", body=json.dumps({"quota_set": {"volumes": 1}}))
    assert (400, []) == (answer.status_code, conductor.asked)
    assert 200 == client.simulate_delete("/v3/os-quota-sets/web").status_code
    limits = {"volumes": None, "gigabytes": None}
    assert ("set_quota", {"project_id": "web", "limits": limits}) == conductor.asked[-1]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"key_pairs": 5}, "key_pairs"),
        ({"metadata_items": 5}, "metadata_items"),
        ({"cores": -2}, "cores"),
        ({"ram": "much"}, "ram"),
        ({"ram": True}, "ram must be a whole number from -1 to 2147483647"),
        ({"ram": 2.0}, "ram must be"),
        ({"ram": "1_0"}, "ram"),
        ({"ram": []}, "ram must be"),
    ],
)
def test_a_limit_that_would_not_hold_is_refused(client, conductor, changes, field) -> None:
    """The field is named, and nothing is changed."""
    answer = client.simulate_put("/v2.1/os-quota-sets/web", body=json.dumps({"quota_set": changes}))
    assert (400, True, []) == (answer.status_code, f"quota_set.{field}" in said(answer), conductor.asked)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/v2.1/os-quota-sets/web", "/v3/os-quota-sets/web"])
def test_a_user_has_no_quota(client, conductor, method, path) -> None:
    """The quota of the whole project is neither shown as the user's nor changed."""
    body = json.dumps({"quota_set": {"cores": 8}}) if method == "PUT" else ""
    answer = client.simulate_request(method, path, params={"user_id": "ann"}, body=body)
    assert (501, True, []) == (answer.status_code, "user_id" in said(answer), conductor.asked)
    shown = [client.simulate_get(f"/v2.1/os-quota-sets/web/{each}?user_id=ann") for each in ("detail", "defaults")]
    assert [501, 501] == [each.status_code for each in shown]


def test_limits_and_use(client, conductor) -> None:
    """Of the own project, or of one that the administrator names."""
    found = client.simulate_get("/v2.1/limits").json["limits"]["absolute"]
    names = ("maxTotalCores", "totalCoresUsed", "maxTotalRAMSize", "totalRAMUsed", "maxTotalKeypairs")
    assert (8, 3, -1, 3, 500) == tuple(found[name] for name in names)
    client.simulate_get("/v2.1/limits?tenant_id=web")
    assert ["admin", "web"] == [arguments["project_id"] for _method, arguments in conductor.asked]


def test_a_project_is_its_name(client, conductor) -> None:
    """Clients look it up by name or id before they ask for its quota."""
    assert "web" == client.simulate_get("/v2.1/projects/web").json["project"]["id"]
    (found,) = client.simulate_get("/v2.1/projects?name=web").json["projects"]
    assert ("web", "web") == (found["id"], found["name"])
    assert [] == conductor.asked
    listed = client.simulate_get("/v2.1/projects").json["projects"]
    assert ["admin", "web"] == [each["id"] for each in listed]


def test_a_refusal_for_the_quota_is_403_with_the_numbers(client, conductor) -> None:
    """In the form of every failure."""
    exceeded = [{"resource": "cores", "quota": 8, "used": 7, "asked": 2}]
    conductor.failure = errors.QuotaExceeded(project_id="web", exceeded=exceeded)
    answer = client.simulate_post("/v2.1/servers", body=json.dumps({"server": SERVER}))
    assert (403, 403) == (answer.status_code, answer.json["forbidden"]["code"])
    assert "Quota exceeded in project web: cores (2 requested, 7 of 8 used)" == said(answer)
