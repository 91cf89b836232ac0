# SPDX-License-Identifier: Apache-2.0
"""Real guests migrate live: they keep counting, and run exactly once, whichever process is killed."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import tempfile
import threading
from collections.abc import Callable, Sequence

import pytest

from compute_agent.drivers.base import LiveMigrationFailed, SpawnFailed
from fleet import states
from fleet.agent import commands
from fleet.json_codec import JSONObject
from fleet.objects import Attachment
from fleet_trial.private_servers import Libvirt
from tests.guests.machine import Machine, eventually
from tests.guests.test_moves import LOOPBACK, TwoMachines, peers, two_machines
from tests.guests.test_volumes import MIB
from tests.guests.tiny_image import BEATS_MB

__all__ = ["two_machines"]


def beats(machine: Machine, uuid: str) -> list[int]:
    """What the guest has counted on this host."""
    return [int(number) for word, number in machine.console(uuid) if word == "beat"]


class Live:
    def __init__(self, two: TwoMachines, volumes: Sequence[Attachment] = (), cells: JSONObject | None = None) -> None:
        self.two = two
        self.volumes, self.cells = volumes, cells
        self.guest, self.context = two.guest, two.context
        self.moved = dataclasses.replace(two.guest, node="destination")
        self.domain = two.source.driver._find(self.guest.uuid)
        eventually(lambda: len(beats(two.source, self.guest.uuid)) > 1)

    def prepare(self) -> None:
        self.two.destination.driver.pre_live_migration(self.context, self.moved, "source", self.volumes)

    def migrate(self, progress: Callable[[int], object] = lambda percent: None, begin: bool = True) -> None:
        driver = self.two.source.driver
        driver.live_migration(self.context, self.guest, "destination", progress, begin, self.cells)

    def arrive(self) -> None:
        """It has moved, and counts on without a boot; the source has nothing of it any more."""
        assert ["destination"] == self.running()
        self.two.destination.driver.post_live_migration_at_destination(self.context, self.moved)
        self.counts_on(self.two.destination)
        assert "up" not in dict(self.two.destination.console(self.guest.uuid))
        self.two.source.driver.confirm_migration(self.context, self.guest.uuid)
        assert {} == self.two.source.driver._disks.records()
        assert "shared" not in [path.name for path in self.two.destination.directory(self.guest.uuid).rglob("*")]

    def running(self) -> list[str]:
        """The hosts on which libvirt has the guest running."""
        machines = {"source": self.two.source, "destination": self.two.destination}
        domains = {name: each.driver._find(self.guest.uuid) for name, each in machines.items()}
        return [name for name, domain in domains.items() if domain is not None and domain.isActive()]

    def counts_on(self, machine: Machine) -> None:
        seen = beats(machine, self.guest.uuid)
        eventually(lambda: len(beats(machine, self.guest.uuid)) > len(seen) + 1)

    def undo(self) -> None:
        self.two.destination.destroy(self.guest.uuid)
        assert ([], ["source"]) == (self.two.destination.guests(), self.running())
        self.counts_on(self.two.source)


@pytest.fixture
def live(two_machines: TwoMachines) -> Live:
    return Live(two_machines)


@pytest.mark.parametrize("known", [True, False])
def test_a_guest_moves_while_it_runs(live: Live, known: bool) -> None:
    """It counts on and never boots there, and its disk came with it. It can be stopped and started there."""
    two, uuid = live.two, live.guest.uuid
    if not known:
        two.destination.records.clear()
    live.prepare()
    marks = two.destination.driver.get_per_instance_usage()[uuid]
    assert (None, True) == (marks.get("switched_off"), marks.get("arriving"))
    shown: list[int] = []
    live.migrate(shown.append)
    assert (["destination"], sorted(shown)) == (live.running(), shown)
    live.migrate()
    two.destination.driver.post_live_migration_at_destination(live.context, live.moved)
    assert "arriving" not in two.destination.driver.get_per_instance_usage()[uuid]
    before = beats(two.source, uuid)
    live.counts_on(two.destination)
    after = beats(two.destination, uuid)
    assert list(range(len(before) + len(after))) == [*before, *after]
    assert "up" not in dict(two.destination.console(uuid))
    two.source.driver.confirm_migration(live.context, uuid)
    assert ([], ["destination"]) == (two.source.guests(), live.running())
    assert [] == [
        pool for each in (two.source, two.destination) for pool in each.driver._connection.get().listStoragePools()
    ]

    two.destination.driver.power_off(live.context, live.moved)
    disk = two.destination.directory(uuid) / "disk"
    written = commands.run("qemu-io", "-r", "-f", "qcow2", "-c", f"read -v {BEATS_MB}M 512", str(disk))
    assert "beat" in written
    two.destination.driver.power_on(live.context, live.moved)
    two.destination.up(live.moved)


def test_an_abort(live: Live) -> None:
    """The guest counts on where it is. A repeated look finds the same, and the destination is as before."""
    live.prepare()
    live.domain.migrateSetMaxSpeed(1)
    copies, failures = threading.Event(), []

    def migrate() -> None:
        try:
            live.migrate(lambda _percent: copies.set())
        except LiveMigrationFailed as failure:
            failures.append(str(failure))

    thread = threading.Thread(target=migrate)
    thread.start()
    assert copies.wait(60)
    assert ["source", "destination"] == live.running()
    assert states.RUNNING != live.two.destination.state(live.guest)
    live.two.source.driver.live_migration_abort(live.context, live.guest.uuid)
    thread.join(60)
    assert 1 == len(failures)
    with pytest.raises(LiveMigrationFailed, match="no migration of it is under way"):
        live.migrate(begin=False)
    live.undo()


def test_a_libvirtd_that_is_lost_meanwhile(live: Live, libvirtd: Libvirt) -> None:
    """It is unknown where the guest is, until libvirt is back: it has not left."""
    live.prepare()
    live.domain.migrateSetMaxSpeed(1)
    copies = threading.Event()
    killer = threading.Thread(target=lambda: (copies.wait(60), libvirtd.kill()))
    killer.start()
    with pytest.raises(SpawnFailed) as lost:
        live.migrate(lambda _percent: copies.set())
    killer.join()
    assert not isinstance(lost.value, LiveMigrationFailed)
    libvirtd.start()
    live.two.source.restart()
    with pytest.raises(LiveMigrationFailed):
        live.migrate(begin=False)
    live.undo()


def test_what_is_not_prepared_is_not_begun(live: Live) -> None:
    with pytest.raises(LiveMigrationFailed, match="pool"):
        live.migrate()
    live.undo()


#: The processor that the destination claims; the source has claimed the first.
LAST = len(os.sched_getaffinity(0)) - 1


def pinned_to(number: int) -> JSONObject:
    return {"cells": [{"id": 0, "cpuset": [0], "memory": 128, "cpu_pinning": {"0": number}}]}


@pytest.mark.parametrize("two_machines", [{"claimed_numa_topology": pinned_to(0)}], indirect=True)
def test_a_guest_takes_its_volume_along_and_other_cpus(two_machines: TwoMachines) -> None:
    """The volume is not copied: it stays one file, with what the guest has on it. The vcpu is pinned to what was claimed."""
    two, uuid = two_machines, two_machines.guest.uuid
    volume = pathlib.Path(two.volume.connection.path)
    volume.write_bytes(b"kept" + volume.read_bytes()[4:])
    inode = volume.stat().st_ino
    two.source.driver.attach_volume(two.context, uuid, two.volume)
    live = Live(two, [two.volume], pinned_to(LAST))
    live.prepare()
    live.migrate()
    live.arrive()
    domain = two.destination.driver._find(uuid)
    assert domain is not None
    (pins,) = domain.vcpuPinInfo()
    assert [LAST] == [number for number, used in enumerate(pins) if used]
    volumes = (two.destination.driver.attached_volumes(), two.source.driver.attached_volumes())
    assert ({uuid: [two.volume.volume_uuid]}, {}) == volumes
    two.destination.driver.power_off(live.context, live.moved)
    assert (b"kept", inode) == (volume.read_bytes()[:4], volume.stat().st_ino)
    two.destination.driver.power_on(live.context, live.moved)
    two.destination.up(live.moved)
    assert ("has", f"{two.volume.volume_uuid[:20]} {3 * MIB}") in two.destination.console(uuid)


def test_a_guest_continues_before_its_memory_is_there(two_machines: TwoMachines) -> None:
    """It writes faster than the network carries it, and may not be slowed down."""
    two = two_machines
    two.source.conf.set_override("live_migration_permit_post_copy", True, group="libvirt")
    live = Live(two)
    live.prepare()
    try:
        live.migrate()
    except LiveMigrationFailed as refused:
        live.undo()
        if "Postcopy is not supported" in str(refused):
            pytest.skip("the kernel gives QEMU no userfaultfd")
        raise
    live.arrive()


def test_disks_on_shared_storage_are_not_copied(
    libvirtd: Libvirt, other_libvirtd: Libvirt, image: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The destination links them: what the source removes at the end is still there. A try that is undone takes nothing."""
    uri = peers(tmp_path, source=libvirtd, destination=other_libvirtd)
    with tempfile.TemporaryDirectory(prefix="fleet-shared-") as name:
        os.chmod(name, 0o711)
        pathlib.Path(name, "libvirt", "hosts").mkdir(parents=True)
        options = {"shared_storage": "nfs1", "migration_uri": uri, "migration_data_uri": LOOPBACK}
        made = [
            Machine(pathlib.Path(name), server.uri, image, host, **options)
            for host, server in (("source", libvirtd), ("destination", other_libvirtd))
        ]
        try:
            live = Live(TwoMachines(*made))
            inode = (live.two.source.directory(live.guest.uuid) / "disk").stat().st_ino
            live.prepare()
            live.two.destination.destroy(live.guest.uuid)
            live.counts_on(live.two.source)
            live.prepare()
            live.migrate()
            live.arrive()
            assert inode == (live.two.destination.directory(live.guest.uuid) / "disk").stat().st_ino
            live.two.destination.driver.power_off(live.context, live.moved)
            live.two.destination.driver.power_on(live.context, live.moved)
            live.two.destination.up(live.moved)
        finally:
            for machine in made:
                machine.clear()
