# SPDX-License-Identifier: Apache-2.0
"""Hours of servers over HTTP: in parts from version 2.40 on. The conductor is a fake."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from falcon import testing

from tests import factories
from tests.worlds.http_conductor import HttpConductor

PATH = "/v2.1/os-simple-tenant-usage"
PERIOD = "start=2026-11-01T00:00:00&end=2026-11-02T00:00:00"
FLAVOR = {"name": "small", "vcpus": 1, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 0}


def server(number: int, project: str, deleted: bool) -> dict[str, Any]:
    times = {
        "launched_at": "2026-11-01T10:00:00.000Z",
        "terminated_at": "2026-11-01T12:00:00.000Z" if deleted else None,
    }
    about = {"uuid": factories.uuid(number), "name": f"s{number}", "project_id": project, "flavor": FLAVOR}
    return {**about, **times, "vm_state": "deleted" if deleted else "active", "task_state": None}


SERVERS = [server(1, "web", True), server(2, "web", False), server(3, "web", False), server(4, "shop", False)]


def list_instances(filters: dict[str, Any], limit: int, marker: str | None = None) -> list[dict[str, Any]]:
    """Of one project or all, live ones or those that were deleted."""
    assert marker is None
    wanted = "deleted" if filters.get("deleted") else "active"
    found = [each for each in SERVERS if each["vm_state"] == wanted]
    return [each for each in found if filters.get("project_id") in (None, each["project_id"])]


@pytest.fixture
def conductor() -> HttpConductor:
    return HttpConductor(list_instances=list_instances)


def get(client: testing.TestClient, url: str, version: str = "2.40") -> Any:
    return client.simulate_get(url, headers={"OpenStack-API-Version": f"compute {version}"})


def test_a_client_that_asks_until_a_part_is_empty_comes_to_an_end(client: testing.TestClient) -> None:
    """Each server is in one part, and the sums are those of the part."""
    found: list[list[str]] = []
    hours: list[float] = []
    marker = ""
    for _asked in range(3):
        shown = get(client, f"{PATH}/web?{PERIOD}&limit=2{marker}").json["tenant_usage"]
        if not shown:
            break
        found.append([each["name"] for each in shown["server_usages"]])
        hours.append(shown["total_hours"])
        marker = f"&marker={shown['server_usages'][-1]['instance_id']}"
    assert [["s1", "s2"], ["s3"]] == found
    assert [2 + 14, 14] == hours


@pytest.mark.parametrize(("path", "key"), [("", "tenant_usages"), ("/web", "tenant_usage")])
def test_links_lead_to_all_parts(client: testing.TestClient, path: str, key: str) -> None:
    """They keep what was asked for."""
    url, names = f"{PATH}{path}?{PERIOD}&detailed=1&limit=1", list[str]()
    while url and len(names) <= len(SERVERS):
        answer = get(client, url).json
        shown = answer[key] if path else answer[key][0]
        names += [each["name"] for each in shown["server_usages"]]
        href = answer.get(f"{key}_links", [{"href": ""}])[0]["href"]
        url = href and "{0.path}?{0.query}".format(urlsplit(href))
    assert (["s1", "s2", "s3"] if path else ["s4", "s1", "s2", "s3"]) == names


def test_an_answer_of_an_older_version_has_all(client: testing.TestClient) -> None:
    """These versions know no parts."""
    answer = get(client, f"{PATH}/web?{PERIOD}&limit=1&marker={factories.uuid(2)}", "2.39").json
    assert 3 == len(answer["tenant_usage"]["server_usages"])
    assert ["tenant_usage"] == list(answer)


def test_a_server_that_is_deleted_meanwhile_counts_once(client: testing.TestClient, conductor: HttpConductor) -> None:
    """It is among the servers that run, and then among those that were deleted: up to its end."""
    both = [server(1, "web", False)], [server(1, "web", True)]
    conductor.answers["list_instances"] = lambda filters, limit: both["deleted" in filters]
    (shown,) = get(client, f"{PATH}?{PERIOD}&detailed=1").json["tenant_usages"]
    assert (["s1"], 2) == ([each["name"] for each in shown["server_usages"]], shown["total_hours"])


def test_a_marker_that_is_no_server_of_the_list(client: testing.TestClient) -> None:
    assert 400 == get(client, f"{PATH}/web?{PERIOD}&marker={factories.uuid(4)}").status_code
