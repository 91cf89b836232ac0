# SPDX-License-Identifier: Apache-2.0
"""What tests ask of a cloud: nova's API and placement, over HTTP, and the real client."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

from tests.nova.stand_ins import IMAGE_ID


class Calls:
    """:ivar transcript: the commands of clients, with their output"""

    def __init__(self, api_port: int, placement_port: int) -> None:
        self.api_url = f"http://127.0.0.1:{api_port}/v2.1"
        self._placement_url = f"http://127.0.0.1:{placement_port}"
        self.transcript: list[str] = []

    def run(self, program: str, *words: str, check: bool = True) -> str:
        """Run a program of nova's virtual environment to its end; return its output."""
        raise NotImplementedError

    def openstack(self, *words: str, check: bool = True) -> Any:
        """Run the real client; return its JSON, or its text where it prints none."""
        command = ["--os-cloud", "trial"]
        text = self.run("openstack", *command, "--os-compute-api-version", "2.96", *words, check=check)
        self.transcript.append(f"$ openstack {' '.join(words)}\n{text}")
        try:
            return json.loads(text)
        except ValueError:
            return text

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Call nova's API directly: the client takes a second a command."""
        headers = {"X-Auth-Token": "t", "OpenStack-API-Version": "compute 2.96"}
        return self._http(method, f"{self.api_url}{path}", headers, body)

    def placement(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.36"}
        return self._http(method, f"{self._placement_url}{path}", headers, body)

    def _http(self, method: str, url: str, headers: dict[str, str], body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {**headers, "Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else {}

    def providers(self) -> list[dict[str, Any]]:
        return self.placement("GET", "/resource_providers")["resource_providers"]

    def is_up(self, binary: str, host: str) -> bool:
        """Whether nova's list of services shows one of this kind as up on a host."""
        found = self.api("GET", f"/os-services?binary={binary}&host={host}")["services"]
        return any(each["state"] == "up" for each in found)

    def server(self, number: str) -> dict[str, Any]:
        return self.api("GET", f"/servers/{number}")["server"]

    def servers(self) -> list[dict[str, Any]]:
        return self.api("GET", "/servers/detail?all_tenants=1")["servers"]

    def boot(self, name: str, flavor: str, hints: dict[str, Any] | None = None, **more: Any) -> str:
        server = {"name": name, "flavorRef": flavor, "imageRef": IMAGE_ID, "networks": "none", **more}
        body = {"server": server, "os:scheduler_hints": hints or {}}
        return self.api("POST", "/servers", body)["server"]["id"]

    def settled(self, number: str, limit_s: float = 180) -> dict[str, Any]:
        """Wait until a server is not being worked on any more; return it."""

        def look() -> dict[str, Any] | None:
            found = self.server(number)
            busy = found["OS-EXT-STS:task_state"] or found["status"] in ("BUILD", "REBUILD", "RESIZE", "MIGRATING")
            return None if busy else found

        return eventually(look, limit_s)

    def allocations(self) -> dict[str, dict[str, dict[str, int]]]:
        """Consumer → name of the provider → resources."""
        names = {each["uuid"]: each["name"] for each in self.providers()}
        return {
            consumer: {names[uuid]: each for uuid, each in held.items()} for consumer, held in self.held(names).items()
        }

    def held(self, uuids: Iterable[str] | None = None) -> dict[str, dict[str, dict[str, int]]]:
        """Consumer → uuid of the provider → resources, of these providers or of all."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for uuid in [each["uuid"] for each in self.providers()] if uuids is None else uuids:
            held = self.placement("GET", f"/resource_providers/{uuid}/allocations")["allocations"]
            for consumer, each in held.items():
                found.setdefault(consumer, {})[uuid] = each["resources"]
        return found

    def placed(self) -> dict[str, set[str]]:
        """Server → the hosts that its state says it holds, for servers on a host."""
        return {each["id"]: {each["OS-EXT-SRV-ATTR:host"]} for each in self.servers() if each["OS-EXT-SRV-ATTR:host"]}

    def force_down(self, host: str, is_down: bool) -> None:
        """Tell nova that a host is dead, as a monitor of hosts does; its heartbeats would take minutes to run out."""
        (service,) = self.api("GET", f"/os-services?host={host}&binary=nova-compute")["services"]
        self.api("PUT", f"/os-services/{service['id']}", {"forced_down": is_down})

    def fault(self, number: str) -> str:
        return self.server(number).get("fault", {}).get("message", "")

    def delete_all(self) -> None:
        for each in self.servers():
            self.api("DELETE", f"/servers/{each['id']}")
        eventually(lambda: not self.servers(), 90)


def eventually(look: Callable[[], Any], limit_s: float = 180) -> Any:
    """The first answer that is true."""
    deadline = time.monotonic() + limit_s
    while True:
        problem: Exception | None = None
        try:
            found = look()
        except (OSError, KeyError, ValueError) as failure:
            found, problem = None, failure
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {limit_s} s: {problem!r}"
        time.sleep(0.2)
