# SPDX-License-Identifier: Apache-2.0
"""The columns of hosts and placement's allocation candidates let the same hosts through, in random clouds."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from keystoneauth1 import adapter, session, token_endpoint

from fleet.context import new_context
from fleet.db.nova.database import NovaDatabase
from fleet_trial.private_servers.process import free_ports
from scheduler.nova import decoder
from scheduler.nova.candidates import CandidateQuery
from scheduler.nova.placement import Placement
from tests.factories import NOW, uuid
from tests.functional.nova_schema import Databases
from tests.functional.test_nova_placement import NOVAS_FILTERS, EndpointOverNova
from tests.nova.cloud import HERE, VENV, eventually
from tests.unit.scheduler.nova.recordings import arguments, flavor

_HOSTS = range(1, 11)
_CLOUDS, _REQUESTS = 25, 12
_TRAITS = ("CUSTOM_FAST", "CUSTOM_NEAR")
_CONFIG = """\
[placement_database]
connection = sqlite:///{path}
sync_on_startup = true
[api]
auth_strategy = noauth2
"""


class RealPlacement:
    """A placement of release 16 of its own, on SQLite."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.database = directory / "placement.db"
        (directory / "placement.conf").write_text(_CONFIG.format(path=self.database))
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._session = requests.Session()
        self._session.headers.update({"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.36"})
        program = [str(VENV / "bin/python"), "-W", "ignore", str(HERE / "stand_ins.py"), "wsgi", "placement.wsgi.api"]
        self.process = subprocess.Popen(
            [*program, str(port)],
            env={**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(directory)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(lambda: self.call("GET", "/"))

    def call(self, method: str, path: str, body: Any = None) -> requests.Response:
        found = self._session.request(method, self.url + path, json=body, timeout=60)
        assert found.status_code < 300, f"{method} {path} {body}: {found.text}"
        return found

    def stop(self) -> None:
        self._session.close()
        self.process.kill()
        self.process.wait(60)


@pytest.fixture
def placement(tmp_path: pathlib.Path) -> Iterator[RealPlacement]:
    if not (VENV / "bin/nova-conductor").exists():
        pytest.skip(f"placement is not installed in {VENV}: make nova")
    made = RealPlacement(tmp_path)
    yield made
    made.stop()


def test_columns_and_candidates_agree(placement: RealPlacement, tmp_path: pathlib.Path) -> None:
    chance = random.Random(35)
    nova = Databases(f"sqlite:///{tmp_path}/nova.db")
    nova.create()
    for number in _HOSTS:
        nova.add_host(number, NOW)
    for name in _TRAITS:
        placement.call("PUT", f"/traits/{name}")
    login = session.Session(auth=token_endpoint.Token(placement.url, "admin"))
    ours = Placement(adapter.Adapter(login, service_type="placement", endpoint_override=placement.url))
    database = NovaDatabase(f"sqlite:///{placement.database}", "placement")
    world = EndpointOverNova(nova, database, scheduler_default_filters=NOVAS_FILTERS)
    agreed = 0
    with contextlib.closing(world):
        for _cloud in range(_CLOUDS):
            with _random_cloud(placement, chance):
                world.notes.usage_wanted += 1
                world.later()
                query = CandidateQuery(world.hosts, None)
                for _request in range(_REQUESTS):
                    agreed += _compare(world, ours, query, chance)
    assert agreed > _CLOUDS  # most requests have some hosts, and not all


def _compare(world: EndpointOverNova, placement: Placement, query: CandidateQuery, chance: random.Random) -> bool:
    asked = decoder.decode(_request(chance)).request
    assert asked.wanted is not None
    assert asked.wanted.is_plain
    offered = placement.offers(query.asked(asked)[0].query(None))
    explained = world.driver.explain(new_context(), world.placing.prepared(asked), len(_HOSTS))
    passed = {each["host"] for each in explained["scores"]}
    theirs = {f"cmp{number}" for number in _HOSTS if uuid(100 + number) in offered}
    assert theirs == passed, asked.wanted
    return 0 < len(passed) < len(_HOSTS)


def _request(chance: random.Random) -> dict[str, Any]:
    specs = {f"trait:{name}": chance.choice(["required", "forbidden"]) for name in _TRAITS if chance.random() < 0.3}
    if chance.random() < 0.3:
        specs["resources:DISK_GB"] = chance.choice(["0", "3"])
    wanted = flavor(
        vcpus=chance.choice([1, 2, 3, 8]),
        memory_mb=chance.choice([64, 512, 4096]),
        root_gb=chance.choice([0, 1, 100]),
        swap=chance.choice([0, 1, 1024]),
        extra_specs=specs,
    )
    return arguments(flavor=wanted, scheduler_hints={}, availability_zone=None)


@contextlib.contextmanager
def _random_cloud(placement: RealPlacement, chance: random.Random) -> Iterator[None]:
    """Providers of most hosts, with random inventories, traits and consumers; taken away again."""
    there = [number for number in _HOSTS if chance.random() < 0.9]
    consumers = []
    for number in there:
        provider = f"/resource_providers/{uuid(100 + number)}"
        placement.call("POST", "/resource_providers", {"uuid": uuid(100 + number), "name": f"cmp{number}"})
        inventories = {
            name: _inventory(chance, total) for name, total in (("VCPU", 8), ("MEMORY_MB", 8192), ("DISK_GB", 200))
        }
        if chance.random() < 0.1:
            del inventories["DISK_GB"]
        placement.call(
            "PUT", f"{provider}/inventories", {"resource_provider_generation": 0, "inventories": inventories}
        )
        traits = [name for name in _TRAITS if chance.random() < 0.5]
        traits += ["COMPUTE_STATUS_DISABLED"] * (chance.random() < 0.1)
        placement.call("PUT", f"{provider}/traits", {"resource_provider_generation": 1, "traits": traits})
        if chance.random() < 0.6 and (amounts := _amounts(chance, inventories)):
            consumers.append(uuid(1000 + number))
            allocations = {uuid(100 + number): {"resources": amounts}}
            owner = {"project_id": "p", "user_id": "u", "consumer_generation": None}
            placement.call("PUT", f"/allocations/{consumers[-1]}", {"allocations": allocations, **owner})
    yield
    # SQLite gives the id of a deleted row again if it was the highest; the other engines do not.
    keeper = str(uuid(10_000 + chance.randrange(10**9)))
    placement.call("POST", "/resource_providers", {"uuid": keeper, "name": keeper})
    for consumer in consumers:
        placement.call("DELETE", f"/allocations/{consumer}")
    for number in there:
        placement.call("DELETE", f"/resource_providers/{uuid(100 + number)}")


def _inventory(chance: random.Random, total: int) -> dict[str, Any]:
    return {
        "total": total,
        "reserved": chance.choice([0, 1, total // 2]),
        "allocation_ratio": chance.choice([0.5, 1.0, 1.5, 16.0]),
        "min_unit": chance.choice([1, 1, 1, 2]),
        "max_unit": chance.choice([total, total, total // 2, 2 * total]),
        "step_size": chance.choice([1, 1, 1, 2]),
    }


def _amounts(chance: random.Random, inventories: dict[str, Any]) -> dict[str, int]:
    """Return what fits into the inventories, for a first consumer."""
    found = {}
    for name, each in inventories.items():
        room = min(int((each["total"] - each["reserved"]) * each["allocation_ratio"]), each["max_unit"])
        amount = int(room * chance.choice([0.5, 0.9, 1.0])) // 2 * 2
        if amount >= each["min_unit"]:
            found[name] = amount
    return found
