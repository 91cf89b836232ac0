# SPDX-License-Identifier: Apache-2.0
"""The driver on libvirt's own test driver, ``test:///default``: real calls of libvirt, and domains that only libvirt has."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import pathlib
import shutil
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from compute_agent.drivers import guest_record
from compute_agent.drivers.base import DestinationUnreachable, LiveMigrationFailed, SpawnFailed
from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.drivers.libvirt import LibvirtDriver, live_moves
from compute_agent.drivers.libvirt.disks import resize
from compute_agent.drivers.libvirt.domains import domain_xml, live, part, peer, power
from compute_agent.drivers.libvirt.domains.connection import library
from compute_agent.drivers.libvirt.domains.part import Part
from compute_agent.work import recovery
from fleet import errors, states
from fleet.agent import commands, time_limit
from fleet.objects import Attachment, Image, ImageRecord, Instance, VolumeConnection
from tests import conftest, factories
from tests.unit.compute_agent import builders

HOST = "machine"
IMAGE = factories.uuid(7)
#: The domain that libvirt's test driver begins with.
THEIRS = "6695eb01-f6a4-8304-79aa-97f2502e193f"


class Machine:
    def __init__(self, root: pathlib.Path, host: str = HOST, **options: Any) -> None:
        root.mkdir(exist_ok=True)
        self.host = host
        conf = builders.a_conf(compute_driver="libvirt", instances_path=str(root))
        conf.set_override("connection_uri", "test:///default", group="libvirt")
        # Its guests answer no power button.
        conf.set_override("shutdown_timeout", 0, group="libvirt")
        for name, value in options.items():
            conf.set_override(name, value, group="libvirt")
        (root / "image").write_bytes(b"\0" * 2**20)
        self.driver = LibvirtDriver(conf)
        self.driver.kind = "test"
        self.driver.init_host(host)
        self.driver.use_images(lambda _context, _id: ImageRecord("tiny", str(root / "image"), IMAGE))
        self.context = builders.a_context()

    def spawn(self, **values: Any) -> Instance:
        instance = builders.an_instance(node=self.host, image=Image(id=IMAGE), **values)
        self.driver.spawn(self.context, instance, instance.image)
        return instance

    def resized(self, instance: Instance, **sizes: int) -> Instance:
        """The instance as it is after the resize, which ``resize`` has begun."""
        now = dataclasses.replace(instance, flavor=builders.a_flavor(**sizes))
        self.driver.migrate_disk_and_power_off(self.context, instance, HOST, now.flavor)
        return now

    def resize(self, instance: Instance, **sizes: int) -> Instance:
        """Each step twice, as after a lost answer."""
        self.resized(instance, **sizes)
        now = self.resized(instance, **sizes)
        for _twice in range(2):
            self.driver.finish_migration(self.context, now, now.image)
        return now

    def directory(self, instance: Instance) -> pathlib.Path:
        return pathlib.Path(self.driver.conf.instances_path) / "libvirt" / "guests" / instance.uuid

    def place(self, instance: Instance) -> pathlib.Path:
        """On shared storage."""
        return (
            pathlib.Path(self.driver.conf.instances_path) / "libvirt" / "hosts" / self.host / "guests" / instance.uuid
        )

    def sizes(self, instance: Instance) -> dict[str, int]:
        """Bytes of its disks."""
        names = ("disk", "ephemeral", "swap")
        paths = {name: self.directory(instance) / name for name in names}
        return {name: resize._size(path) for name, path in paths.items() if path.exists()}

    def shape(self, instance: Instance) -> tuple[int, int]:
        found = self.driver.get_info(instance.uuid)
        return found.num_cpu, found.max_mem_kb >> 10

    def state(self, instance: Instance) -> int:
        return self.driver.get_info(instance.uuid).state


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Iterator[Machine]:
    if importlib.util.find_spec("libvirt") is None:
        conftest.missing("libvirt-python is not installed: make hypervisor installs it")
    if shutil.which("qemu-img") is None:
        conftest.missing("qemu-img is not installed (Debian package qemu-utils)")
    made = Machine(tmp_path)
    yield made
    for uuid in made.driver.list_instance_uuids():
        made.driver.destroy(made.context, uuid)
    made.driver.cleanup_host(HOST)


def volume(number: int, uuid: str, kind: Any = "file") -> Attachment:
    where = VolumeConnection(kind, f"/srv/volume-{factories.uuid(number)}")
    return Attachment(
        factories.uuid(number + 100), factories.uuid(number), uuid, "vdd", "reserved", 1, "m1@files#p", where
    )


def serials(machine: Machine, instance: Instance) -> list[str]:
    """Of the disks in the domain's definition."""
    text = machine.driver._find(instance.uuid).XMLDesc()
    return [disk.text or "" for disk in ElementTree.fromstring(text).iterfind("devices/disk/serial")]


def test_a_domain_begins_with_its_volumes(machine: Machine) -> None:
    """They are in its first definition, and in each later one."""
    guest = builders.an_instance(node=HOST, image=Image(id=IMAGE))
    data = volume(1, guest.uuid)
    machine.driver.spawn(machine.context, guest, guest.image, [data])
    assert ([data.volume_uuid], {guest.uuid: [data.volume_uuid]}) == (
        serials(machine, guest),
        machine.driver.attached_volumes(),
    )
    machine.driver.power_off(machine.context, guest)
    machine.driver.power_on(machine.context, guest)
    assert [data.volume_uuid] == serials(machine, guest)
    other = builders.an_instance(node=HOST, image=Image(id=IMAGE))
    with pytest.raises(errors.NotSupported, match="A volume of the kind fake"):
        machine.driver.spawn(machine.context, other, other.image, [volume(2, other.uuid, "fake")])
    assert other.uuid not in machine.driver.list_instance_uuids()


def test_a_domain_lives_and_leaves_nothing(machine: Machine) -> None:
    """Spawned, stopped, started, rebooted, destroyed; each step may be repeated."""
    guest = machine.spawn(attempt=2)
    usage = machine.driver.get_per_instance_usage()[guest.uuid]
    assert (guest.flavor.memory_mb, HOST, 2) == (usage["memory_mb"], usage["node"], usage["attempt"])
    for method, state in (("power_off", states.SHUTDOWN), ("power_on", states.RUNNING), ("reboot", states.RUNNING)):
        for _twice in range(2):
            getattr(machine.driver, method)(machine.context, guest)
            assert state == machine.state(guest)
    for _twice in range(2):
        machine.driver.destroy(machine.context, guest.uuid)
    assert [THEIRS] == machine.driver.list_instance_uuids()
    with pytest.raises(errors.NotFound):
        machine.state(guest)


@pytest.mark.parametrize("off", [False, True])
def test_a_rebuilt_domain_has_new_disks(machine: Machine, off: bool) -> None:
    """Nothing of the former ones is left. It may be repeated, and the guest may be gone."""
    guest = machine.spawn()
    if off:
        machine.driver.power_off(machine.context, guest)
    written = machine.directory(guest) / "disk"
    pristine = written.read_bytes()
    written.write_bytes(pristine + b"mine")
    for _twice in range(2):
        machine.driver.rebuild(machine.context, guest, guest.image)
        assert (pristine, states.RUNNING) == (written.read_bytes(), machine.state(guest))
    machine.driver.destroy(machine.context, guest.uuid)
    machine.driver.rebuild(machine.context, guest, guest.image)
    assert states.RUNNING == machine.state(guest)


def test_a_rebuild_from_an_image_that_cannot_be_used_leaves_the_guest(machine: Machine, tmp_path: pathlib.Path) -> None:
    """It was not fetched, or not accepted: the guest runs on with what it has written."""
    guest = machine.spawn()
    identity = machine.driver._find(guest.uuid).ID()
    other = dataclasses.replace(guest, attempt=guest.attempt + 1, image=Image(id=factories.uuid(8)))
    (tmp_path / "other").write_bytes(b"")
    for name, disk_format in (("nowhere", "raw"), ("other", "qcow2")):
        record = ImageRecord("new", str(tmp_path / name), other.image.id or "", "", disk_format)
        machine.driver.use_images(lambda _context, _id, record=record: record)
        with pytest.raises((SpawnFailed, errors.ImageUnacceptable)):
            machine.driver.rebuild(machine.context, other, other.image)
        assert (identity, states.RUNNING) == (machine.driver._find(guest.uuid).ID(), machine.state(guest))
    assert (machine.directory(guest) / "disk").exists()


