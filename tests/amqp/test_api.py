# SPDX-License-Identifier: Apache-2.0
"""``fleet-api`` before the trio: what any HTTP client sees. ``test_openstack_client`` has the real client."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.amqp.daemons import Trio, eventually
from tests.api_document import ApiDocument

COMPUTE = {"OpenStack-API-Version": "compute 2.100"}


class Api:
    """The API at ``url``. Its answers are those that the document of the API says."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._document = ApiDocument()

    def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, code: int = 200
    ) -> Any:
        answer = requests.request(
            method, f"{self.url}{path}", json=body, headers={**COMPUTE, **(headers or {})}, timeout=60
        )
        assert code == answer.status_code, answer.text
        body = answer.json() if answer.content else None
        template = self._document.template(path.partition("?")[0])
        assert template is not None
        assert [] == self._document.mistakes(method, template, code, body)
        return body

    def boot(self, name: str, flavor: str, hints: dict[str, Any] | None = None, **server: Any) -> str:
        body = {"server": {"name": name, "flavorRef": flavor, "networks": "none", **server}}
        found = self("POST", "/v2.1/servers", {**body, "OS-SCH-HNT:scheduler_hints": hints or {}}, code=202)
        return found["server"]["id"]

    def settled(self, server: str) -> dict[str, Any]:
        def look() -> Any:
            found = self("GET", f"/v2.1/servers/{server}")["server"]
            return found["status"] != "BUILD" and found

        return eventually(look)


@pytest.fixture(scope="module")
def api(trio: Trio) -> Iterator[Api]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    path = trio.directory / "api.conf"
    path.write_text(f"[api]\nport = {port}\n")
    trio.start("api", "fleet-api", "--config-file", str(path))
    made = Api(f"http://127.0.0.1:{port}")
    eventually(lambda: requests.get(made.url, timeout=5).ok, retry_on=OSError)
    yield made
    trio.stop("api")


@pytest.fixture(scope="module")
def flavor(api: Api) -> str:
    made = api("POST", "/v2.1/flavors", {"flavor": {"name": "small", "ram": 512, "vcpus": 1, "disk": 1, "id": "f1"}})
    return made["flavor"]["id"]


def test_the_story(api: Api, flavor: str) -> None:
    """A server on the host of its hint; it is listed, shown and deleted."""
    server = api.boot("web", flavor, {"requested_host": "b2"}, metadata={"a": "1"})
    found = api.settled(server)
    assert ("ACTIVE", "b2", {"a": "1"}, {"requested_host": "b2"}) == (
        found["status"],
        found["OS-EXT-SRV-ATTR:host"],
        found["metadata"],
        found["scheduler_hints"],
    )
    assert [server] == [each["id"] for each in api("GET", "/v2.1/servers/detail?name=^w.b$&host=b2")["servers"]]
    assert [] == api("GET", "/v2.1/servers?status=ERROR")["servers"]
    api("DELETE", f"/v2.1/servers/{server}", code=204)
    eventually(lambda: requests.get(f"{api.url}/v2.1/servers/{server}", timeout=30).status_code == 404)


def test_an_impossible_hint(api: Api, flavor: str) -> None:
    """The fault says why."""
    found = api.settled(api.boot("lost", flavor, {"requested_host": "nowhere"}))
    assert "ERROR" == found["status"]
    assert "POLICY" in found["fault"]["message"]


def test_a_group(api: Api, flavor: str) -> None:
    """Anti-affinity by the hint that clients send."""
    group = api("POST", "/v2.1/os-server-groups", {"server_group": {"name": "apart", "policy": "anti-affinity"}})
    uuid = group["server_group"]["id"]
    servers = [api.boot(f"m{number}", flavor, {"group": uuid}) for number in range(3)]
    shown = [api.settled(server) for server in servers]
    assert 3 == len({each["OS-EXT-SRV-ATTR:host"] for each in shown})
    assert [[uuid]] * 3 == [each["server_groups"] for each in shown]
    assert set(servers) == set(api("GET", f"/v2.1/os-server-groups/{uuid}")["server_group"]["members"])


