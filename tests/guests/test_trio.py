# SPDX-License-Identifier: Apache-2.0
"""The trio with real guests: what a user gets, and what is left after kill -9 of the agent at each step of a spawn."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pathlib
import re
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.failpoints import names
from fleet_trial.private_servers import Libvirt
from tests import factories
from tests.amqp.daemons import Trio, eventually, running
from tests.guests.machine import BOOT_S, lines

HOST = "metal"
POINTS = ["agent.spawn.before", *names.LIBVIRT_STEPS, "agent.spawn.after"]
BOOTED = re.compile(r"^GUEST up\r?$", re.MULTILINE)


class Metal:
    """A trio whose only host runs real guests."""

    def __init__(self, trio: Trio, libvirtd: Libvirt, image: pathlib.Path) -> None:
        self.trio = trio
        self.libvirtd = libvirtd
        checksum = f"sha256:{hashlib.sha256(image.read_bytes()).hexdigest()}"
        record = {"name": "tiny", "location": str(image), "checksum": checksum}
        self.image: str = trio.operator("create_image", image=record)["uuid"]

    def boot(self, image: str = "", **request: Any) -> str:
        flavor = {"vcpus": 1, "memory_mb": 128, "root_gb": 1}
        (uuid,) = self.trio.boot(flavor=flavor, image={"id": image or self.image}, **request)
        return uuid

    def console(self, uuid: str, boots: int = 1) -> dict[str, str]:
        """What a guest that has booted has printed."""
        path = self.directory / "guests" / uuid / "console.log"
        eventually(lambda: len(BOOTED.findall(path.read_text(errors="replace"))) >= boots, timeout_s=BOOT_S)
        return dict(lines(path))

    @property
    def points(self) -> pathlib.Path:
        return self.trio.directory / "points.json"

    @property
    def directory(self) -> pathlib.Path:
        return self.trio.instances_path / "libvirt"

    def power(self, uuid: str) -> int:
        return self.trio.show(uuid)["instance"]["power_state"]

    def used_mb(self) -> int:
        (host,) = self.trio.operator("list_hosts")
        return int(host["memory_mb_used"])

    def left(self) -> tuple[list[str], list[int]]:
        """Files of guests, and QEMU processes."""
        return [path.name for path in (self.directory / "guests").iterdir()], self.libvirtd.domains()

    def arm(self, point: str) -> None:
        """Let the agent die at its next pass of ``point``."""
        for path in self.points.parent.glob(f"{self.points.name}*"):
            path.unlink()
        self.points.write_text(json.dumps({point: {"action": "exit", "times": 1}}))

    def has_died_at(self, point: str) -> bool:
        return len(list(self.points.parent.glob(f"{self.points.name}.{point}.*"))) == 1

    def volume_is(self, uuid: str, status: str) -> None:
        eventually(lambda: self.trio.operator("show_volume", name=uuid)["status"] == status, timeout_s=BOOT_S)

    def delete(self, uuid: str) -> None:
        self.trio.terminate([uuid])
        self.trio.wait_for([uuid], "deleted")


@pytest.fixture(scope="module")
def metal(
    rabbitmq_url: str,
    postgresql_url: str,
    libvirtd: Libvirt,
    image: pathlib.Path,
) -> Iterator[Metal]:
    # pytest's own directories keep the hypervisor's user out.
    with tempfile.TemporaryDirectory(prefix="fleet-metal-") as name:
        yield from _metal(pathlib.Path(name), rabbitmq_url, postgresql_url, libvirtd, image)


def _metal(
    directory: pathlib.Path, rabbitmq_url: str, postgresql_url: str, libvirtd: Libvirt, image: pathlib.Path
) -> Iterator[Metal]:
    directory.chmod(0o711)
    options = f"compute_driver = libvirt\nhost = {HOST}\nallow_resize_to_same_host = true\n"
    libvirt = f"[libvirt]\nconnection_uri = {libvirtd.uri}\nvirt_type = qemu\n"
    libvirt += f"[failpoints]\nenabled = true\nfile = {directory}/points.json\n"
    with running(Trio(directory, rabbitmq_url, postgresql_url, default=options, more=libvirt)) as trio:
        trio.manage("db", "sync")
        trio.start("conductor", "fleet-conductor")
        trio.start("scheduler", "fleet-scheduler")
        trio.start("agent", "fleet-compute")
        trio.wait_for_hosts(1)
        trio.wait_for_service("fleet-scheduler")
        yield Metal(trio, libvirtd, image)


@pytest.fixture(autouse=True)
def nothing_left(metal: Metal) -> Iterator[None]:
    """In the end there is no domain, no file and no claim."""
    reserved = metal.used_mb()
    yield
    left = [each["uuid"] for each in metal.trio.operator("list_instances")]
    if left:
        metal.trio.terminate(left)
    eventually(lambda: metal.left() == ([], []) and not metal.trio.operator("list_instances"))
    eventually(lambda: metal.used_mb() == reserved)


def test_a_build_boots(metal: Metal) -> None:
    """ACTIVE means that the domain runs; the guest prints the name of its instance, its key and its user data."""
    metal.trio.operator("create_key_pair", key_pair={"name": "mine", "public_key": factories.PUBLIC_KEY})
    data = base64.b64encode(b"#!/bin/echo hello\n").decode()
    uuid = metal.boot(name="first guest", key_name="mine", user_data=data)
    metal.trio.wait_for([uuid], "active", "error")
    assert ("active", 1) == (metal.trio.state(uuid), metal.power(uuid))
    shown = metal.console(uuid)
    assert ("first-guest", factories.PUBLIC_KEY) == (shown["name"], shown["key"])
    assert "#!/bin/echo hello" == shown["user_data"]
    assert data not in "".join(path.read_text() for path in metal.trio.directory.glob("*.log"))
    assert "GUEST name first-guest" in metal.trio.cli("server", "console-log", uuid).stdout.splitlines()


def test_the_row_shows_within_seconds_what_has_become_of_a_guest(metal: Metal) -> None:
    """Its QEMU is killed: the event comes long before the next audit would find it."""
    uuid = metal.boot()
    metal.trio.wait_for([uuid], "active")
    (pid,) = metal.libvirtd.domains()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: metal.power(uuid) == 6)


def test_stop_and_start(metal: Metal) -> None:
    """As a user orders it: the guest shuts down, and boots again."""
    uuid = metal.boot()
    metal.trio.wait_for([uuid], "active")
    metal.console(uuid)
    metal.trio.operator("stop_instance", name=uuid)
    metal.trio.wait_for([uuid], "stopped")
    assert ([uuid], []) == metal.left()
    assert "GUEST power button" in metal.trio.cli("server", "console-log", uuid).stdout.splitlines()
    metal.trio.operator("start_instance", name=uuid)
    metal.trio.wait_for([uuid], "active")
    eventually(lambda: metal.power(uuid) == 1)
    assert 1 == len(metal.left()[1])


def test_resize_and_revert(metal: Metal) -> None:
    """The guest boots with what its flavor says: the new one, and the former one again."""
    uuid = metal.boot()
    metal.trio.wait_for([uuid], "active")
    assert "1" == metal.console(uuid)["cpus"]
    metal.trio.operator("resize_instance", name=uuid, flavor={"vcpus": 2, "memory_mb": 192, "root_gb": 2})
    metal.trio.wait_for([uuid], "resized", "error")
    shown = metal.console(uuid, boots=2)
    assert ("2", True) == (shown["cpus"], int(shown["memory_kb"]) > 128 * 1024)
    assert ("disk", f"vda {2**31}") in set(lines(metal.directory / "guests" / uuid / "console.log"))
    metal.trio.operator("revert_resize", name=uuid)
    metal.trio.wait_for([uuid], "active")
    assert "1" == metal.console(uuid, boots=3)["cpus"]
    assert 1 == len(metal.left()[1])


@pytest.mark.parametrize("point", ["agent.move.before", "agent.move.after"])
def test_an_agent_that_is_killed_in_a_resize_goes_on(metal: Metal, point: str) -> None:
    """The next agent resizes the guest. What was kept of it goes when the resize is confirmed."""
    uuid = metal.boot()
    metal.trio.wait_for([uuid], "active")
    metal.arm(point)
    metal.trio.operator("resize_instance", name=uuid, flavor={"vcpus": 2, "memory_mb": 160, "root_gb": 2})
    metal.trio.wait_for([uuid], "resized", "error")
    assert (True, "resized") == (metal.has_died_at(point), metal.trio.state(uuid))
    kept = metal.directory / "guests" / uuid / "before"
    assert kept.exists()
    metal.trio.operator("confirm_resize", name=uuid)
    metal.trio.wait_for([uuid], "active")
    assert (False, 1) == (kept.exists(), len(metal.left()[1]))


@pytest.fixture
def volume(metal: Metal) -> Iterator[str]:
    """One GiB in a file, on a backend of this machine."""
    pool, config = metal.trio.directory / "pool", metal.trio.directory / "volume.conf"
    backend = f"[DEFAULT]\nhost = {HOST}\nenabled_backends = files\nvolume_state_path = {metal.trio.directory}/state\n"
    config.write_text(f"{backend}[files]\nvolume_driver = directory\ndirectory_pools = p:{pool}\n")
    metal.trio.start("disks", "fleet-volume", "--config-file", str(config))
    eventually(lambda: [each["state"] for each in metal.trio.operator("list_pools")] == ["up"])
    (made,) = metal.trio.operator("create_volumes", request={"size": 1, "name": "data"})["volumes"]
    metal.volume_is(made["uuid"], "available")
    yield made["uuid"]
    metal.trio.operator("delete_volume", name=made["uuid"])
    eventually(lambda: not list(pool.glob("volume-*")))
    metal.trio.stop("disks")


def test_a_guest_sees_a_volume_although_its_agent_is_killed(metal: Metal, volume: str) -> None:
    """kill -9 at each step of attachments and detachments. The volume is there after a reboot, and outlasts the guest."""
    uuid = metal.boot()
    metal.trio.wait_for([uuid], "active")
    metal.console(uuid)
    console = metal.directory / "guests" / uuid / "console.log"
    for when in ("before", "after"):
        metal.arm(f"agent.attach.{when}")
        metal.trio.operator("attach_volume", name=uuid, volume=volume)
        metal.volume_is(volume, "in-use")
        assert metal.has_died_at(f"agent.attach.{when}")
        eventually(lambda: ("new", f"{volume[:20]} {2**30}") in set(lines(console)), timeout_s=BOOT_S)
        metal.arm(f"agent.detach.{when}")
        metal.trio.operator("detach_volume", name=uuid, volume=volume)
        metal.volume_is(volume, "available")
        assert metal.has_died_at(f"agent.detach.{when}")
        assert ({}, None) == (
            metal.trio.describe_host(HOST)["volumes"],
            metal.trio.operator("show_volume", name=volume)["failure"],
        )
    metal.trio.operator("attach_volume", name=uuid, volume=volume)
    metal.volume_is(volume, "in-use")
    metal.trio.operator("reboot_instance", name=uuid, hard=True)
    metal.console(uuid, boots=2)
    assert ("disk", f"vdb {2**30}") in set(lines(console))
    metal.delete(uuid)
    metal.volume_is(volume, "available")


def test_a_guest_boots_with_a_volume(metal: Metal, volume: str) -> None:
    """It sees serial number and size. An agent that dies with the volume in its hand gives it back with the build."""
    asked = {"block_device_mapping": [{"volume_id": "data"}]}
    metal.arm("agent.volumes.after")
    lost = metal.boot(**asked)
    metal.trio.wait_for([lost], "error")
    assert metal.has_died_at("agent.volumes.after")
    metal.volume_is(volume, "available")
    uuid = metal.boot(**asked)
    metal.trio.wait_for([uuid], "active", "error")
    metal.volume_is(volume, "in-use")
    metal.console(uuid)
    seen = set(lines(metal.directory / "guests" / uuid / "console.log"))
    assert {("disk", f"vdb {2**30}"), ("has", f"{volume[:20]} {2**30}")} <= seen
    assert {uuid: [volume]} == metal.trio.describe_host(HOST)["volumes"]
    metal.trio.terminate([lost])
    metal.delete(uuid)
    metal.volume_is(volume, "available")


@pytest.mark.parametrize("point", POINTS)
def test_an_agent_that_is_killed_in_a_spawn_leaves_all_or_nothing(metal: Metal, point: str) -> None:
    """kill -9 at each step. The next agent removes what is left; the build ends, and there is no other host to try."""
    metal.arm(point)
    uuid = metal.boot()
    metal.trio.wait_for([uuid], "active", "error")
    assert metal.has_died_at(point)
    guests = 1 if metal.trio.state(uuid) == "active" else 0
    eventually(lambda: tuple(map(len, metal.left())) == (guests, guests))


def test_an_image_that_is_not_what_its_record_says(metal: Metal, tmp_path: pathlib.Path) -> None:
    """The build ends in ERROR on the first host, with the reason; nothing of it is left."""
    wrong = tmp_path / "wrong.raw"
    wrong.write_bytes(b"something else")
    record = {"name": "wrong", "location": str(wrong), "checksum": f"sha256:{'0' * 64}"}
    uuid = metal.boot(metal.trio.operator("create_image", image=record)["uuid"])
    metal.trio.wait_for([uuid], "error")
    (fault,) = metal.trio.show(uuid)["faults"]
    assert "Image wrong is unacceptable: has the checksum" in fault["message"]
    assert ([], []) == metal.left()