def test_a_suspended_domain_has_its_memory_in_a_file(machine: Machine) -> None:
    """A resume, and a start, restore it. A hard reboot and a deletion remove it."""
    guest = machine.spawn()
    made, domain = machine.driver, machine.driver._find(guest.uuid)
    for again in ("resume", "power_on"):
        for _twice in range(2):
            made.suspend(machine.context, guest)
            assert (states.SHUTDOWN, 1) == (machine.state(guest), domain.hasManagedSaveImage())
        assert "switched_off" not in made.get_per_instance_usage()[guest.uuid]
        for _twice in range(2):
            getattr(made, again)(machine.context, guest)
            assert (states.RUNNING, 0) == (machine.state(guest), domain.hasManagedSaveImage())
    made.suspend(machine.context, guest)
    made.reboot(machine.context, guest, hard=True)
    assert (states.RUNNING, 0) == (machine.state(guest), domain.hasManagedSaveImage())
    made.power_off(machine.context, guest)
    with pytest.raises(SpawnFailed, match="does not run"):
        made.suspend(machine.context, guest)
    made.resume(machine.context, guest)
    made.suspend(machine.context, guest)
    made.destroy(machine.context, guest.uuid)
    assert [THEIRS] == made.list_instance_uuids()


def test_a_spawn_that_fails_leaves_the_domain_that_has_its_uuid(machine: Machine) -> None:
    """Something else has made it: libvirt refuses a second one, and the undoing of the spawn leaves the first."""
    identity = machine.driver._find(THEIRS).ID()
    with pytest.raises(SpawnFailed, match="already"):
        machine.spawn(uuid=THEIRS)
    assert (identity, states.RUNNING) == (machine.driver._find(THEIRS).ID(), machine.driver.get_info(THEIRS).state)
    assert "attempt" not in machine.driver.get_per_instance_usage()[THEIRS]


def test_files_that_a_removal_has_left_are_a_guest(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its deletion is ordered again, and is not done before they are gone."""
    guest = machine.spawn()

    def fail(*_arguments: object) -> None:
        raise OSError("Directory not empty")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", fail)
        with pytest.raises(OSError, match="Directory not empty"):
            machine.driver.destroy(machine.context, guest.uuid)
    assert guest.uuid in machine.driver.list_instance_uuids()
    machine.driver.destroy(machine.context, guest.uuid)
    assert ([THEIRS], []) == (
        machine.driver.list_instance_uuids(),
        [*machine.directory(guest).parent.iterdir()],
    )


def test_a_guest_with_a_damaged_record_is_a_guest(machine: Machine) -> None:
    """Its domain is not defined, as that of a guest which has crashed and was stopped. Its deletion removes the disks."""
    guest = machine.spawn()
    machine.driver._find(guest.uuid).destroy()
    machine.driver._find(guest.uuid).undefine()
    (machine.directory(guest) / "guest.json").write_text("")
    assert guest.uuid in machine.driver.list_instance_uuids()
    machine.driver.destroy(machine.context, guest.uuid)
    assert [] == [*machine.directory(guest).parent.iterdir()]


def test_a_spawn_that_fails_is_undone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """libvirt refuses the domain after its files are made: the reason is kept, and nothing else."""
    monkeypatch.setattr(domain_xml, "build", lambda *_args: "<domain/>")
    with pytest.raises(SpawnFailed, match="The guest cannot be made"):
        machine.spawn()
    assert [THEIRS] == machine.driver.list_instance_uuids()


def test_a_rebuild_that_fails_late_leaves_the_guest_of_the_next(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent has given the first one up meanwhile. Its undo finds the record of another attempt."""
    guest = machine.spawn()
    late, later = (dataclasses.replace(guest, attempt=number) for number in (2, 3))

    def overtaken(*_arguments: object) -> None:
        monkeypatch.undo()
        machine.driver.rebuild(machine.context, later, later.image)
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(machine.driver._disks, "fill", overtaken)
    with pytest.raises(RuntimeError):
        machine.driver.rebuild(machine.context, late, late.image)
    assert states.RUNNING == machine.state(later)


def test_a_domain_that_libvirt_keeps_is_not_taken_for_removed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files stay as well, so the next call finds it."""
    guest = machine.spawn()
    module = library()

    def kept(_domain: object, _flags: int) -> None:
        refusal = module.libvirtError("cannot delete a domain with 1 checkpoint")
        refusal.err = (module.VIR_ERR_OPERATION_INVALID, 0, "kept", 0, "", "", "", 0, 0)
        raise refusal

    with monkeypatch.context() as patched:
        patched.setattr(module.virDomain, "undefineFlags", kept)
        with pytest.raises(module.libvirtError, match="cannot delete"):
            machine.driver.destroy(machine.context, guest.uuid)
    assert states.SHUTDOWN == machine.state(guest)
    assert machine.directory(guest).exists()
    machine.driver.destroy(machine.context, guest.uuid)
    assert [THEIRS] == machine.driver.list_instance_uuids()


def test_a_domain_of_something_else(machine: Machine) -> None:
    """Is counted with its memory, and stays."""
    usage = machine.driver.get_per_instance_usage()[THEIRS]
    assert {"uuid": THEIRS, "memory_mb": 8192, "node": HOST} == usage
    machine.driver.destroy(machine.context, THEIRS)
    assert states.RUNNING == machine.driver.get_info(THEIRS).state


def _copied(text: str) -> str:
    """As virt-clone makes it."""
    root = ElementTree.fromstring(text)
    root.find("name").text = "copy"  # type: ignore[union-attr]
    return ElementTree.tostring(root, encoding="unicode")


STRANGE = [
    ("of another agent on this libvirt", lambda text: text.replace('host="machine"', 'host="other"')),
    ("a copy that an operator has made", _copied),
    ("with a number that is none", lambda text: text.replace('attempt="1"', 'attempt="one"')),
]


@pytest.mark.parametrize("change", [case[1] for case in STRANGE], ids=[case[0] for case in STRANGE])
def test_a_domain_with_a_mark_that_this_host_has_not_made(machine: Machine, change: Callable[[str], str]) -> None:
    """Is one of something else: audits count it, and never destroy it."""
    uuid = builders.an_instance().uuid
    ours = builders.an_instance(uuid=uuid, node=HOST)
    text = domain_xml.build(domain_xml.Machine("test", "none"), ours, HOST, [], pathlib.Path("/console.log"))
    domain = machine.driver._connection.get().defineXML(change(text))
    try:
        assert "attempt" not in machine.driver.get_per_instance_usage()[uuid]
        machine.driver.destroy(machine.context, uuid)
        assert machine.driver._find(uuid) is not None
    finally:
        domain.undefine()


GIB = 2**30
SMALL = {"vcpus": 1, "memory_mb": 64, "root_gb": 1, "swap": 8}
LARGE = {"vcpus": 2, "memory_mb": 96, "root_gb": 2, "ephemeral_gb": 1}


def test_a_resize_is_confirmed(machine: Machine) -> None:
    """The domain and its disks have what the new flavor says; of the former disks nothing is left."""
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))
    assert (1, 64) == machine.shape(guest)
    now = machine.resize(guest, **LARGE)
    assert ((2, 96), states.RUNNING) == (machine.shape(now), machine.state(now))
    assert {"disk": 2 * GIB, "ephemeral": GIB} == machine.sizes(now)
    usage = machine.driver.get_per_instance_usage()[now.uuid]
    assert (96, None) == (usage["memory_mb"], usage.get("switched_off"))
    assert {"vcpus": 2, "memory_mb": 96, "disk_gb": now.flavor.claimed_disk_gb} == usage["resized_to"]
    assert (machine.directory(now) / "before").exists()
    for _twice in range(2):
        machine.driver.forget_former_size(machine.context, now.uuid)
    assert [] == list(machine.directory(now).glob("*before*"))
    assert "resized_to" not in machine.driver.get_per_instance_usage()[now.uuid]
    again = machine.resize(now, **{**LARGE, "root_gb": 3})
    assert 3 * GIB == machine.sizes(again)["disk"]


@pytest.mark.parametrize("running", [False, True], ids=["it is off", "it still runs"])
def test_a_resize_is_reverted(machine: Machine, running: bool) -> None:
    """The disks are byte for byte what they were; those that came with the new flavor are gone."""
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))
    machine.resized(guest, **LARGE)
    before = (machine.directory(guest) / "disk").read_bytes()
    now = machine.resize(guest, **LARGE)
    if not running:
        machine.driver.migrate_disk_and_power_off(machine.context, now, HOST, now.flavor)
        assert machine.driver.get_per_instance_usage()[guest.uuid]["switched_off"]
    for _twice in range(2):
        machine.driver.finish_revert_migration(machine.context, guest)
    assert ((1, 64), states.RUNNING) == (machine.shape(guest), machine.state(guest))
    assert {"disk": GIB, "swap": 8 * 2**20} == machine.sizes(guest)
    assert before == (machine.directory(guest) / "disk").read_bytes()
    assert [] == list(machine.directory(guest).glob("*before*"))


REFUSED = [
    ("a smaller root disk", {**LARGE, "root_gb": 1}, HOST, "the disk disk has 2147483648 bytes, the flavor 1073741824"),
    ("no size", {**LARGE, "root_gb": 0}, HOST, "the disk disk has 2147483648 bytes, the flavor 0"),
    ("no ephemeral disk", {**LARGE, "ephemeral_gb": 0}, HOST, "the disk ephemeral has 1073741824 bytes, the flavor 0"),
    (
        "another host",
        {**LARGE, "root_gb": 3},
        "h2",
        "A move from machine to another host, h2, without .libvirt. migration_uri is not supported",
    ),
]


@pytest.mark.parametrize(("sizes", "host", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_resize_that_is_refused(machine: Machine, sizes: dict[str, int], host: str, reason: str) -> None:
    """Before the guest is switched off; what undoes the move finds it running."""
    guest = machine.spawn(flavor=builders.a_flavor(**LARGE))
    identity = machine.driver._find(guest.uuid).ID()
    with pytest.raises((SpawnFailed, errors.NotSupported), match=reason):
        machine.driver.migrate_disk_and_power_off(machine.context, guest, host, builders.a_flavor(**sizes))
    machine.driver.finish_revert_migration(machine.context, guest)
    assert (identity, states.RUNNING) == (machine.driver._find(guest.uuid).ID(), machine.state(guest))


def test_a_resized_guest_that_does_not_start(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is off, with its former disks, until the move is undone."""
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))
    now = machine.resized(guest, **LARGE)
    with monkeypatch.context() as patched:
        patched.setattr(domain_xml, "build", lambda *_args: "<domain/>")
        with pytest.raises(SpawnFailed, match="The guest cannot be resized"):
            machine.driver.finish_migration(machine.context, now, now.image)
    assert states.SHUTDOWN == machine.state(guest)
    assert {"disk": GIB, "swap": 8 * 2**20} == machine.sizes(guest)
    machine.driver.finish_revert_migration(machine.context, guest)
    assert ((1, 64), states.RUNNING) == (machine.shape(guest), machine.state(guest))


