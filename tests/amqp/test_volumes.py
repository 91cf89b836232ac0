# SPDX-License-Identifier: Apache-2.0
"""Volumes on real daemons and real files: made, removed, raced for, and found again after kill -9 of their agent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_utils import units

from fleet import errors
from fleet.objects import location
from tests.amqp.daemons import Trio, delete_service, eventually
from tests.amqp.openstack_client import runner
from tests.amqp.test_api import Api, api
from tests.invariants import storage
from tests.invariants.ledger import Ledger, open_engine

__all__ = ["api"]

SLOTS, WANTED = 50, 200
BACKENDS = ("files", "more", "few")
#: Begin the names of files that are no volumes, and may be there.
NO_VOLUMES = ("disk", "unmanaged-", ".pool-")
PLACES = ("disks@files#a", "disks@files#b", "disks@more#c")

_CONFIG = """\
[DEFAULT]
host = disks
enabled_backends = files,more,few
volume_state_path = {directory}/state
backend_stats_polling_interval = 3
[files]
volume_driver = directory
directory_pools = a:{directory}/a,b:{directory}/b
[more]
volume_driver = directory
directory_pools = c:{directory}/c
[few]
volume_driver = fake
# Of 50 GiB each, without over-subscription.
fake_pools = x:25,y:25
max_over_subscription_ratio = 1
[failpoints]
enabled = true
file = {directory}/points.json
"""


@pytest.fixture(scope="module")
def disks(trio: Trio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """The directory of a volume agent that serves two backends."""
    directory = tmp_path_factory.mktemp("disks")
    config = directory / "volume.conf"
    config.write_text(_CONFIG.format(directory=directory))
    trio.start("disks", "fleet-volume", "--config-file", str(config))
    eventually(lambda: len([each for each in pools(trio).values() if each["state"] == "up"]) == 5)
    for backend in BACKENDS:
        trio.operator(
            "create_volume_type", volume_type={"name": backend, "extra_specs": {"volume_backend_name": backend}}
        )
    yield directory
    trio.stop("disks")
    for backend in BACKENDS:
        delete_service(trio, f"disks@{backend}", "fleet-volume")
    trio.forget("disks")


@pytest.fixture(autouse=True)
def nothing_left(trio: Trio, disks: pathlib.Path) -> Iterator[None]:
    """Remove what a failed test has left, so that the next ones find an empty directory."""
    yield
    fault(disks, {})
    for kind in ("snapshot", "volume"):
        for each in trio.operator(f"list_{kind}s"):
            with contextlib.suppress(errors.FleetError):
                trio.operator(f"delete_{kind}", name=each["uuid"])
        with contextlib.suppress(AssertionError):
            eventually(lambda kind=kind: not trio.operator(f"list_{kind}s"), timeout_s=30)


def pools(trio: Trio) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in trio.operator("list_pools")}


def create(trio: Trio, backend: str, **request: Any) -> list[str]:
    asked = {"size": 1, "volume_type": backend, **request}
    # With a token, a call that is repeated for want of an answer makes them once.
    made = trio.operator("create_volumes", request=asked, client_token=secrets.token_hex(16))
    return [each["uuid"] for each in made["volumes"]]


def wait_for(trio: Trio, uuids: list[str], *statuses: str, timeout_s: float = 180) -> dict[str, str]:
    """Until each is in one of these statuses; returns them by uuid."""

    def ended() -> dict[str, str] | None:
        listed = trio.operator("list_volumes", filters={"uuids": uuids})
        found = {each["uuid"]: each["status"] for each in listed}
        found |= dict.fromkeys(set(uuids) - found.keys(), "deleted")
        return found if all(status in statuses for status in found.values()) else None

    return eventually(ended, timeout_s=timeout_s)


def fault(directory: pathlib.Path, points: dict[str, dict[str, Any]]) -> None:
    """Set the failpoints of the agent; each may act again."""
    for file in directory.glob("points.json.*"):
        file.unlink()
    (directory / "points.json").write_text(json.dumps(points))


def fired(directory: pathlib.Path, point: str) -> bool:
    return any(point in path.name for path in directory.glob("points.json.*"))


def come_to_rest(trio: Trio, directory: pathlib.Path, timeout_s: float = 120) -> None:
    """Wait until the ledger, the agent and the files agree. The agent's count arrives with its next report."""
    wrong: list[str] = []

    def at_rest() -> bool:
        ledger = Ledger.read(open_engine(trio.database_url))
        there = by_pool(directory)
        wrong[:] = [
            *storage.pools_count_their_volumes(ledger),
            *storage.every_volume_ends_in_time(ledger),
            *storage.snapshots_have_their_volume(ledger),
            *storage.every_volume_is_over(ledger),
            *storage.volumes_are_where_the_ledger_says(ledger, there),
        ]
        return not wrong

    try:
        eventually(at_rest, timeout_s=timeout_s)
    except AssertionError:
        raise AssertionError(wrong) from None


