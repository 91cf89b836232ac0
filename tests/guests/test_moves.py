# SPDX-License-Identifier: Apache-2.0
"""Real guests that move between two hosts, each with a libvirtd of its own: the disks arrive, or the guest stays."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compute_agent.drivers.base import SpawnFailed
from fleet import states
from fleet.agent import commands
from fleet.objects import Instance
from fleet_trial.private_servers import Libvirt
from tests.amqp.daemons import Trio, eventually, running
from tests.guests.machine import BOOT_S, Machine, lines
from tests.guests.test_volumes import MIB, a_volume
from tests.unit.compute_agent import builders

#: Where a test writes what a guest has on its disk: behind all that its image has.
_OFFSET = "512M"
#: Guests do not leave this machine.
LOOPBACK = "tcp://127.0.0.1"


def peers(directory: pathlib.Path, **libvirtds: Libvirt) -> str:
    """Return the ``migration_uri`` of hosts of these names."""
    for name, server in libvirtds.items():
        (directory / name).symlink_to(pathlib.Path(server.place.directory) / "sockets" / "libvirt-sock")
    return f"qemu+unix:///system?socket={directory}/%s"


def qemu_io(disk: pathlib.Path, command: str) -> None:
    commands.run("qemu-io", "-f", "qcow2", "-c", command, str(disk))


class TwoMachines:
    def __init__(self, source: Machine, destination: Machine, **guest: Any) -> None:
        self.source, self.destination = source, destination
        self.guest = source.spawn(flavor={"vcpus": 1, "memory_mb": 128}, **guest)
        source.up(self.guest)
        large = builders.a_flavor(vcpus=2, memory_mb=192, root_gb=2)
        self.moved: Instance = dataclasses.replace(self.guest, node="destination", flavor=large)
        self.context = builders.a_context()
        self.volume = a_volume(source.root.parent, 1, 3 * MIB, "vdb", self.guest.uuid)

    def switch_off(self) -> None:
        driver = self.source.driver
        driver.migrate_disk_and_power_off(self.context, self.guest, "destination", self.moved.flavor)
        qemu_io(self.source.directory(self.guest.uuid) / "disk", f"write -P 0xab {_OFFSET} 8M")

    def fetch(self, progress: Callable[[int], object] = lambda percent: None) -> None:
        self.destination.driver.fetch_disks(self.context, self.moved, "source", "move1", progress)

    def start(self) -> None:
        self.destination.driver.finish_migration(self.context, self.moved, self.moved.image, [self.volume])


@pytest.fixture
def two_machines(
    request: pytest.FixtureRequest,
    libvirtd: Libvirt,
    other_libvirtd: Libvirt,
    image: pathlib.Path,
    tmp_path: pathlib.Path,
) -> Iterator[TwoMachines]:
    """:param request: may have values of the guest as its parameter"""
    uri = peers(tmp_path, source=libvirtd, destination=other_libvirtd)
    with tempfile.TemporaryDirectory(prefix="fleet-two-") as name:
        os.chmod(name, 0o711)
        made = []
        for place, server in (("source", libvirtd), ("destination", other_libvirtd)):
            root = pathlib.Path(name) / place
            root.mkdir(mode=0o711)
            made.append(Machine(root, server.uri, image, place, migration_uri=uri, migration_data_uri=LOOPBACK))
        try:
            yield TwoMachines(*made, **getattr(request, "param", {}))
        finally:
            for machine in made:
                machine.clear()


@pytest.mark.parametrize("known", [True, False])
def test_a_guest_arrives_with_its_disk(two_machines: TwoMachines, known: bool) -> None:
    """Its base comes from the cache, or from the source if the image's record is gone. Nothing stays on the source."""
    two = two_machines
    two.switch_off()
    if not known:
        two.destination.records.clear()
    shown: list[int] = []
    two.fetch(shown.append)
    assert (sorted(shown), True) == (shown, len(shown) > 1)
    disk = two.destination.directory(two.guest.uuid) / "disk"
    qemu_io(disk, f"read -P 0xab {_OFFSET} 8M")
    assert known == bool(two.destination.bases())
    # Holes stay holes.
    assert 64 << 20 > disk.stat().st_blocks * 512
    for _twice in range(2):
        two.fetch()
        two.start()
    found = two.destination.up(two.moved)
    assert ("has", f"{two.volume.volume_uuid[:20]} {3 * MIB}") in two.destination.console(two.guest.uuid)
    assert ("2", True) == (found["cpus"], int(found["memory_kb"]) > 128 * 1024)
    assert ("disk", f"vda {2**31}") in two.destination.console(two.guest.uuid)
    two.source.driver.confirm_migration(two.context, two.guest.uuid)
    assert ([], []) == (two.source.guests(), two.source.driver._connection.get().listStoragePools())