@pytest.mark.parametrize("free", ["too little", "gone meanwhile"])
def test_a_resize_on_a_full_file_system(machine: Machine, monkeypatch: pytest.MonkeyPatch, free: str) -> None:
    """The disks cannot be kept: what was copied of them goes at once, and the guest is as it was after a revert."""
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))
    now, run = machine.resized(guest, **LARGE), commands.run
    copied: list[str] = []

    def no_room(*command: str, **options: Any) -> str:
        if command[0] != "cp":
            return run(*command, **options)
        if "--reflink=always" not in command:
            copied.append(command[-1])
            pathlib.Path(command[-1]).write_bytes(b"half")
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(commands, "run", no_room)
        if free == "too little":
            nothing = shutil.disk_usage(machine.directory(guest))._replace(free=0)
            patched.setattr(shutil, "disk_usage", lambda _path: nothing)
        with pytest.raises(SpawnFailed, match="The guest cannot be resized"):
            machine.driver.finish_migration(machine.context, now, now.image)
    assert (free == "gone meanwhile") == bool(copied)
    assert not (machine.directory(guest) / ".part-before").exists()
    machine.driver.finish_revert_migration(machine.context, guest)
    assert ((1, 64), states.RUNNING) == (machine.shape(guest), machine.state(guest))