def delete(trio: Trio, uuids: list[str]) -> None:
    for uuid in uuids:
        trio.operator("delete_volume", name=uuid)
    wait_for(trio, uuids, "deleted")


def by_pool(directory: pathlib.Path) -> dict[str, dict[str, int]]:
    """By location and uuid: GiB of each file."""
    return {
        place: {
            path.name.partition("-")[2]: path.stat().st_size // units.Gi
            for path in (directory / location.extract_host(place, "pool")).iterdir()
            if not path.name.startswith(NO_VOLUMES)
        }
        for place in PLACES
    }


def stored(directory: pathlib.Path) -> dict[str, int]:
    """GiB of each file, by uuid."""
    return {uuid: size for files in by_pool(directory).values() for uuid, size in files.items()}


def test_volumes_are_files(trio: Trio, disks: pathlib.Path) -> None:
    """A volume is a file of its size; the pool counts it; a deleted volume leaves nothing."""
    made = create(trio, "files", size=3, count=2, name="data")
    assert {"available"} == set(wait_for(trio, made, "available", "error").values())
    assert dict.fromkeys(made, 3) == stored(disks)
    counted = [each for name, each in pools(trio).items() if name.startswith("disks@files#")]
    assert (6, 2) == tuple(sum(each[what] for each in counted) for what in ("allocated_capacity_gb", "total_volumes"))
    come_to_rest(trio, disks)
    trio.operator("extend_volume", name="data-1", size=5)
    wait_for(trio, made, "available")
    made += create(trio, "files", source="data-1", size=6)
    wait_for(trio, made, "available")
    assert [3, 5, 6] == sorted(stored(disks).values())
    come_to_rest(trio, disks)
    delete(trio, made)
    assert {} == stored(disks)
    come_to_rest(trio, disks)


def test_a_snapshot_is_a_file_until_it_is_deleted(trio: Trio, disks: pathlib.Path) -> None:
    """It holds its volume; a volume that begins with it has its data. The agent dies once at each step."""
    (of,) = create(trio, "files", name="origin")
    wait_for(trio, [of], "available")
    (path,) = disks.glob(f"*/volume-{of}")
    with open(path, "r+b") as file:
        file.write(b"precious")
    points = [f"agent.volume.{when}" for when in ("before", "after")]
    fault(disks, {point: {"action": "exit", "times": 1} for point in points})
    snapshot = trio.operator("create_snapshot", volume="origin", name="kept")["uuid"]
    eventually(lambda: trio.operator("show_snapshot", name="kept")["status"] == "available")
    assert {of: 1, snapshot: 1} == stored(disks)
    come_to_rest(trio, disks)
    with open(path, "r+b") as file:
        file.write(b"spoiled!")
    with pytest.raises(errors.Conflict, match="has 1 snapshot: kept; delete them first"):
        trio.operator("delete_volume", name="origin")
    (restored,) = create(trio, "files", snapshot="kept", size=2)
    wait_for(trio, [restored], "available")
    (copy,) = disks.glob(f"*/volume-{restored}")
    with open(copy, "rb") as file:
        assert (b"precious", 2 * units.Gi) == (file.read(8), copy.stat().st_size)
    trio.operator("delete_snapshot", name="kept")
    # The file goes before the row.
    eventually(lambda: not trio.operator("list_snapshots"))
    assert {of: 1, restored: 2} == stored(disks)
    delete(trio, [of, restored])
    come_to_rest(trio, disks)