@pytest.mark.parametrize("found", [states.SHUTDOWN, states.PAUSED, states.CRASHED])
def test_a_guest_that_does_not_run_arrives_and_is_started(
    two_machines: TwoMachines, libvirtd: Libvirt, found: int
) -> None:
    """It cannot be migrated live. A cold move ends what is left of it, and takes its disk along."""
    two = two_machines
    domain = two.source.driver._connection.get().lookupByUUIDString(two.guest.uuid)
    if found == states.CRASHED:
        libvirtd.kill_domains()
    else:
        (domain.destroy if found == states.SHUTDOWN else domain.suspend)()
    eventually(lambda: found == two.source.state(two.guest))
    two.switch_off()
    assert states.SHUTDOWN == two.source.state(two.guest)
    two.fetch()
    two.start()
    two.destination.up(two.moved)
    assert states.RUNNING == two.destination.state(two.moved)


def test_a_source_that_is_lost_while_its_disks_are_copied(two_machines: TwoMachines, libvirtd: Libvirt) -> None:
    """Nothing is left on the destination, and the guest boots again where it was."""
    two = two_machines
    two.switch_off()

    def lose(_percent: int) -> None:
        libvirtd.kill()

    with pytest.raises(SpawnFailed, match="cannot be copied from source"):
        two.fetch(lose)
    assert ([], []) == (two.destination.guests(), two.destination.driver.list_instance_uuids())
    libvirtd.start()
    two.source.restart()
    two.source.driver.finish_revert_migration(two.context, two.guest)
    two.source.up(two.guest, times=2)
    assert states.RUNNING == two.source.state(two.guest)


def test_a_guest_of_a_dead_host_starts_from_its_disk_on_shared_storage(
    libvirtd: Libvirt, other_libvirtd: Libvirt, image: pathlib.Path
) -> None:
    """Not while it still runs there: QEMU's lock refuses it. What the dead host removes when it is back is not lost."""
    with tempfile.TemporaryDirectory(prefix="fleet-shared-") as name:
        os.chmod(name, 0o711)
        pathlib.Path(name, "libvirt", "hosts").mkdir(parents=True)
        servers = (("dead", libvirtd), ("alive", other_libvirtd))
        dead, alive = (
            Machine(pathlib.Path(name), server.uri, image, host, shared_storage="nfs1") for host, server in servers
        )
        context = builders.a_context()
        try:
            guest = dead.spawn()
            dead.up(guest)
            moved = dataclasses.replace(guest, node="alive")
            with pytest.raises(SpawnFailed, match="lock"):
                alive.driver.take_over(context, moved, "dead")
            assert (states.RUNNING, []) == (dead.state(guest), alive.driver.list_instance_uuids())
            libvirtd.kill_domains()
            eventually(lambda: not libvirtd.domains())
            qemu_io(dead.directory(guest.uuid) / "disk", f"write -P 0xab {_OFFSET} 1M")
            assert alive.driver.take_over(context, moved, "dead")
            alive.up(moved)
            dead.destroy(guest.uuid)
            assert states.RUNNING == alive.state(moved)
            alive.driver.power_off(context, moved)
            qemu_io(alive.directory(guest.uuid) / "disk", f"read -P 0xab {_OFFSET} 1M")
            alive.driver.power_on(context, moved)
            alive.up(moved, times=2)
        finally:
            for machine in (dead, alive):
                machine.clear()