def test_a_resize_is_undone_before_its_record_is_written_to_a_full_file_system(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disks grow until there is no room for the record: that comes back with the former disks."""
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))
    now, write = machine.resized(guest, **LARGE), guest_record.write

    def full(path: pathlib.Path, record: GuestRecord) -> None:
        if (path.parent / "before").exists():
            raise OSError("No space left on device")
        write(path, record)

    with monkeypatch.context() as patched:
        patched.setattr(guest_record, "write", full)
        with pytest.raises(SpawnFailed, match="No space left on device"):
            machine.driver.finish_migration(machine.context, now, now.image)
    assert {"disk": GIB, "swap": 8 * 2**20} == machine.sizes(guest)


def test_a_copy_that_a_crash_has_left_makes_room_for_the_record(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))
    left, write = machine.directory(guest) / ".part-before", guest_record.write
    left.mkdir()

    def full(path: pathlib.Path, record: GuestRecord) -> None:
        assert not left.exists(), "No space left on device"
        write(path, record)

    monkeypatch.setattr(guest_record, "write", full)
    machine.resized(guest, **LARGE)
    assert states.SHUTDOWN == machine.state(guest)


def test_a_copy_that_a_crash_has_left_goes_when_the_resize_is_undone(tmp_path: pathlib.Path) -> None:
    """No disk was changed yet."""
    (tmp_path / "disk").write_text("old")
    (tmp_path / ".part-before").mkdir()
    assert resize.is_kept(tmp_path)
    resize.give_back(tmp_path, ("disk",))
    assert ["disk"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("died_at", ["copying", "moving back"])
def test_a_crash_while_disks_are_kept_or_given_back(tmp_path: pathlib.Path, died_at: str) -> None:
    """What the next call finds half-done is done whole, or again."""
    names = ("disk", "swap")
    (tmp_path / "disk").write_text("old")
    if died_at == "copying":
        (tmp_path / ".part-before").mkdir()
        (tmp_path / ".part-before" / "disk").write_text("ol")
    resize.keep(tmp_path, names)
    (tmp_path / "disk").write_text("new")
    (tmp_path / "swap").write_text("new")
    if died_at == "moving back":
        (tmp_path / "swap").unlink()
        (tmp_path / "before").rename(tmp_path / "returning")
    assert resize.is_kept(tmp_path)
    for _twice in range(2):
        resize.give_back(tmp_path, names)
    assert {"disk": "old"} == {path.name: path.read_text() for path in tmp_path.iterdir()}


def test_the_options_of_the_inventory(machine: Machine) -> None:
    """The overhead goes into the claim; this machine has no device of the kind."""
    machine.driver.conf.set_override("memory_overhead_mb", 24, group="libvirt")
    machine.driver.conf.set_override("pci_devices", ["8086:10ed"], group="libvirt")
    assert {"memory_mb": 24} == machine.driver.estimate_instance_overhead(builders.a_flavor())
    found = machine.driver.get_available_resource(HOST)
    assert found is not None
    assert [] == found["pci_passthrough_devices"]
    machine.driver.conf.set_override("bridges", ["br7", "br0"], group="libvirt")
    found = machine.driver.get_available_resource(HOST)
    assert found is not None
    assert "br0,br7" == found["stats"]["bridges"]


def test_disk_that_a_guest_has_written_is_counted_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10 GiB 7 are free: the guest has written 3 of the 5 GiB that its flavor has, and may write 2 more."""
    guest = machine.spawn(flavor=builders.a_flavor(root_gb=5))
    free = shutil.disk_usage(machine.directory(guest))._replace(total=10 * GIB, free=7 * GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: free)
    stat = pathlib.Path.stat

    def written(path: pathlib.Path, **options: Any) -> Any:
        found = stat(path, **options)
        is_disk = path == machine.directory(guest) / "disk"
        return SimpleNamespace(st_blocks=3 * GIB // 512, st_mode=found.st_mode) if is_disk else found

    monkeypatch.setattr(pathlib.Path, "stat", written)
    found = machine.driver.get_available_resource(HOST)
    assert found is not None
    assert (10, 5) == (found["local_gb"], found["disk_available_least"])


def test_a_domain_that_is_made_anew_is_plugged_in(machine: Machine) -> None:
    """The definition of each start has the plugs, as its instance has them."""
    plug = {
        "uuid": factories.uuid(51), "network": factories.uuid(52), "name": "lab", "bridge": "br0", "prefix": 24,
        "address": "192.0.2.10", "mac": "02:00:00:00:00:01", "gateway": None, "dns": [],
    }  # fmt: skip
    instance = machine.spawn(interfaces=[plug])

    def macs() -> list[str | None]:
        text = machine.driver._find(instance.uuid).XMLDesc()
        return [each.get("address") for each in ElementTree.fromstring(text).iter("mac")]

    assert [plug["mac"]] == macs()
    machine.driver.reboot(machine.context, instance, hard=True)
    assert [plug["mac"]] == macs()
    machine.resize(instance, memory_mb=256)
    assert [plug["mac"]] == macs()


class Directory:
    """The files of a guest on its source, in the place of the source's libvirt, whose test driver has none."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.before_read: Callable[[str], None] = lambda name: None

    def stored(self) -> dict[str, int]:
        return {each.name: each.stat().st_blocks * 512 for each in self.path.iterdir() if each.is_file()}

    def read(self, name: str) -> Iterator[bytes | int]:
        self.before_read(name)
        content = (self.path / name).read_bytes()
        for start in range(0, len(content), 1 << 16):
            piece = content[start : start + (1 << 16)]
            yield piece if any(piece) else len(piece)


class TwoHosts:
    """A guest that is resized from one host to another one."""

    def __init__(self, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source, self.destination = (self._host(root / name) for name in ("source", "destination"))
        self.guest = self.source.spawn(flavor=builders.a_flavor(**SMALL))
        self.moved = dataclasses.replace(self.guest, node="destination", flavor=builders.a_flavor(**LARGE))
        self.files = Directory(self.source.directory(self.guest) / "opened")
        self.uris: list[str] = []

        def reach(_opened: object, uri: str, _uuid: str) -> contextlib.AbstractContextManager[Directory]:
            self.uris.append(uri)
            return contextlib.nullcontext(self.files)

        monkeypatch.setattr(peer, "reach", reach)

    @staticmethod
    def _host(root: pathlib.Path) -> Machine:
        """libvirt's test driver has one machine for all connections, unless it reads one from a file."""
        root.mkdir()
        (root / "node.xml").write_text("<node/>")
        uri = f"test://{root}/node.xml"
        return Machine(root, root.name, connection_uri=uri, migration_uri="test://%s/default")

    def switch_off(self) -> None:
        context, flavor = self.source.context, self.moved.flavor
        self.source.driver.migrate_disk_and_power_off(context, self.guest, "destination", flavor)

    def fetch(self, move: str = "move1") -> list[int]:
        """Return the progress that is shown."""
        shown: list[int] = []
        driver = self.destination.driver
        driver.fetch_disks(self.destination.context, self.moved, "source", move, shown.append)
        return shown

    def start(self) -> None:
        self.destination.driver.finish_migration(self.destination.context, self.moved, self.moved.image)

    def pools(self) -> list[str]:
        found = self.source.driver._connection.get().listAllStoragePools()
        return [pool.name() for pool in found]

    def opened(self) -> list[pathlib.Path]:
        """The directories that the source has opened."""
        return [*peer.opened_directories(self.source.driver._connection.get())]


@pytest.fixture
def two_hosts(machine: Machine, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoHosts]:
    """``machine`` tells whether the machine has what they need."""
    hosts = TwoHosts(tmp_path, monkeypatch)
    yield hosts
    for each in (hosts.source, hosts.destination):
        each.driver.destroy(each.context, hosts.guest.uuid)
        each.driver.cleanup_host(each.host)


def test_volumes_come_to_another_host_and_back(two_hosts: TwoHosts) -> None:
    """A guest has those that are named when it starts. The disks of one that has started are not copied again."""
    hosts, data = two_hosts, volume(1, two_hosts.guest.uuid)
    hosts.switch_off()
    hosts.fetch()
    driver, moved = hosts.destination.driver, hosts.moved
    driver.finish_migration(hosts.destination.context, moved, moved.image, [data])
    assert "resized_to" not in driver.get_per_instance_usage()[moved.uuid]
    assert ([], states.RUNNING) == (hosts.fetch(), hosts.destination.state(moved))
    driver.finish_migration(hosts.destination.context, moved, moved.image, [data])
    assert [data.volume_uuid] == serials(hosts.destination, moved)
    hosts.source.driver.finish_revert_migration(hosts.source.context, hosts.guest, [data])
    assert [data.volume_uuid] == serials(hosts.source, hosts.guest)


def test_a_guest_that_is_renamed_meanwhile_is_not_moved_anew(two_hosts: TwoHosts) -> None:
    """The answer to the report was lost, so both steps are repeated. A start would remove the guest that runs."""
    hosts = two_hosts
    hosts.switch_off()
    hosts.fetch()
    hosts.start()
    hosts.moved = dataclasses.replace(hosts.moved, name="another name")
    assert [] == hosts.fetch()
    hosts.start()
    assert states.RUNNING == hosts.destination.state(hosts.moved)


def test_a_resize_after_a_move_is_undone_to_what_the_guest_has_written_since(two_hosts: TwoHosts) -> None:
    """A copy that the move had left would be older."""
    hosts, data = two_hosts, volume(1, two_hosts.guest.uuid)
    hosts.switch_off()
    hosts.fetch()
    there, context = hosts.destination, hosts.destination.context
    there.driver.finish_migration(context, hosts.moved, hosts.moved.image, [data])
    hosts.source.driver.confirm_migration(hosts.source.context, hosts.guest.uuid)
    there.driver.power_off(context, hosts.moved)
    disk = there.directory(hosts.moved) / "disk"
    commands.run("qemu-io", "-f", "qcow2", "-c", "write -P 7 0 64k", str(disk))
    written = disk.read_bytes()
    larger = dataclasses.replace(hosts.moved, flavor=builders.a_flavor(**{**LARGE, "root_gb": 3}))
    there.driver.migrate_disk_and_power_off(context, hosts.moved, "destination", larger.flavor)
    there.driver.finish_migration(context, larger, larger.image, [data])
    there.driver.finish_revert_migration(context, hosts.moved, [data])
    assert written == disk.read_bytes()


def test_disks_come_to_another_host(two_hosts: TwoHosts) -> None:
    """The overlay has its content and its base there, the disks are those of the new flavor, the source is as it was."""
    hosts = two_hosts
    before = (hosts.source.directory(hosts.guest) / "disk").read_bytes()
    hosts.switch_off()
    assert [f"fleet-{hosts.guest.uuid}"] == hosts.pools()
    shown = hosts.fetch()
    assert (["test://source/default"], sorted(shown), True) == (hosts.uris, shown, max(shown) > 50)
    hosts.start()
    there = hosts.destination
    assert ((2, 96), states.RUNNING) == (there.shape(hosts.moved), there.state(hosts.moved))
    assert {"disk": 2 * GIB, "ephemeral": GIB} == there.sizes(hosts.moved)
    commands.run("qemu-img", "compare", *(str(each.directory(hosts.guest) / "base") for each in (hosts.source, there)))
    # Nothing copied again, nothing kept: the source has the former disks.
    assert [] == hosts.fetch()
    hosts.start()
    assert not (there.directory(hosts.moved) / "before").exists()
    assert before == (hosts.source.directory(hosts.guest) / "disk").read_bytes()
    hosts.source.driver.confirm_migration(hosts.source.context, hosts.guest.uuid)
    assert ([], []) == (hosts.pools(), hosts.source.driver.list_instance_uuids())


def test_a_host_that_moves_a_guest_opens_nothing_that_the_guest_prints(two_hosts: TwoHosts) -> None:
    """libvirtd runs as root, and opens each file that a disk header in the pool names. So the pool has neither the console
    log nor a disk while the guest writes to it."""
    hosts, opened = two_hosts, two_hosts.source.directory(two_hosts.guest) / "opened"
    (hosts.source.directory(hosts.guest) / "console.log").write_bytes(b"QFI\xfb")
    constant = {"base", "seed.iso"}
    assert constant == {path.name for path in opened.iterdir()}
    hosts.switch_off()
    assert [opened] == hosts.opened()
    assert {*constant, "disk", "ephemeral"} >= {path.name for path in opened.iterdir()} > constant
    hosts.fetch()
    there = hosts.destination.directory(hosts.guest)
    assert (constant, b"") == (
        {path.name for path in (there / "opened").iterdir()},
        (there / "console.log").read_bytes(),
    )
    hosts.source.driver.finish_revert_migration(hosts.source.context, hosts.guest)
    assert ([], constant) == (hosts.opened(), {path.name for path in opened.iterdir()})


def test_what_an_earlier_release_has_opened_is_closed(two_hosts: TwoHosts) -> None:
    """It has opened the whole directory of a guest, and has made no other one."""
    hosts, made = two_hosts, two_hosts.source.driver
    directory, uuid = hosts.source.directory(hosts.guest), hosts.guest.uuid
    hosts.switch_off()
    shutil.rmtree(directory / "opened")
    made._connection.call(lambda connection: peer.open_directory(connection, uuid, directory))
    made.init_host("source")
    assert [directory / "opened"] == hosts.opened()
    hosts.fetch()
    hosts.start()
    assert states.RUNNING == hosts.destination.state(hosts.moved)


def test_a_guest_that_was_stopped_meanwhile_is_not_started_by_the_end_of_its_move(machine: Machine) -> None:
    """The revert had failed, and its owner has stopped the instance. An audit then ends the move."""
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))
    machine.resize(guest, **{**SMALL, "memory_mb": 1024})
    machine.resized(guest, **{**SMALL, "memory_mb": 1024})
    stopped = dataclasses.replace(guest, vm_state=states.STOPPED)
    machine.driver.power_off(machine.context, stopped)
    assert machine.driver.get_per_instance_usage()[guest.uuid]["switched_off"]
    machine.driver.finish_revert_migration(machine.context, stopped)
    assert states.SHUTDOWN == machine.state(guest)
    assert not {"switched_off", "resized_to"} & machine.driver.get_per_instance_usage()[guest.uuid].keys()
    machine.driver.power_on(machine.context, guest)
    assert (states.RUNNING, (1, 64)) == (machine.state(guest), machine.shape(guest))