def test_a_volume_migrates_with_its_data(trio: Trio, disks: pathlib.Path) -> None:
    """From one pool to the other, with kill -9 of the agent at each step. The source's file and its space are gone then."""
    (uuid,) = create(trio, "files", name="moving", size=2)
    wait_for(trio, [uuid], "available")
    (path,) = disks.glob(f"*/volume-{uuid}")
    with open(path, "r+b") as file:
        file.seek(units.Gi)
        file.write(b"precious")
    other = {"a": "b", "b": "a"}[path.parent.name]
    points = [f"agent.{what}.{when}" for what in ("migrate", "leave") for when in ("before", "after")]
    fault(disks, {point: {"action": "exit", "times": 1} for point in points})
    trio.operator("migrate_volume", name="moving", host=f"disks@files#{other}")
    come_to_rest(trio, disks)
    assert all(fired(disks, point) for point in points)
    shown = trio.operator("show_volume", name="moving")
    assert ("available", f"disks@files#{other}", None) == tuple(shown[each] for each in ("status", "host", "migration"))
    with open(disks / other / path.name, "rb") as file:
        file.seek(units.Gi)
        assert b"precious" == file.read(8)
    assert not path.exists()
    fault(disks, {"agent.migrate.before": {"action": "raise"}})
    trio.operator("migrate_volume", name="moving")
    come_to_rest(trio, disks)
    shown = trio.operator("show_volume", name="moving")
    assert ("available", f"disks@files#{other}") == (shown["status"], shown["host"])
    assert shown["failure"]
    assert {uuid: 2} == stored(disks)
    fault(disks, {})
    delete(trio, [uuid])
    come_to_rest(trio, disks)


@pytest.mark.long
def test_a_file_becomes_a_volume_and_a_file_again(trio: Trio, disks: pathlib.Path) -> None:
    """With kill -9 of the agent at each step. Its bytes stay, and are counted once."""
    path, where = disks / "a" / "disk.raw", {"host": "disks@files#a", "reference": "disk.raw"}
    path.write_bytes(b"precious")
    there = {"pool": where["host"], "reference": "disk.raw", "size_gb": 1, "reason": ""}
    assert [there] == trio.operator("list_manageable", host=where["host"])
    points = [f"agent.{what}.{when}" for what in ("manage", "unmanage") for when in ("before", "after")]
    fault(disks, {point: {"action": "exit", "times": 1} for point in points})
    (made,) = trio.operator("manage_volume", request={**where, "name": "mine", "volume_type": "files"})["volumes"]
    come_to_rest(trio, disks)
    shown = trio.operator("show_volume", name="mine")
    assert ("available", 1, None) == (shown["status"], shown["size_gb"], shown["failure"])
    assert {made["uuid"]: 1} == stored(disks)
    assert (disks / "a" / f"volume-{made['uuid']}").read_bytes()[:9] == b"precious\0"
    assert 1 == pools(trio)["disks@files#a"]["allocated_capacity_gb"]
    trio.operator("manage_volume", request={**where, "name": "again"})
    wait_for(
        trio, [each["uuid"] for each in trio.operator("list_volumes", filters={"name": "again"})], "error_managing"
    )
    assert f"{path} does not exist" in trio.operator("show_volume", name="again")["failure"]["message"]
    for name in ("mine", "again"):
        trio.operator("unmanage_volume", name=name)
    come_to_rest(trio, disks)
    assert ([], {}) == ([point for point in points if not fired(disks, point)], stored(disks))
    (left,) = (disks / "a").glob("[!.]*")
    assert (f"unmanaged-{made['uuid']}", b"precious") == (left.name, left.read_bytes()[:8])
    left.unlink()
    fault(disks, {})