class TwoRealHosts:
    """A trio with two hosts of real guests, ``metal1`` and ``metal2``."""

    def __init__(self, trio: Trio, libvirtds: dict[str, Libvirt], image: pathlib.Path) -> None:
        self.trio = trio
        self.libvirtds = libvirtds
        checksum = f"sha256:{hashlib.sha256(image.read_bytes()).hexdigest()}"
        record = {"name": "tiny", "location": str(image), "checksum": checksum}
        self.image = trio.operator("create_image", image=record)["uuid"]

    def boot(self, **request: Any) -> tuple[str, str, str]:
        """Return the uuid of a guest that has booted, its host, and the other host."""
        flavor = {"vcpus": 1, "memory_mb": 128, "root_gb": 1}
        (uuid,) = self.trio.boot(flavor=flavor, image={"id": self.image}, **request)
        self.trio.wait_for([uuid], "active")
        here = self.trio.show(uuid)["instance"]["host"]
        self.booted(here, uuid)
        return uuid, here, next(name for name in self.libvirtds if name != here)

    def directory(self, host: str) -> pathlib.Path:
        return self.trio.directory / host / "libvirt" / "guests"

    def booted(self, host: str, uuid: str, times: int = 1) -> None:
        path = self.directory(host) / uuid / "console.log"
        eventually(lambda: path.exists() and [*lines(path)].count(("up", "")) >= times, timeout_s=BOOT_S)

    def left(self) -> list[Any]:
        """Files of guests, and QEMU processes, on both hosts."""
        return [
            *(path.name for host in self.libvirtds for path in self.directory(host).iterdir()),
            *(pid for server in self.libvirtds.values() for pid in server.domains()),
        ]

    def arm(self, host: str, point: str) -> None:
        """Let the agent of the host die at its next pass of ``point``."""
        file = self._points(host)
        for path in file.parent.glob(f"{file.name}*"):
            path.unlink()
        file.write_text(json.dumps({point: {"action": "exit", "times": 1}}))

    def has_died_at(self, host: str, point: str) -> bool:
        file = self._points(host)
        return len(list(file.parent.glob(f"{file.name}.{point}.*"))) == 1

    def _points(self, host: str) -> pathlib.Path:
        return self.trio.directory / f"points-{host}.json"