def test_a_move_to_another_host_is_reverted(two_hosts: TwoHosts) -> None:
    hosts = two_hosts
    hosts.switch_off()
    hosts.fetch()
    hosts.start()
    hosts.destination.driver.destroy(hosts.destination.context, hosts.moved.uuid)
    assert [] == hosts.destination.driver.list_instance_uuids()
    hosts.source.driver.finish_revert_migration(hosts.source.context, hosts.guest)
    assert ((1, 64), states.RUNNING, []) == (
        hosts.source.shape(hosts.guest),
        hosts.source.state(hosts.guest),
        hosts.pools(),
    )


def test_a_copy_that_fails_leaves_nothing(two_hosts: TwoHosts) -> None:
    """Nor does one that the agent has given up: its directory is another attempt's meanwhile."""
    hosts = two_hosts
    hosts.switch_off()

    def fail(name: str) -> None:
        raise OSError("the connection was lost")

    hosts.files.before_read = fail
    with pytest.raises(SpawnFailed, match="cannot be copied from source: the connection was lost"):
        hosts.fetch()
    assert [] == hosts.destination.driver.list_instance_uuids()

    def replaced(name: str) -> None:
        hosts.files.before_read = lambda name: None
        hosts.destination.driver.destroy(hosts.destination.context, hosts.moved.uuid)
        hosts.fetch("move2")

    hosts.files.before_read = replaced
    with pytest.raises(SpawnFailed, match=r"cannot be copied|removed"):
        hosts.fetch("move1")
    record = hosts.destination.driver._disks.record(hosts.moved.uuid)
    assert record is not None
    assert "move2" == record.move


class GivenUp:
    """Work that takes too long: its caller gives it up in the middle, other work is done, and then it fails."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._abandoned = threading.Event()
        self._raised: list[Exception] = []

    def at(self, place: object, name: str, later: Callable[[], object], fails: bool = True) -> None:
        """:param name: of the method of ``place`` that hangs while ``later`` is done
        :param fails: otherwise it returns, as if it had been slow only
        """

        def hang(*_arguments: object, **_more: object) -> Any:
            self._patch.undo()
            self._abandoned.set()
            self._in_thread(later)
            if fails:
                raise OSError("the storage was away")

        self._patch.setattr(place, name, hang)

    def run(self, work: Callable[[], object]) -> Exception:
        """Return what the work raises in the end."""

        def run() -> None:
            time_limit._RUNNING.abandoned = self._abandoned
            try:
                work()
            except Exception as failure:
                self._raised.append(failure)

        self._in_thread(run)
        return self._raised.pop()

    @staticmethod
    def _in_thread(work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


def _prepare(machine: Machine, guest: Instance, given_up: GivenUp) -> Callable[[], object]:
    """A live migration to this host. A later one has come, and the guest runs here."""
    machine.driver.destroy(machine.context, guest.uuid)

    def later() -> None:
        machine.driver.destroy(machine.context, guest.uuid)
        machine.driver.spawn(machine.context, guest, guest.image)

    given_up.at(machine.driver, "_uri_of", later)
    return lambda: machine.driver.pre_live_migration(machine.context, guest, "elsewhere")


def _spawn(machine: Machine, guest: Instance, given_up: GivenUp) -> Callable[[], object]:
    """An evacuation to this host. A later one has the number of the same build."""
    machine.driver.destroy(machine.context, guest.uuid)

    def later() -> None:
        machine.driver.destroy(machine.context, guest.uuid)
        machine.driver.spawn(machine.context, guest, guest.image)

    given_up.at(machine.driver._disks, "fill", later)
    return lambda: machine.driver.spawn(machine.context, guest, guest.image)


def _resize(machine: Machine, guest: Instance, given_up: GivenUp) -> Callable[[], object]:
    """A resize on this host. It was undone, and the guest was started again."""
    large = machine.resized(guest, vcpus=2, memory_mb=96)
    given_up.at(machine.driver._disks, "grow", lambda: machine.driver.finish_revert_migration(machine.context, guest))
    return lambda: machine.driver.finish_migration(machine.context, large, large.image)


@pytest.mark.parametrize("work", [_prepare, _spawn, _resize])
def test_work_that_was_given_up_undoes_nothing(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Machine, Instance, GivenUp], Callable[[], object]],
) -> None:
    """The guest that is there is that of later work, and runs."""
    guest = machine.spawn()
    before = machine.shape(guest)
    with monkeypatch.context() as patch:
        given_up = GivenUp(patch)
        raised = given_up.run(work(machine, guest, given_up))
    assert "the storage was away" in str(raised)
    assert (before, states.RUNNING) == (machine.shape(guest), machine.state(guest))


def test_a_slow_resize_that_was_given_up_changes_no_disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy of the disks took too long. The resize was undone meanwhile, and the guest was started again."""
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))
    large = machine.resized(guest, **LARGE)

    def undo() -> None:
        machine.driver.finish_revert_migration(machine.context, guest)

    with monkeypatch.context() as patch:
        given_up = GivenUp(patch)
        given_up.at(resize, "keep", undo, fails=False)
        raised = given_up.run(lambda: machine.driver.finish_migration(machine.context, large, large.image))
    assert isinstance(raised, time_limit.Overrun)
    assert {"disk": GIB, "swap": 8 * 2**20} == machine.sizes(guest)
    assert ((1, 64), states.RUNNING) == (machine.shape(guest), machine.state(guest))