@pytest.mark.long
def test_a_volume_is_retyped_in_place_or_elsewhere(trio: Trio, disks: pathlib.Path) -> None:
    """By the scheduler's decision, with kill -9 of the agent at each step of the change in place."""
    trio.operator("create_volume_type", volume_type={"name": "any", "extra_specs": {}})
    (uuid,) = create(trio, "files", name="plain")
    wait_for(trio, [uuid], "available")
    points = [f"agent.retype.{when}" for when in ("before", "after")]
    fault(disks, {point: {"action": "exit", "times": 1} for point in points})
    trio.operator("retype_volume", name="plain", volume_type="any")
    come_to_rest(trio, disks)
    assert [] == [point for point in points if not fired(disks, point)]
    shown = trio.operator("show_volume", name="plain")
    assert ("any", None) == (shown["volume_type"], shown["failure"])
    fault(disks, {})
    trio.operator("retype_volume", name="plain", volume_type="few")
    come_to_rest(trio, disks)
    shown = trio.operator("show_volume", name="plain")
    assert ("available", "any", True) == (
        *(shown["status"], shown["volume_type"]),
        "migration_policy does not allow a move" in shown["failure"]["message"],
    )
    (path,) = disks.glob(f"*/volume-{uuid}")
    with open(path, "r+b") as file:
        file.write(b"precious")
    points = [f"agent.{what}.{when}" for what in ("migrate", "leave") for when in ("before", "after")]
    fault(disks, {point: {"action": "exit", "times": 1} for point in points})
    trio.operator("retype_volume", name="plain", volume_type="more", migration_policy="on-demand")
    come_to_rest(trio, disks)
    assert [] == [point for point in points if not fired(disks, point)]
    shown = trio.operator("show_volume", name="plain")
    assert ("available", "more", "disks@more#c", None) == (
        *(shown["status"], shown["volume_type"], shown["host"], shown["failure"]),
    )
    with open(disks / "c" / path.name, "rb") as file:
        assert b"precious" == file.read(8)
    assert {uuid: 1} == stored(disks)
    fault(disks, {})
    delete(trio, [uuid])
    trio.operator("delete_volume_type", name="any")


def test_a_volume_begins_with_an_image(trio: Trio, disks: pathlib.Path) -> None:
    """Its bytes are compared with the checksum; wrong ones leave no volume."""
    source = disks / "linux.raw"
    source.write_bytes(b"boot" + bytes(units.Mi))
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    for name, checksum in (("linux", digest), ("spoiled", 64 * "0")):
        record = {"name": name, "location": str(source), "checksum": f"sha256:{checksum}"}
        trio.operator("create_image", image=record)
    (good,) = create(trio, "files", image="linux", size=2)
    (bad,) = create(trio, "files", image="spoiled", size=2)
    assert {good: "available", bad: "error"} == wait_for(trio, [good, bad], "available", "error")
    (path,) = disks.glob(f"*/volume-{good}")
    with open(path, "rb") as file:
        assert (b"boot", 2 * units.Gi) == (file.read(4), path.stat().st_size)
    assert f"has the checksum sha256:{digest}" in trio.operator("show_volume", name=bad)["failure"]["message"]
    come_to_rest(trio, disks)
    delete(trio, [good, bad])
    for name in ("linux", "spoiled"):
        trio.operator("delete_image", name=name)


