# SPDX-License-Identifier: Apache-2.0
"""Volumes on real daemons and real files: made, removed, raced for, and found again after kill -9 of their agent."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest
from oslo_utils import units

from fleet.rpc import server
from tests.amqp.daemons import Trio, eventually

SLOTS, WANTED = 50, 200

_CONFIG = """\
[DEFAULT]
host = disks
enabled_backends = files,few
volume_state_path = {directory}/state
backend_stats_polling_interval = 3
[files]
volume_driver = directory
directory_pools = a:{directory}/a,b:{directory}/b
[few]
volume_driver = fake
# Of 50 GiB each, without over-subscription.
fake_pools = x:25,y:25
max_over_subscription_ratio = 1
"""


class AnyPool:
    """In the place of the schedulers: names every pool of the wanted backend, whether it has room or not."""

    target = oslo_messaging.Target(version="1.0")

    def __init__(self, trio: Trio) -> None:
        self._trio = trio

    def select_backend(
        self, context: Any, request_spec: dict[str, Any], filter_properties: dict[str, Any]
    ) -> list[dict[str, Any]]:
        wanted = filter_properties["scheduler_hints"]["backend"]
        pools = {"files": ("a", "b"), "few": ("x", "y")}[wanted]
        first, *others = ({"host": f"disks@{wanted}", "nodename": pool, "limits": {}} for pool in pools)
        return [{**first, "alternates": others}]


@pytest.fixture(scope="module")
def disks(trio: Trio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """The directory of a volume agent that serves two backends."""
    directory = tmp_path_factory.mktemp("disks")
    config = directory / "volume.conf"
    config.write_text(_CONFIG.format(directory=directory))
    trio.start("disks", "fleet-volume", "--config-file", str(config))
    eventually(lambda: len([each for each in pools(trio).values() if each["state"] == "up"]) == 4)
    yield directory
    trio.forget("disks")


@pytest.fixture(autouse=True)
def any_pool(trio: Trio) -> Iterator[None]:
    served = server.get_server(trio._transport, "volume_scheduler", "tests", [AnyPool(trio)])
    served.start(override_pool_size=4)
    try:
        yield
    finally:
        served.stop()
        served.wait()


def pools(trio: Trio) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in trio.operator("list_pools")}


def create(trio: Trio, backend: str, **request: Any) -> list[str]:
    asked = {"size": 1, "scheduler_hints": {"backend": backend}, **request}
    return [each["uuid"] for each in trio.operator("create_volumes", request=asked)["volumes"]]


def wait_for(trio: Trio, uuids: list[str], *statuses: str, timeout_s: float = 90) -> dict[str, str]:
    """Until each is in one of these statuses; returns them by uuid."""

    def ended() -> dict[str, str] | None:
        listed = trio.operator("list_volumes", filters={"uuids": uuids})
        found = {each["uuid"]: each["status"] for each in listed}
        found |= dict.fromkeys(set(uuids) - found.keys(), "deleted")
        return found if all(status in statuses for status in found.values()) else None

    return eventually(ended, timeout_s=timeout_s)


def delete(trio: Trio, uuids: list[str]) -> None:
    for uuid in uuids:
        trio.operator("delete_volume", name=uuid)
    wait_for(trio, uuids, "deleted")


def stored(directory: pathlib.Path) -> dict[str, int]:
    """Bytes of each file of the pools a and b, by uuid."""
    files = [path for pool in "ab" for path in (directory / pool).iterdir()]
    return {path.name.removeprefix("volume-"): path.stat().st_size for path in files}


@pytest.mark.timeout(180)
def test_volumes_are_files(trio: Trio, disks: pathlib.Path) -> None:
    """A volume is a file of its size; the pool counts it; a deleted volume leaves nothing."""
    made = create(trio, "files", size=3, count=2, name="data")
    assert {"available"} == set(wait_for(trio, made, "available", "error").values())
    assert dict.fromkeys(made, 3 * units.Gi) == stored(disks)
    assert "disks@files#a" == trio.operator("show_volume", name="data-1")["host"]
    pool = pools(trio)["disks@files#a"]
    assert (6, 2) == (pool["allocated_capacity_gb"], pool["total_volumes"])
    eventually(lambda: pools(trio)["disks@files#a"]["capabilities"]["allocated_capacity_gb"] == 6)
    trio.operator("extend_volume", name="data-1", size=5)
    wait_for(trio, made, "available")
    assert [3 * units.Gi, 5 * units.Gi] == sorted(stored(disks).values())
    delete(trio, made)
    assert {} == stored(disks)
    assert 0 == pools(trio)["disks@files#a"]["allocated_capacity_gb"]


@pytest.mark.timeout(300)
def test_200_creates_for_50_slots_give_50(trio: Trio, disks: pathlib.Path) -> None:
    """No gibibyte is promised twice, although the scheduler offers every pool to every volume."""
    made = create(trio, "few", count=WANTED)
    ended = wait_for(trio, made, "available", "error", timeout_s=240)
    assert (SLOTS, WANTED - SLOTS) == tuple(list(ended.values()).count(each) for each in ("available", "error"))
    counted = {name: pools(trio)[f"disks@few#{name}"]["allocated_capacity_gb"] for name in "xy"}
    assert {"x": 25, "y": 25} == counted
    failed = next(uuid for uuid, status in ended.items() if status == "error")
    failure = trio.operator("show_volume", name=failed)["failure"]
    assert "lacks 1 GiB: free 0 of 25, reserved 0 %, over-subscription 1" in failure["message"]
    delete(trio, made)
    assert 0 == sum(each["allocated_capacity_gb"] for each in pools(trio).values())


@pytest.mark.timeout(180)
def test_an_agent_that_was_killed_goes_on(trio: Trio, disks: pathlib.Path) -> None:
    """Volumes that were ordered, and deletions, are finished by the next life of the agent."""
    (kept,) = create(trio, "files", name="kept")
    (going,) = create(trio, "files", name="going")
    wait_for(trio, [kept, going], "available")
    trio.kill("disks")
    trio.operator("delete_volume", name=going)
    (late,) = create(trio, "files", name="late")
    assert {kept, going} == stored(disks).keys()
    trio.restart("disks")
    wait_for(trio, [late], "available")
    wait_for(trio, [going], "deleted")
    assert {kept, late} == stored(disks).keys()
    delete(trio, [kept, late])