def test_a_slow_rebuild_that_was_given_up_removes_no_later_guest(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = machine.spawn()
    later = dataclasses.replace(guest, attempt=2)

    def rebuild() -> None:
        machine.driver.rebuild(machine.context, later, later.image)

    with monkeypatch.context() as patch:
        given_up = GivenUp(patch)
        given_up.at(power, "remove", rebuild, fails=False)
        raised = given_up.run(lambda: machine.driver.rebuild(machine.context, guest, guest.image))
    assert isinstance(raised, time_limit.Overrun)
    assert (states.RUNNING, True) == (machine.state(later), (machine.directory(later) / "disk").exists())


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda driver, guest: driver.power_off(None, guest), id="stop"),
        pytest.param(lambda driver, guest: driver.reboot(None, guest), id="reboot"),
        pytest.param(lambda driver, guest: driver.reboot(None, guest, hard=True), id="hard reboot"),
        pytest.param(lambda driver, guest: driver.suspend(None, guest), id="suspend"),
        pytest.param(lambda driver, guest: driver.destroy(None, guest.uuid), id="destroy"),
        pytest.param(
            lambda driver, guest: driver.attach_volume(None, guest.uuid, volume(1, guest.uuid)), id="a volume comes"
        ),
        pytest.param(
            lambda driver, guest: driver.detach_volume(None, guest.uuid, volume(2, guest.uuid)), id="a volume goes"
        ),
    ],
)
def test_a_libvirt_that_answers_late_does_nothing_that_was_given_up(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, work: Callable[[LibvirtDriver, Instance], object]
) -> None:
    """The conductor has told the owner that the order failed, and the owner goes on using the guest."""
    guest = builders.an_instance(node=HOST, image=Image(id=IMAGE))
    machine.driver.spawn(machine.context, guest, guest.image, [volume(2, guest.uuid)])
    before, connection, over = machine.driver._find(guest.uuid).XMLDesc(), machine.driver._connection, threading.Event()
    answers, times = connection.get, iter([True])
    failures: list[Exception] = []

    def late() -> Any:
        if next(times, False):
            time_limit._RUNNING.abandoned.set()
        return answers()

    def run() -> None:
        time_limit._RUNNING.abandoned = over
        try:
            work(machine.driver, guest)
        except Exception as failure:
            failures.append(failure)

    with monkeypatch.context() as patch:
        patch.setattr(connection, "get", late)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert [time_limit.Overrun] == [type(each) for each in failures]
    assert (states.RUNNING, before) == (machine.state(guest), machine.driver._find(guest.uuid).XMLDesc())