@contextlib.contextmanager
def metals(
    rabbitmq_url: str,
    postgresql_url: str,
    servers: dict[str, Libvirt],
    image: pathlib.Path,
    default: str = "",
    more: str = "",
) -> Iterator[TwoRealHosts]:
    """Run a trio with a host for each libvirtd. :param default: options; ``more``: further sections"""
    with tempfile.TemporaryDirectory(prefix="fleet-metals-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o711)
        (directory / "peers").mkdir()
        sections = f"[libvirt]\nvirt_type = qemu\nmigration_uri = {peers(directory / 'peers', **servers)}\n"
        sections += f"migration_data_uri = {LOOPBACK}\n{more}"
        options = f"compute_driver = libvirt\nvolume_hosts = store\n{default}"
        with running(Trio(directory, rabbitmq_url, postgresql_url, default=options, more=sections)) as trio:
            trio.manage("db", "sync")
            trio.start("conductor", "fleet-conductor")
            trio.start("scheduler", "fleet-scheduler")
            for host, server in servers.items():
                (directory / host).mkdir(mode=0o711)
                own = directory / f"{host}.conf"
                own.write_text(
                    f"[DEFAULT]\nhost = {host}\ninstances_path = {directory / host}\n"
                    f"[libvirt]\nconnection_uri = {server.uri}\n"
                    f"[failpoints]\nenabled = true\nfile = {directory}/points-{host}.json\n"
                )
                trio.start(host, "fleet-compute", "--config-file", str(own))
            trio.wait_for_hosts(2)
            trio.wait_for_service("fleet-scheduler")
            yield TwoRealHosts(trio, servers, image)


@pytest.fixture(scope="module")
def fleet(
    rabbitmq_url: str, postgresql_url: str, libvirtd: Libvirt, other_libvirtd: Libvirt, image: pathlib.Path
) -> Iterator[TwoRealHosts]:
    servers = {"metal1": libvirtd, "metal2": other_libvirtd}
    with metals(rabbitmq_url, postgresql_url, servers, image) as made:
        yield made


@pytest.fixture
def nothing_left(fleet: TwoRealHosts) -> Iterator[None]:
    yield
    left = [each["uuid"] for each in fleet.trio.operator("list_instances")]
    if left:
        fleet.trio.terminate(left)
    eventually(lambda: not fleet.left() and not fleet.trio.operator("list_instances"))


@pytest.mark.parametrize(
    ("dies", "point"),
    [
        (None, ""),
        ("source", "agent.move.after"),
        ("destination", "libvirt.copy.during"),
        ("destination", "libvirt.copy.after"),
    ],
)
@pytest.mark.usefixtures("nothing_left")
def test_a_guest_is_migrated(fleet: TwoRealHosts, dies: str | None, point: str) -> None:
    """kill -9 of an agent delays it: its next life continues. Confirmed, the guest is on one host only."""
    uuid, here, there = fleet.boot()
    killed = here if dies == "source" else there
    if dies is not None:
        fleet.arm(killed, point)
    fleet.trio.operator("migrate_instance", name=uuid)
    fleet.trio.wait_for([uuid], "resized")
    assert dies is None or fleet.has_died_at(killed, point)
    fleet.booted(there, uuid)
    assert {"disk", "guest.json"} <= {path.name for path in (fleet.directory(here) / uuid).iterdir()}
    fleet.trio.operator("confirm_resize", name=uuid)
    fleet.trio.wait_for([uuid], "active")
    assert [] == list(fleet.directory(here).iterdir())
    assert (0, 1) == tuple(len(fleet.libvirtds[host].domains()) for host in (here, there))


@pytest.mark.parametrize(
    ("dies", "point"),
    [
        ("source", "libvirt.migrate.before"),
        ("source", "libvirt.migrate.during"),
        ("source", "libvirt.migrate.after"),
        ("destination", "libvirt.copy.after"),
    ],
)
@pytest.mark.usefixtures("nothing_left")
def test_a_running_guest_is_migrated(fleet: TwoRealHosts, dies: str, point: str) -> None:
    """kill -9 of an agent delays it. The guest never boots again, and is on one host only."""
    uuid, here, there = fleet.boot()
    killed = here if dies == "source" else there
    fleet.arm(killed, point)
    done = fleet.trio.cli("server", "migrate", uuid, "--live", "--wait", "--timeout", "240")
    assert (0, True) == (done.returncode, "is completed" in done.stdout), done.stdout + done.stderr
    assert fleet.has_died_at(killed, point)
    assert (there, "active") == (fleet.trio.show(uuid)["instance"]["host"], fleet.trio.state(uuid))
    eventually(lambda: any(word == "beat" for word, _ in lines(fleet.directory(there) / uuid / "console.log")))
    assert "up" not in dict(lines(fleet.directory(there) / uuid / "console.log"))
    assert ([], 0, 1) == (
        list(fleet.directory(here).iterdir()),
        *(len(fleet.libvirtds[host].domains()) for host in (here, there)),
    )


@pytest.fixture
def volume(fleet: TwoRealHosts) -> Iterator[str]:
    """One GiB in a file that both hosts have under the same path."""
    trio = fleet.trio
    pool, config = trio.directory / "pool", trio.directory / "volume.conf"
    backend = f"[DEFAULT]\nhost = store\nenabled_backends = files\nvolume_state_path = {trio.directory}/state\n"
    config.write_text(f"{backend}[files]\nvolume_driver = directory\ndirectory_pools = p:{pool}\n")
    trio.start("disks", "fleet-volume", "--config-file", str(config))
    eventually(lambda: [each["state"] for each in trio.operator("list_pools")] == ["up"])
    (made,) = trio.operator("create_volumes", request={"size": 1, "name": "data"})["volumes"]
    eventually(lambda: trio.operator("show_volume", name="data")["status"] == "available")
    yield made["uuid"]
    trio.stop("disks")


@pytest.mark.usefixtures("nothing_left")
def test_a_migration_is_reverted(fleet: TwoRealHosts, volume: str) -> None:
    """The guest sees its volume on each of its hosts, whose ledgers and drivers agree about it."""

    def sees(host: str) -> bool:
        """At each boot."""
        shown = [*lines(fleet.directory(host) / uuid / "console.log")]
        return shown.count(("has", f"{volume[:20]} {2**30}")) == shown.count(("up", ""))

    uuid, here, there = fleet.boot(block_device_mapping=[{"volume_id": "data"}])
    assert sees(here)
    fleet.trio.operator("resize_instance", name=uuid, flavor={"vcpus": 2, "memory_mb": 160, "root_gb": 2})
    fleet.trio.wait_for([uuid], "resized")
    fleet.booted(there, uuid)
    assert (True, there) == (sees(there), fleet.trio.operator("show_volume", name=volume)["attachments"][0]["host"])
    fleet.trio.operator("revert_resize", name=uuid)
    fleet.trio.wait_for([uuid], "active")
    fleet.booted(here, uuid, times=2)
    assert (True, here) == (sees(here), fleet.trio.operator("show_volume", name=volume)["attachments"][0]["host"])
    assert {uuid: [volume]} == fleet.trio.describe_host(here)["volumes"]
    assert [] == list(fleet.directory(there).iterdir())
