# SPDX-License-Identifier: Apache-2.0
"""Many clients of fleet-api at once, while a conductor is killed: each POST has its server, and none has two.

``FLEET_LOAD_POSTS`` is how many servers each client asks for; 2 by default. With 60, the test takes minutes.
"""

from __future__ import annotations

import collections
import os
import threading
import time
from concurrent import futures

import pytest
import requests

from tests.amqp.daemons import Trio, delete_service, eventually
from tests.amqp.test_api import Api, api, flavor

__all__ = ["api", "flavor"]

CLIENTS = 200
POSTS = int(os.environ.get("FLEET_LOAD_POSTS", "2"))
#: Answers besides success that a client may get: no conductor answered in time.
CLEAR = {"503", "ReadTimeout", "ConnectionError"}
_PATIENCE_S = 300
#: Instances that one call deletes.
_PART = 50


class Crowd:
    """``servers`` are the ids by name, ``seen`` how often each answer came."""

    def __init__(self, url: str, flavor: str) -> None:
        self._url = f"{url}/v2.1/servers"
        self._flavor = flavor
        self._lock = threading.Lock()
        self.servers: dict[str, str] = {}
        self.seen: collections.Counter[str] = collections.Counter()

    def client(self, number: int) -> None:
        with requests.Session() as session:
            for post in range(POSTS):
                self._create(session, f"load-{number}-{post}")

    def _create(self, session: requests.Session, name: str) -> None:
        """Ask until it is accepted, always with the same key, as a careful client does."""
        body = {"server": {"name": name, "flavorRef": self._flavor, "networks": "none"}}
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            try:
                answer = session.post(self._url, json=body, headers={"Idempotency-Key": name}, timeout=30)
                said = str(answer.status_code)
            except requests.RequestException as failure:
                said = type(failure).__name__
            with self._lock:
                self.seen[said] += 1
                if said == "202":
                    self.servers[name] = answer.json()["server"]["id"]
                    return
            time.sleep(0.5)
        raise AssertionError(f"{name} was not accepted; the last answer was {said}")


@pytest.mark.long
def test_two_hundred_clients(trio: Trio, api: Api, flavor: str) -> None:
    second = trio.directory / "second.conf"
    second.write_text("[DEFAULT]\nhost = second\n")
    trio.start("second", "fleet-conductor", "--config-file", str(second))
    eventually(lambda: ("second", "up") in [(each["host"], each["state"]) for each in trio.operator("list_services")])
    crowd = Crowd(api.url, flavor)
    try:
        with futures.ThreadPoolExecutor(CLIENTS) as threads:
            clients = [threads.submit(crowd.client, number) for number in range(CLIENTS)]
            eventually(lambda: len(crowd.servers) >= CLIENTS // 2)
            accepted = len(crowd.servers)
            trio.kill("conductor")
            assert accepted < CLIENTS * POSTS, "all was over before the kill"
            eventually(lambda: len(crowd.servers) >= CLIENTS)  # the second one alone
            trio.restart("conductor")
            for each in clients:
                each.result()
    finally:
        trio.stop("second")
        trio.forget("second")
    # It is up until it was silent for service_down_time.
    delete_service(trio, "second", "fleet-conductor")
    print(f"answers: {dict(crowd.seen)}")
    assert crowd.seen.keys() <= {"202", *CLEAR}
    assert CLIENTS * POSTS == crowd.seen["202"] == len(crowd.servers)

    listed = trio.operator("list_instances", filters={})
    made = [(each["name"], each["uuid"]) for each in listed if each["name"].startswith("load-")]
    assert sorted(crowd.servers.items()) == sorted(made)
    ended = _ended(trio, {uuid for _, uuid in made})
    print(f"ended: {dict(ended)}")
    failed = [uuid for _, uuid in made if trio.state(uuid) == "error"] if ended["error"] else []
    faults = [trio.show(uuid)["faults"][-1]["message"] for uuid in failed]
    print(collections.Counter(message[:100] for message in faults))
    assert CLIENTS * POSTS == ended["active"] + len(failed)
    for start in range(0, len(made), _PART):
        trio.terminate([uuid for _, uuid in made[start : start + _PART]])


def _ended(trio: Trio, wanted: set[str]) -> collections.Counter[str]:
    def states() -> collections.Counter[str] | None:
        found = collections.Counter(
            each["vm_state"] for each in trio.operator("list_instances", filters={}) if each["uuid"] in wanted
        )
        return found if not found["building"] else None

    found: collections.Counter[str] = eventually(states, timeout_s=_PATIENCE_S)
    return found