def test_a_slow_copy_that_was_given_up_completes_no_later_one(
    two_hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that dies in the later copy would start the guest from half of its disks."""
    hosts = two_hosts
    hosts.switch_off()
    driver, moved = hosts.destination.driver, hosts.moved

    def begin_again() -> None:
        driver.destroy(hosts.destination.context, moved.uuid)
        driver._disks.begin(dataclasses.replace(GuestRecord.of(moved), move="move1", power_state=states.SHUTDOWN))

    with monkeypatch.context() as patch:
        given_up = GivenUp(patch)
        given_up.at(driver._disks, "receive", begin_again, fails=False)
        given_up.run(lambda: driver.fetch_disks(hosts.destination.context, moved, "source", "move1", print))
    record = driver._disks.record(moved.uuid)
    assert record is not None
    assert states.SHUTDOWN == record.power_state


def test_a_copy_that_was_killed_begins_again(two_hosts: TwoHosts) -> None:
    """Its record says that it is not complete, and that audits leave the guest alone."""
    hosts = two_hosts
    hosts.switch_off()

    class Killed(BaseException):
        pass

    def die(name: str) -> None:
        raise Killed

    driver = hosts.destination.driver
    hosts.files.before_read = die
    remove, driver._disks.remove = driver._disks.remove, lambda _uuid: True  # type: ignore[method-assign]
    with pytest.raises(Killed):
        hosts.fetch()
    driver._disks.remove = remove  # type: ignore[method-assign]
    assert driver.get_per_instance_usage()[hosts.guest.uuid]["switched_off"]
    hosts.files.before_read = lambda name: None
    hosts.fetch()
    hosts.start()
    assert states.RUNNING == hosts.destination.state(hosts.moved)


def test_without_an_address_guests_stay_on_their_host(machine: Machine) -> None:
    """The host says so in its report, so that the conductor refuses such a move beforehand."""
    guest = machine.spawn()
    none = {"disks": "", "shared_storage": "", "live_migration": ""}
    stats = machine.driver.get_available_resource(HOST)["stats"]  # type: ignore[index]
    assert none == {name: stats[name] for name in none}
    with pytest.raises(errors.NotSupported, match="without .libvirt. migration_uri"):
        machine.driver.migrate_disk_and_power_off(machine.context, guest, "elsewhere", guest.flavor)
    with pytest.raises(SpawnFailed, match="it has no .libvirt. migration_uri"):
        machine.driver.fetch_disks(machine.context, builders.an_instance(), "elsewhere", "move1", print)
    assert states.RUNNING == machine.state(guest)


@pytest.fixture
def sharing(machine: Machine, tmp_path: pathlib.Path) -> Iterator[tuple[Machine, Machine]]:
    """Two hosts on one storage. ``machine`` tells whether the machine has what they need."""
    shared = tmp_path / "shared"
    (shared / "libvirt" / "hosts").mkdir(parents=True)
    (shared / "node.xml").write_text("<node/>")
    uri = f"test://{shared}/node.xml"
    hosts = [Machine(shared, name, connection_uri=uri, shared_storage="nfs1") for name in ("dead", "alive")]
    yield hosts[0], hosts[1]
    for each in hosts:
        for uuid in each.driver.list_instance_uuids():
            each.driver.destroy(each.context, uuid)
        each.driver.cleanup_host(each.host)


def test_a_guest_is_taken_over_with_its_disks(sharing: tuple[Machine, Machine]) -> None:
    """The dead host keeps its own names of them until it comes back and destroys its guest; the disks stay."""
    dead, alive = sharing
    guest = dead.spawn(flavor=builders.a_flavor(**SMALL))
    assert [] == alive.driver.list_instance_uuids()
    moved = dataclasses.replace(guest, node="alive", attempt=1)
    disk = dead.place(guest) / "disk"
    assert alive.driver.take_over(alive.context, moved, "dead")
    assert (states.RUNNING, True) == (alive.state(moved), disk.samefile(alive.place(moved) / "disk"))
    dead.driver.destroy(dead.context, guest.uuid)
    assert (False, True) == (disk.exists(), (alive.place(moved) / "disk").exists())
    assert "nfs1" == alive.driver.get_available_resource("alive")["stats"]["shared_storage"]  # type: ignore[index]


def test_a_take_over_that_fails_leaves_the_disks(
    sharing: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, alive = sharing
    guest = dead.spawn(flavor=builders.a_flavor(**SMALL))
    moved = dataclasses.replace(guest, node="alive")
    monkeypatch.setattr(domain_xml, "build", lambda *_args: "<domain/>")
    with pytest.raises(SpawnFailed, match="cannot be started from its disks of dead"):
        alive.driver.take_over(alive.context, moved, "dead")
    assert (True, False) == ((dead.place(guest) / "disk").exists(), alive.place(guest).exists())
    with pytest.raises(SpawnFailed, match="No such file"):
        alive.driver.take_over(alive.context, builders.an_instance(node="alive"), "dead")
    # That one is not on this storage: it is built from its image.
    assert not alive.driver.take_over(alive.context, moved, "elsewhere")
    assert [] == alive.driver.list_instance_uuids()


@pytest.mark.parametrize("at_rest", states.AT_REST)
def test_a_guest_at_rest_is_taken_over_without_a_start(
    sharing: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch, at_rest: str
) -> None:
    """A boot would change disks to which the memory on the former host belongs, if the evacuation fails afterwards."""
    dead, alive = sharing
    guest = dataclasses.replace(dead.spawn(flavor=builders.a_flavor(**SMALL)), vm_state=at_rest)
    moved, started = dataclasses.replace(guest, node="alive", attempt=1), []
    monkeypatch.setattr(alive.driver, "_start", started.append)
    assert alive.driver.take_over(alive.context, moved, "dead")
    alive.driver.power_off(alive.context, moved)
    assert ([], states.SHUTDOWN) == (started, alive.driver.get_info(moved.uuid).state)
    assert "switched_off" not in alive.driver.get_per_instance_usage()[moved.uuid]
    monkeypatch.undo()
    alive.driver.power_on(alive.context, dataclasses.replace(moved, vm_state=states.STOPPED))
    assert states.RUNNING == alive.state(moved)


def test_disks_without_a_record_stay(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    """A crash leaves none: the file is damaged, and what a guest has written is not thrown away for that."""
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))
    there = machine.driver._disks.of(guest.uuid)
    record = there / "guest.json"
    whole = record.read_bytes()
    record.write_bytes(whole[:10])
    (there.parent / builders.an_instance().uuid).mkdir()
    machine.driver.init_host(HOST)
    assert [guest.uuid] == [each.name for each in there.parent.iterdir()]
    assert (there / "disk").exists()
    assert f"The record {record} of a guest cannot be read" in caplog.text
    record.write_bytes(whole)
    assert guest.uuid in machine.driver.get_per_instance_usage()


@pytest.mark.parametrize("lost", ["record", "directory"])
def test_volumes_of_a_guest_without_a_record_are_those_of_its_domain(machine: Machine, lost: str) -> None:
    """It may run on: a volume that counted as detached would be given to another guest, and both would write to it."""
    guest, other = (builders.an_instance(node=HOST, image=Image(id=IMAGE)) for _twice in range(2))
    data = volume(1, guest.uuid)
    machine.driver.spawn(machine.context, guest, guest.image, [data])
    machine.driver.spawn(machine.context, other, other.image, [volume(2, other.uuid)])
    if lost == "record":
        (machine.directory(guest) / "guest.json").write_bytes(b"{")
    else:
        machine.directory(guest).rename(machine.directory(guest).with_name("by-mistake"))
    found = {guest.uuid: [data.volume_uuid], other.uuid: [factories.uuid(2)]}
    assert found == machine.driver.attached_volumes()
    # libvirt's test driver detaches nothing.
    with pytest.raises(library().libvirtError, match="not supported"):
        machine.driver.detach_volume(machine.context, guest.uuid, data)
    with pytest.raises(errors.NotFound):
        machine.driver.detach_volume(machine.context, builders.an_instance().uuid, data)


def test_storage_that_is_not_mounted_is_noticed(
    sharing: tuple[Machine, Machine], machine: Machine, tmp_path: pathlib.Path
) -> None:
    """Otherwise the agent made the directories on its own disk, and the guest of a dead host anew from its image."""
    dead, alive = sharing
    guest = dead.spawn(flavor=builders.a_flavor(**SMALL))
    mounted = tmp_path / "shared" / "libvirt"
    mounted.rename(tmp_path / "away")
    with pytest.raises(SpawnFailed, match="The storage nfs1 is not mounted on alive"):
        alive.driver.take_over(alive.context, guest, "dead")
    with pytest.raises(errors.ConfigError, match="hosts does not exist: mount the storage"):
        Machine(tmp_path / "shared", "alive", shared_storage="nfs1")
    assert not mounted.exists()
    (tmp_path / "away").rename(mounted)
    assert alive.driver.take_over(alive.context, guest, "dead")


def test_guests_from_before_the_storage_was_shared_are_not_lost(machine: Machine, tmp_path: pathlib.Path) -> None:
    machine.spawn()
    with pytest.raises(errors.ConfigError, match="move guests and bases to hosts/host2"):
        Machine(tmp_path, "host2", shared_storage="nfs1")


def test_a_host_with_a_new_name_keeps_its_guests(machine: Machine, tmp_path: pathlib.Path) -> None:
    """The ledger has none of them under that name: an agent that began would destroy each one."""
    guest = machine.spawn()
    with pytest.raises(errors.ConfigError, match="is renamed, and .* has guests of machine: set host to the name"):
        Machine(tmp_path, "renamed")
    machine.driver.init_host(HOST)
    assert states.RUNNING == machine.state(guest)


def test_a_guest_without_a_domain_has_left_only_if_the_destination_has_it(
    machine: Machine, tmp_path: pathlib.Path
) -> None:
    """A domain that was removed by hand has not: the source would remove the only disks of the guest."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "node.xml").write_text("<node/>")
    uri = f"test://{tmp_path}/source/node.xml"
    source = Machine(tmp_path / "source", "source", connection_uri=uri, migration_uri="test:///default")
    guest = source.spawn()
    domain = source.driver._find(guest.uuid)
    domain.destroy()
    domain.undefine()

    def migrate(**options: Any) -> None:
        source.driver.live_migration(source.context, guest, "machine", lambda _percent: None, **options)

    with pytest.raises(LiveMigrationFailed, match="Neither this host nor machine has a domain"):
        migrate()
    arrived = dataclasses.replace(guest, node=HOST)
    machine.driver.spawn(machine.context, arrived, arrived.image)
    migrate()
    source.driver.conf.set_override("migration_uri", "test:///no/such/file", group="libvirt")
    for begin in (True, False):
        with pytest.raises(
            DestinationUnreachable, match="the libvirt of machine does not answer: .* cannot be reached"
        ):
            migrate(begin=begin)
    source.driver.cleanup_host("source")


def test_a_domain_that_vanishes_in_a_migration_that_fails_has_not_left(
    machine: Machine, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has undefined it, and its QEMU has died. The source would remove the only disks of the guest."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "node.xml").write_text("<node/>")
    uri = f"test://{tmp_path}/source/node.xml"
    source = Machine(tmp_path / "source", "source", connection_uri=uri, migration_uri="test:///default")
    guest = source.spawn()
    text = source.driver._find(guest.uuid).XMLDesc()

    def vanish(domain: Any, *_arguments: object) -> str:
        domain.undefine()
        domain.destroy()
        return "the connection to the destination was lost"

    # libvirt's test driver has no migrations.
    monkeypatch.setattr(live, "follow", lambda *_arguments: False)
    monkeypatch.setattr(live, "is_interrupted", lambda _domain: False)
    monkeypatch.setattr(source.driver, "_migrate", vanish)

    def migrate() -> None:
        if source.driver._find(guest.uuid) is None:
            source.driver._connection.call(lambda opened: opened.defineXML(text)).create()
        source.driver.live_migration(source.context, guest, "machine", lambda _percent: None)

    with pytest.raises(LiveMigrationFailed, match="Neither this host nor machine has a domain"):
        migrate()
    # As libvirt has a domain that it still receives.
    receives = machine.driver._connection.call(lambda opened: opened.createXML(text))
    receives.suspend()
    with pytest.raises(RuntimeError, match="machine still receives the guest"):
        migrate()
    receives.resume()
    migrate()
    receives.destroy()
    source.driver.cleanup_host("source")


@pytest.mark.parametrize(
    ("here", "there", "waits"),
    [
        (Part.WHOLE, Part.HALF, False),
        *((Part.HALF, each, True) for each in (Part.HALF, Part.NONE)),
        *((Part.CUT_OFF, each, True) for each in (Part.UNKNOWN, Part.MOVING, Part.HALF, Part.CUT_OFF)),
        *((Part.CUT_OFF, each, False) for each in (Part.NONE, Part.OFF, Part.CRASHED, Part.WHOLE)),
    ],
)
def test_a_half_waits_for_the_other_one_while_that_may_be_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, here: Part, there: Part, waits: bool
) -> None:
    """What libvirt still sends may arrive between two looks."""
    monkeypatch.setattr(live_moves, "_SETTLE_S", 0)
    monkeypatch.setattr(machine.driver, "_part", lambda _uuid: here)
    monkeypatch.setattr(machine.driver, "_part_on", lambda _host, _uuid: there)
    assert waits == machine.driver.waits_for("u", "elsewhere")


@pytest.mark.parametrize(
    ("there", "outcome", "runs"),
    [
        pytest.param(Part.WHOLE, "", True, id="it has arrived: the source is asked to let it go"),
        pytest.param(Part.CRASHED, "", False, id="its QEMU has died, and its disks are the newest"),
        pytest.param(Part.OFF, "", False, id="its machine was restarted"),
        pytest.param(
            Part.NONE, "was switched off: a part of its memory was on there", False, id="it has no domain any more"
        ),
        pytest.param(Part.CUT_OFF, "begun again", True, id="it waits"),
        pytest.param(Part.UNKNOWN, "begun again", True, id="it does not answer"),
    ],
)
def test_an_interrupted_post_copy_goes_on_while_the_destination_has_its_half(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, there: Part, outcome: str, runs: bool
) -> None:
    """If its half is lost there, no host has all of the memory: the guest is off, and starts from its disk."""
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))

    def begin_again(*_arguments: object) -> str:
        raise RuntimeError("begun again")

    # libvirt's test driver has no migrations.
    monkeypatch.setattr(live, "follow", lambda *_arguments: False)
    monkeypatch.setattr(live, "is_interrupted", lambda _domain: True)
    monkeypatch.setattr(machine.driver, "_migrate", begin_again)
    monkeypatch.setattr(machine.driver, "_part_on", lambda _host, _uuid: there)
    failed = (LiveMigrationFailed, RuntimeError)
    with pytest.raises(failed, match=outcome) if outcome else contextlib.nullcontext():
        machine.driver.live_migration(machine.context, guest, "there", lambda _percent: None, begin=False)
    assert runs == (states.RUNNING == machine.state(guest))