def test_what_would_become_of_volumes(trio: Trio, disks: pathlib.Path) -> None:
    """whatif decides on a copy: nothing is made, and the pools are as they were. replay makes and deletes volumes."""

    def printed(*argv: str) -> Any:
        done = trio.cli(*argv, "-f", "json")
        assert 0 == done.returncode, done.stderr
        return json.loads(done.stdout)

    uuids = create(trio, "few", size=5, count=3)
    wait_for(trio, uuids, "available")
    before = by_pool(disks)
    sized = ("whatif", "--volume", "10", "--volume-type", "few", "--count", "6")
    rows = {row["figure"]: (row["now"], row["what if"]) for row in printed(*sized, "--ratio", "volume=2")}
    assert ((3, 6), (3, 0)) == (rows["placed"], rows["refused"])
    assert {"CAPACITY": 3} == rows["refused_by_reason"][0]
    assert " lacks " in rows["unplaced"][0][0]
    removed = {row["figure"]: row["what if"] for row in printed("whatif", "--volumes", "--without-host", "disks@few")}
    assert (3, 0, 3) == (removed["volumes"], removed["placed"], removed["pools"])
    trace = disks / "trace.txt"
    trace.write_text("# Made up.\n0 2 few 60\n0 30 few\n300 3 few\n")
    more = printed("whatif", "--volumes", "--trace", str(trace), "--more-hosts", "1", "--like", "disks@few")
    rows = {row["figure"]: (row["now"], row["what if"]) for row in more}
    assert ((2, 2), (5, 7)) == (rows["placed"], rows["pools"])
    assert before == by_pool(disks)
    played = printed("-q", "replay", "--volumes", str(trace), "--delete")
    assert (2, 1, 2, {"30 GiB of type few": 1}) == (
        *(played[name] for name in ("placed", "refused", "deleted")),
        played["refused_by_size"],
    )
    # The refused one is gone as well.
    assert [] == trio.operator("list_volumes", filters={"name": "replay"})
    delete(trio, uuids)


def test_200_creates_for_50_slots_give_50(trio: Trio, disks: pathlib.Path) -> None:
    """No gibibyte is promised twice, and none is left over. The others say why."""
    made = create(trio, "few", count=WANTED)
    ended = wait_for(trio, made, "available", "error", timeout_s=240)
    assert (SLOTS, WANTED - SLOTS) == tuple(list(ended.values()).count(each) for each in ("available", "error"))
    counted = {name: pools(trio)[f"disks@few#{name}"]["allocated_capacity_gb"] for name in "xy"}
    assert {"x": 25, "y": 25} == counted
    failures = {each["failure"]["error"] for each in trio.operator("list_volumes", filters={"status": "error"})}
    assert failures <= {"NoValidHost", "PoolSpaceUnavailable"}
    delete(trio, made)
    assert 0 == sum(each["allocated_capacity_gb"] for each in pools(trio).values())


def test_an_agent_that_was_killed_goes_on(trio: Trio, disks: pathlib.Path) -> None:
    """A volume that it was about to make, and a deletion, are finished by the next life of the agent."""
    (kept,) = create(trio, "files", name="kept")
    (going,) = create(trio, "files", name="going")
    wait_for(trio, [kept, going], "available")
    held = "agent.volume.before"
    fault(disks, {held: {"action": "delay", "seconds": 3600, "times": 1}})
    (late,) = create(trio, "files", name="late")
    eventually(lambda: fired(disks, held))
    trio.kill("disks")
    trio.operator("delete_volume", name=going)
    assert {kept, going} == stored(disks).keys()
    trio.restart("disks")
    wait_for(trio, [late], "available")
    wait_for(trio, [going], "deleted")
    assert {kept, late} == stored(disks).keys()
    delete(trio, [kept, late])


def test_kill_9_at_each_step_of_the_agent(trio: Trio, disks: pathlib.Path) -> None:
    """The worker dies once at each failpoint; the next one goes on. Every volume ends, and files and ledger agree."""
    points = [f"agent.{what}.{when}" for what in ("volume", "extend") for when in ("before", "after")]
    fault(disks, {point: {"action": "exit", "times": 1} for point in points})
    made = create(trio, "files", count=4, name="tough")
    assert {"available"} == set(wait_for(trio, made, "available", "error").values())
    for uuid in made:
        trio.operator("extend_volume", name=uuid, size=2)
    assert {"available"} == set(wait_for(trio, made, "available", "error").values())
    assert dict.fromkeys(made, 2) == stored(disks)
    come_to_rest(trio, disks)
    assert [] == [point for point in points if not fired(disks, point)]
    delete(trio, made)


