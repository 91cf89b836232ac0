# SPDX-License-Identifier: Apache-2.0
"""A host of real guests dies, and conductors recover them from storage that it shared; a guest that keeps dying moves."""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator

import pytest

from fleet_trial.private_servers import Libvirt
from tests.amqp.daemons import Trio, eventually, running
from tests.guests.machine import BOOT_S, lines
from tests.guests.test_moves import LOOPBACK, peers

HOSTS = ("metal1", "metal2")
#: Ends the QEMU processes of a host, as a machine does that loses its power. Each call is a line of a file.
_FENCE = """
import json, os, pathlib, signal, sys, time
directory, host = pathlib.Path({directory!r}), sys.argv[-1]
home = json.loads((directory / "homes.json").read_text())[host]

def alive():
    for process in pathlib.Path("/proc").iterdir():
        try:
            if process.name.isdigit() and home in (process / "mountinfo").read_text():
                if os.readlink(process / "exe").rpartition("/")[2].startswith("qemu-system"):
                    yield int(process.name)
        except OSError:
            pass

with (directory / "fences").open("a") as log:
    print(host, len(list(alive())), file=log)
while guests := list(alive()):
    for pid in guests:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    time.sleep(0.2)
"""
_OPTIONS = """compute_driver = libvirt
lost_guest_action = restart
guest_restart_limit = 1
guest_restart_wait = 0
guest_restart_exhausted = move
update_resources_interval = 2
"""


class Room:
    """Two hosts with a libvirtd each; their guests are on one file system."""

    def __init__(self, trio: Trio, libvirtds: dict[str, Libvirt], image: pathlib.Path) -> None:
        self.trio, self.libvirtds = trio, libvirtds
        checksum = f"sha256:{hashlib.sha256(image.read_bytes()).hexdigest()}"
        record = {"name": "tiny", "location": str(image), "checksum": checksum}
        self.image = trio.operator("create_image", image=record)["uuid"]

    def boot(self, host: str, count: int = 1) -> list[str]:
        request = {"flavor": {"vcpus": 1, "memory_mb": 96, "root_gb": 1}, "image": {"id": self.image}}
        uuids = self.trio.boot(**request, count=count, availability_zone=f"nova:{host}")
        self.trio.wait_for(uuids, "active")
        for uuid in uuids:
            self.booted(host, uuid)
        return uuids

    def directory(self, host: str, uuid: str) -> pathlib.Path:
        found = list(self.trio.directory.rglob(f"hosts/{host}/guests/{uuid}"))
        return found[0] if found else self.trio.directory / "nowhere"

    def booted(self, host: str, uuid: str, times: int = 1) -> None:
        def has() -> bool:
            path = self.directory(host, uuid) / "console.log"
            return path.exists() and [*lines(path)].count(("up", "")) >= times

        eventually(has, timeout_s=BOOT_S)

    def fences(self) -> list[str]:
        path = self.trio.directory / "fences"
        return path.read_text().splitlines() if path.exists() else []

    def running(self) -> tuple[int, ...]:
        """QEMU processes of each host."""
        return tuple(len(server.domains()) for server in self.libvirtds.values())


@pytest.fixture(scope="module")
def room(
    rabbitmq_url: str, postgresql_url: str, libvirtd: Libvirt, other_libvirtd: Libvirt, image: pathlib.Path
) -> Iterator[Room]:
    servers = dict(zip(HOSTS, (libvirtd, other_libvirtd), strict=True))
    with tempfile.TemporaryDirectory(prefix="fleet-room-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o711)
        homes = {host: server.place.directory for host, server in servers.items()}
        (directory / "homes.json").write_text(json.dumps(homes))
        (directory / "fence.py").write_text(_FENCE.format(directory=name))
        (directory / "peers").mkdir()
        (directory / "guests").mkdir(mode=0o711)
        (directory / "guests" / "libvirt" / "hosts").mkdir(parents=True)
        libvirt = f"[libvirt]\nvirt_type = qemu\nmigration_uri = {peers(directory / 'peers', **servers)}\n"
        libvirt += f"migration_data_uri = {LOOPBACK}\nshared_storage = nfs1\n"
        recovery = "[recovery]\nenabled = true\nwait_time = 0\n"
        recovery += f"fence_command = {sys.executable} {directory}/fence.py\n"
        with running(Trio(directory, rabbitmq_url, postgresql_url, default=_OPTIONS, more=libvirt + recovery)) as trio:
            trio.manage("db", "sync")
            trio.start("conductor", "fleet-conductor")
            trio.start("scheduler", "fleet-scheduler")
            for host, server in servers.items():
                own = directory / f"{host}.conf"
                own.write_text(
                    f"[DEFAULT]\nhost = {host}\ninstances_path = {directory / 'guests'}\n"
                    f"[libvirt]\nconnection_uri = {server.uri}\n"
                )
                trio.start(host, "fleet-compute", "--config-file", str(own))
            trio.wait_for_hosts(2)
            trio.wait_for_service("fleet-scheduler")
            yield Room(trio, servers, image)


@pytest.fixture(autouse=True)
def nothing_left(room: Room) -> Iterator[None]:
    yield
    left = [each["uuid"] for each in room.trio.operator("list_instances")]
    if left:
        room.trio.terminate(left)
    eventually(lambda: room.running() == (0, 0) and not room.trio.operator("list_instances"), timeout_s=60)


def test_guests_of_a_dead_host_start_from_their_disks(room: Room) -> None:
    """Agent and libvirtd die, the guests run on: the fence ends them, and only then they start on the other host."""
    here, there = HOSTS
    uuids = room.boot(here, count=2)
    began = time.monotonic()
    room.trio.kill(here)
    room.libvirtds[here].kill()
    assert (2, 0) == room.running()
    for uuid in uuids:
        eventually(
            lambda uuid=uuid: (there, "active") == (room.trio.show(uuid)["instance"]["host"], room.trio.state(uuid)),
            timeout_s=180,
        )
    print(f"2 guests ACTIVE elsewhere {time.monotonic() - began:.0f} s after their host died")
    assert ([f"{here} 2"], (0, 2)) == (room.fences(), room.running())
    for uuid in uuids:
        room.booted(there, uuid)
    eventually(lambda: "done" == room.trio.operator("list_recoveries")["recoveries"][0]["status"])
    # The machine is on again: nothing of it starts a second time.
    room.libvirtds[here].start()
    room.trio.restart(here)
    eventually(
        lambda: (
            {"completed"}
            == {
                each["status"]
                for each in room.trio.operator("list_migrations", filters={"migration_type": "evacuation"})
            }
        ),
        timeout_s=60,
    )
    assert (0, 2) == room.running()


def test_a_guest_that_keeps_dying_moves_once(room: Room) -> None:
    """It is started once on its host, then moves with its disk, and ends in ERROR when it dies again and again there."""
    here, there = HOSTS
    (uuid,) = room.boot(here)
    room.libvirtds[here].kill_domains()
    room.booted(here, uuid, times=2)
    room.libvirtds[here].kill_domains()
    eventually(
        lambda: (there, "active") == (room.trio.show(uuid)["instance"]["host"], room.trio.state(uuid)), timeout_s=180
    )
    room.booted(there, uuid)
    assert (0, 1) == room.running()
    room.libvirtds[there].kill_domains()
    eventually(lambda: (0, 1) == room.running(), timeout_s=60)
    room.libvirtds[there].kill_domains()
    room.trio.wait_for([uuid], "error")
    (fault,) = room.trio.show(uuid)["faults"]
    assert "it does not move: that was tried already, from metal1" in fault["message"]