def test_a_post_copy_that_ends_between_two_looks_is_no_half(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """QEMU has completed it without libvirt, and the source has forgotten the guest already: it is looked at once more."""
    monkeypatch.setattr(live_moves, "_SETTLE_S", 0)
    parts = [Part.CUT_OFF, Part.CUT_OFF, Part.WHOLE]
    monkeypatch.setattr(machine.driver, "_part", lambda _uuid: parts.pop(0))
    monkeypatch.setattr(machine.driver, "_part_on", lambda _host, _uuid: Part.NONE)
    assert (False, []) == (machine.driver.waits_for("u", "elsewhere"), parts)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([Part.CUT_OFF, Part.WHOLE], "", id="it completes"),
        pytest.param([Part.CUT_OFF, Part.CUT_OFF], "", id="nobody has the rest: its disks are there"),
        pytest.param([Part.HALF], "there still receives the guest", id="it is under way"),
        pytest.param([Part.CRASHED], "", id="it has crashed since"),
    ],
)
def test_a_source_without_the_guest_looks_for_all_of_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, parts: list[Part], expected: str
) -> None:
    monkeypatch.setattr(live_moves, "_SETTLE_S", 0)
    machine.driver.conf.set_override("migration_uri", "test:///default", group="libvirt")
    monkeypatch.setattr(part, "on", lambda _connection, _uuid: parts.pop(0))
    with pytest.raises((LiveMigrationFailed, RuntimeError), match=expected) if expected else contextlib.nullcontext():
        machine.driver._require_arrived("u", "there")
    assert [] == parts


def test_the_part_on_another_host_is_what_its_libvirt_has(machine: Machine) -> None:
    """Without an answer it is unknown."""
    guest, ask = machine.spawn(flavor=builders.a_flavor(**SMALL)), machine.driver._part_on
    assert Part.UNKNOWN is ask("elsewhere", guest.uuid)
    machine.driver.conf.set_override("migration_uri", "test:///no/such/file", group="libvirt")
    assert Part.UNKNOWN is ask("elsewhere", guest.uuid)
    machine.driver.conf.set_override("migration_uri", "test:///default", group="libvirt")
    assert (Part.WHOLE, Part.NONE) == (ask("elsewhere", guest.uuid), ask("elsewhere", factories.uuid(1)))


def test_a_guest_has_arrived_when_libvirt_keeps_its_domain(machine: Machine) -> None:
    """Its source is lost. If it was shut down from inside since, it would be destroyed as what a failed move has left."""
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))
    domain = machine.driver._find(guest.uuid)
    assert machine.driver.has_arrived(guest.uuid)
    domain.destroy()
    assert (states.SHUTDOWN, True) == (machine.state(guest), machine.driver.has_arrived(guest.uuid))
    text = domain.XMLDesc()
    domain.undefine()
    assert not machine.driver.has_arrived(guest.uuid)
    # As libvirt has a domain that it still receives.
    machine.driver._connection.call(lambda opened: opened.createXML(text)).suspend()
    assert (states.PAUSED, False) == (machine.state(guest), machine.driver.has_arrived(guest.uuid))


def test_a_guest_of_another_host_on_the_same_storage_is_not_destroyed(machine: Machine, tmp_path: pathlib.Path) -> None:
    """Both hosts were empty when they began. An audit destroys a guest of this fleet that the ledger has elsewhere."""
    (tmp_path / "node.xml").write_text("<node/>")
    other = Machine(tmp_path, "other", connection_uri=f"test://{tmp_path}/node.xml")
    guest = machine.spawn()
    usage = other.driver.get_per_instance_usage()
    assert {"uuid": guest.uuid, "memory_mb": 512, "node": "other"} == usage[guest.uuid]
    assert set() == recovery.own_guests(usage)
    assert {guest.uuid} == recovery.own_guests(machine.driver.get_per_instance_usage())
    other.driver.cleanup_host("other")


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda driver, guest: driver.destroy(None, guest.uuid), id="a failed move is undone"),
        pytest.param(
            lambda driver, guest: driver.fetch_disks(builders.a_context(), guest, HOST, "move1", print), id="a resize"
        ),
        pytest.param(lambda driver, guest: driver.pre_live_migration(None, guest, HOST), id="a live migration"),
        pytest.param(lambda driver, guest: driver.rebuild(None, guest, guest.image), id="an evacuation"),
    ],
)
def test_a_move_to_another_host_on_the_same_storage_leaves_the_disks(
    machine: Machine, tmp_path: pathlib.Path, work: Callable[[LibvirtDriver, Instance], object]
) -> None:
    """Its directory has the name of the guest's: what looks like the remains of an earlier move are the only disks."""
    (tmp_path / "node.xml").write_text("<node/>")
    other = Machine(tmp_path, "other", connection_uri=f"test://{tmp_path}/node.xml", migration_uri="test://%s/default")
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL))
    moved = dataclasses.replace(guest, node="other")
    with contextlib.suppress(SpawnFailed):
        work(other.driver, moved)
    assert (states.RUNNING, {"disk": GIB, "swap": 8 * 2**20}) == (machine.state(guest), machine.sizes(guest))
    assert {guest.uuid} == recovery.own_guests(machine.driver.get_per_instance_usage())
    other.driver.cleanup_host("other")