def test_a_migration_to_a_chosen_host(api: Api, flavor: str) -> None:
    """An unknown host is a mistake in the body."""
    server = api.boot("goes", flavor)
    source = api.settled(server)["OS-EXT-SRV-ATTR:host"]
    target = "a2" if source == "a1" else "a1"
    action = f"/v2.1/servers/{server}/action"
    assert "nowhere" in str(api("POST", action, {"migrate": {"host": "nowhere"}}, code=400))
    api("POST", action, {"migrate": {"host": target}}, code=202)

    def moved() -> Any:
        found = api("GET", f"/v2.1/servers/{server}")["server"]
        return found["status"] == "VERIFY_RESIZE" and found

    assert target == eventually(moved)["OS-EXT-SRV-ATTR:host"]


def test_a_resize(api: Api, flavor: str) -> None:
    api("POST", "/v2.1/flavors", {"flavor": {"name": "large", "ram": 2048, "vcpus": 2, "disk": 2, "id": "f2"}})
    server = api.boot("grows", flavor)
    api.settled(server)
    for action, code in (({"resize": {"flavorRef": "f2"}}, 202), ({"confirmResize": None}, 204)):
        api("POST", f"/v2.1/servers/{server}/action", action, code=code)
        wanted = "VERIFY_RESIZE" if code == 202 else "ACTIVE"
        eventually(lambda wanted=wanted: api("GET", f"/v2.1/servers/{server}")["server"]["status"] == wanted)  # type: ignore[misc]
    assert 2048 == api("GET", f"/v2.1/servers/{server}")["server"]["flavor"]["ram"]


def test_pages(api: Api, flavor: str) -> None:
    """Whoever follows the links sees each server exactly once."""
    made = api(
        "POST",
        "/v2.1/servers",
        {"server": {"name": "n", "flavorRef": flavor, "max_count": 5, "min_count": 5}},
        code=202,
    )
    eventually(lambda: len(api("GET", "/v2.1/servers?status=ACTIVE")["servers"]) == 5)
    found, url = [], "/v2.1/servers?limit=2"
    while url:
        page = api("GET", url)
        found += [each["id"] for each in page["servers"]]
        assert len(page["servers"]) <= 2
        links = [each["href"] for each in page.get("servers_links", ())]
        url = links[0].removeprefix(api.url) if links else ""
    assert made["server"]["id"] in found
    assert 5 == len(found) == len(set(found))


def test_a_repeated_request(api: Api, flavor: str) -> None:
    """With the same Idempotency-Key there is one server."""
    body = {"server": {"name": "once", "flavorRef": flavor}}
    answers = [api("POST", "/v2.1/servers", body, {"Idempotency-Key": "k-1"}, 202) for _ in range(2)]
    assert answers[0]["server"]["id"] == answers[1]["server"]["id"]
    assert 1 == len(api("GET", "/v2.1/servers?name=once")["servers"])


def test_the_command_over_http(trio: Trio, api: Api, flavor: str) -> None:
    """It needs the URL only: its configuration file is empty."""
    nothing = trio.directory / "empty.conf"
    nothing.write_text("[DEFAULT]\n")

    def fleet(*line: str, status: int = 0) -> str:
        done = trio.cli("--config-file", str(nothing), "--url", api.url, *line)
        assert status == done.returncode, done.stdout + done.stderr
        return done.stderr if status else done.stdout

    (made,) = json.loads(fleet("boot", "--flavor", "vcpus=1,memory_mb=64", "--wait", "-f", "json", "far"))
    assert "ACTIVE" == made["status"]
    assert "exists already" in fleet("flavor", "create", "small", "--vcpus", "1", "--memory-mb", "64", status=1)
    assert made["uuid"] in fleet("server", "list", "-f", "json")
    assert "hosts_with_room" in fleet("capacity", "--flavor", "small")
    assert "is deleted" in fleet("server", "delete", "far", "--wait")


def test_without_a_conductor(trio: Trio, api: Api, flavor: str) -> None:
    """Requests fail with 503 and a sentence within 30 s. They succeed again when a conductor runs."""
    trio.stop("conductor")
    began = time.monotonic()
    answer = requests.get(f"{api.url}/v2.1/servers", timeout=60)
    assert 503 == answer.status_code
    assert "conductor" in json.loads(answer.text)["serviceUnavailable"]["message"]
    assert time.monotonic() - began < 30
    trio.restart("conductor")
    eventually(lambda: requests.get(f"{api.url}/v2.1/servers", timeout=60).ok)