def test_the_openstack_client(trio: Trio, disks: pathlib.Path, api: Api) -> None:
    """Volumes, snapshots, types and pools, with the client as it is installed; the files are on the disk."""
    known = {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": f"{api.url}/v2.1", "OS_IDENTITY_API_VERSION": "3"}
    openstack = runner({**known, "OS_VOLUME_ENDPOINT_OVERRIDE": f"{api.url}/v3"})
    openstack("volume type create --property volume_backend_name=more mine")
    made = openstack("volume create --size 1 --type mine --property kept=yes first")
    wait_for(trio, [made["id"]], "available")
    openstack("volume set --size 2 first", form="")
    wait_for(trio, [made["id"]], "available")
    shown = openstack("volume show first")
    assert (2, "disks@more#c", {"kept": "yes"}) == (shown["size"], shown["os-vol-host-attr:host"], shown["properties"])
    (file,) = disks.glob(f"c/*{made['id']}*")
    assert 2 * units.Gi == file.stat().st_size
    openstack("volume snapshot create --volume first kept")
    assert "delete them first" in openstack("volume delete first", form="", status=1)
    eventually(lambda: openstack("volume snapshot show kept")["status"] == "available")
    openstack("volume snapshot delete kept", form="")
    eventually(lambda: [] == openstack("volume snapshot list"))
    assert "disks@more#c" in [each["Name"] for each in openstack("volume backend pool list")]
    assert ["first"] == [each["Name"] for each in openstack("volume list --name first")]
    openstack("volume delete first", form="")
    eventually(lambda: [] == openstack("volume list --name first"))
    openstack("volume type delete mine", form="")
    assert "No Volume found" in openstack("volume show first", form="", status=1)


@pytest.mark.long
def test_the_openstack_client_attaches_volumes(trio: Trio, disks: pathlib.Path, api: Api) -> None:
    """The server and the volume show each other, and the deletion of the server gives the volume back."""
    known = {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": f"{api.url}/v2.1", "OS_IDENTITY_API_VERSION": "3"}
    openstack = runner({**known, "OS_VOLUME_ENDPOINT_OVERRIDE": f"{api.url}/v3"})
    trio.cli("image", "create", "with-disks", "--location", "/images/with-disks.raw", "--min-disk", "1")
    openstack("flavor create --ram 512 --disk 1 --vcpus 1 with-disks")
    server = openstack("server create --flavor with-disks --image with-disks --nic none --wait holder")["id"]
    (uuid,) = create(trio, "few", name="data")
    wait_for(trio, [uuid], "available")
    assert "/dev/vdb" in json.dumps(openstack("server add volume holder data"))
    wait_for(trio, [uuid], "in-use")
    (listed,) = openstack("server volume list holder")
    assert (uuid, "/dev/vdb") == (listed["Volume ID"], listed["Device"])
    assert uuid in json.dumps(openstack("server show holder")["volumes_attached"])
    (attached,) = openstack("volume show data")["attachments"]
    assert (server, "/dev/vdb") == (attached["server_id"], attached["device"])
    assert "detach it from its instance first" in openstack("volume delete data", form="", status=1)
    openstack("server remove volume holder data", form="")
    wait_for(trio, [uuid], "available")
    assert [] == openstack("server volume list holder")
    openstack("server delete --wait holder", form="")
    (second,) = create(trio, "few", name="logs")
    wait_for(trio, [second], "available")
    disks_of = f"--block-device uuid={uuid},source_type=volume --block-device-mapping vdd=logs"
    made = openstack(f"server create --flavor with-disks --image with-disks --nic none {disks_of} --wait holder")
    assert "ACTIVE" == made["status"]
    found = {each["Volume ID"]: each["Device"] for each in openstack("server volume list holder")}
    assert {uuid: "/dev/vdb", second: "/dev/vdd"} == found
    wait_for(trio, [uuid, second], "in-use")
    openstack("server delete --wait holder", form="")
    wait_for(trio, [uuid, second], "available")
    delete(trio, [uuid, second])
