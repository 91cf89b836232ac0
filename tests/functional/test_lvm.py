# SPDX-License-Identifier: Apache-2.0
"""The driver lvm on a volume group of its own, on a loop device.

Where the kernel has no device mapper, lvm2 changes the group's metadata only. What is written to volumes is recorded
then, and thin pools are left out.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from oslo_utils import units

from fleet import errors
from fleet.agent import commands
from fleet.objects import VolumeImage
from tests.unit.volume_agent.builders import options, stored, volume
from volume_agent.drivers.blocks import Blocks
from volume_agent.drivers.lvm import LvmDriver
from volume_agent.drivers.volume_group import LogicalVolume, VolumeGroup

SIZE_GB = 12


class RecordedBlocks(Blocks):
    """What would be written to devices that there are not: ranges of zeros, and copies."""

    def __init__(self) -> None:
        self.zeroed: list[tuple[str, int, int]] = []
        self.copied: list[tuple[str, str]] = []

    def zero(self, device: pathlib.Path, offset: int, length: int) -> None:
        self.zeroed.append((device.name, offset // units.Gi, length // units.Gi))

    def copy(self, source: pathlib.Path, to: pathlib.Path, length: int) -> None:
        self.copied.append((source.name, to.name))

    def flush(self, device: pathlib.Path) -> None: ...


@dataclasses.dataclass(frozen=True)
class VolumeGroupInUse:
    """A volume group. ``pools``: pools of drivers on it; ``live``: its volumes have devices."""

    group: VolumeGroup
    pools: dict[str, str]
    live: bool

    def driver(self, blocks: Blocks | None = None) -> LvmDriver:
        made = LvmDriver(options(lvm_pools=self.pools), lambda _name: self.group, blocks or self.blocks())
        made.init_backend()
        return made

    def blocks(self) -> Blocks:
        return Blocks() if self.live else RecordedBlocks()

    def names(self) -> list[str]:
        return sorted(each.name for each in self.group.volumes())


@pytest.fixture
def world(loop_devices: None, device_mapper: bool, tmp_path: pathlib.Path) -> Iterator[VolumeGroupInUse]:
    disk = tmp_path / "disk"
    disk.touch()
    os.truncate(disk, SIZE_GB * units.Gi)
    device = commands.run("losetup", "--find", "--show", str(disk)).strip()
    plain = () if device_mapper else ("--driverloaded", "n")
    name = f"fleet-test-{os.getpid()}"
    try:
        commands.run("vgcreate", *plain, name, device)
        pools = {"thick": name}
        if device_mapper:
            commands.run("lvcreate", "--yes", "--type", "thin-pool", "--size", "4G", "--name", "pool", name)
            pools["thin"] = f"{name}/pool"
        yield VolumeGroupInUse(VolumeGroup(name, plain), pools, device_mapper)
        commands.run("vgremove", *plain, "--yes", name)
    finally:
        commands.run("losetup", "--detach", device)


@pytest.fixture(params=["thick", "thin"])
def pool(request: pytest.FixtureRequest, world: VolumeGroupInUse) -> str:
    if request.param not in world.pools:
        pytest.skip("the kernel has no device mapper")
    return request.param


def test_volumes_and_snapshots_are_logical_volumes(world: VolumeGroupInUse, pool: str) -> None:
    """Each step may be repeated; extents are whole, so sizes are exact."""
    driver, made = world.driver(), volume(pool, 1)
    snapshot = volume(pool, 1, source_uuid=made.uuid, snapshot_of=made.uuid)
    restored = volume(pool, 2, source_uuid=snapshot.uuid)
    for each in (made, snapshot, made, restored):
        driver.create(each)
    for _ in range(2):
        driver.extend(made, 3)
    assert {made.uuid: (pool, 3), snapshot.uuid: (pool, 1), restored.uuid: (pool, 2)} == stored(driver)
    assert {f"volume-{made.uuid}", f"snap-{snapshot.uuid}"} < set(world.names())
    for each in (snapshot, made, restored, made):
        driver.delete(each.uuid, pool)
    assert {} == stored(driver)


def test_a_volume_is_a_block_device_with_its_uuid(world: VolumeGroupInUse) -> None:
    driver, made = world.driver(), volume("thick", 1)
    driver.create(made)
    found = driver.connection(made.uuid, "thick")
    assert ("block", f"/dev/{world.group.name}/volume-{made.uuid}", "raw") == (found.kind, found.path, found.format)
    driver.delete(made.uuid, "thick")
    with pytest.raises(FileNotFoundError):
        driver.connection(made.uuid, "thick")


def test_pools_report_what_the_group_has(world: VolumeGroupInUse) -> None:
    """A group is thick, and a thin pool is thin. What the group has given to volumes is not free."""
    driver = world.driver()
    before = {each["pool_name"]: each for each in driver.stats()["pools"]}["thick"]
    driver.create(volume("thick", 2))
    after = {each["pool_name"]: each for each in driver.stats()["pools"]}["thick"]
    assert (2.0, 2) == (before["free_capacity_gb"] - after["free_capacity_gb"], after["provisioned_capacity_gb"])
    assert (False, True) == (after["thin_provisioning_support"], after["thick_provisioning_support"])
    assert SIZE_GB - 0.1 < after["total_capacity_gb"] <= SIZE_GB
    assert f"lvm:{world.group.name}" == after["location_info"]


def test_a_group_that_is_full_refuses_and_is_left_as_it_was(world: VolumeGroupInUse) -> None:
    """A volume that cannot be extended keeps its size."""
    driver, made = world.driver(), volume("thick", 1)
    driver.create(made)
    with pytest.raises(OSError, match="insufficient free space"):
        driver.create(volume("thick", SIZE_GB + 1))
    with pytest.raises(OSError, match="[Ii]nsufficient free space"):
        driver.extend(made, SIZE_GB + 1)
    assert {made.uuid: ("thick", 1)} == stored(driver)
    assert [()] == [each.tags for each in world.group.volumes() if each.name == f"volume-{made.uuid}"]


def test_a_crash_leaves_the_volume_or_nothing(world: VolumeGroupInUse, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is half-made has another name, and is removed at the next start."""

    class Crash(BaseException):
        """The machine stops: no handler runs."""

    def crash(*_arguments: str) -> None:
        raise Crash

    driver = world.driver()
    with monkeypatch.context() as stopped:
        stopped.setattr(world.group.__class__, "rename", crash)
        stopped.setattr(world.group.__class__, "remove", crash)
        with pytest.raises(Crash):
            driver.create(volume("thick", 1))
    assert ({}, True) == (stored(driver), any(name.startswith("part-volume-") for name in world.names()))
    driver.init_backend()
    assert not any(name.startswith("part-") for name in world.names())


def test_the_space_of_a_thick_volume_is_zeroed_before_it_is_one(world: VolumeGroupInUse) -> None:
    """All of it, and all that it grows by. A copy is written after that."""
    blocks = RecordedBlocks()
    driver, made = world.driver(blocks), volume("thick", 1)
    driver.create(made)
    copy = volume("thick", 2, source_uuid=made.uuid)
    driver.create(copy)
    driver.extend(made, 3)
    assert [(f"part-volume-{made.uuid}", 0, 1), (f"part-volume-{copy.uuid}", 0, 2), (f"volume-{made.uuid}", 1, 2)] == (
        blocks.zeroed
    )
    assert [(f"volume-{made.uuid}", f"part-volume-{copy.uuid}")] == blocks.copied


def test_an_extension_that_was_cut_short_is_zeroed_when_it_is_repeated(
    world: VolumeGroupInUse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag of the volume says from where. One that fails leaves the old size."""
    blocks = RecordedBlocks()
    driver, made = world.driver(blocks), volume("thick", 1)
    driver.create(made)

    class Crash(BaseException):
        """The machine stops: no handler runs."""

    def stop(failure: BaseException) -> Callable[..., None]:
        def fail(*_arguments: object) -> None:
            raise failure

        return fail

    with monkeypatch.context() as stopped:
        stopped.setattr(blocks, "zero", stop(Crash()))
        with pytest.raises(Crash):
            driver.extend(made, 3)
    assert {made.uuid: ("thick", 1)} == stored(driver), "what is not zeroed does not count"
    blocks.zeroed.clear()
    driver.extend(made, 3)
    driver.extend(made, 3)
    assert [(f"volume-{made.uuid}", 1, 2)] == blocks.zeroed
    with monkeypatch.context() as broken:
        broken.setattr(blocks, "zero", stop(OSError("broken")))
        with pytest.raises(OSError, match="broken"):
            driver.extend(made, 5)
    assert {made.uuid: ("thick", 3)} == stored(driver)


def test_an_extension_that_fails_at_its_end_is_none(world: VolumeGroupInUse, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size before says so, and the next one does not take the present end of the data for their old one."""
    blocks = RecordedBlocks()
    driver, made = world.driver(blocks), volume("thick", 1)
    driver.create(made)
    with monkeypatch.context() as broken:

        def hang(*_arguments: object) -> None:
            raise OSError("lvchange did not end")

        broken.setattr(VolumeGroup, "untag", hang)
        with pytest.raises(OSError, match="lvchange"):
            driver.extend(made, 2)
    assert {made.uuid: ("thick", 1)} == stored(driver)
    driver.extend(made, 2)
    blocks.zeroed.clear()
    driver.extend(made, 3)
    assert ({made.uuid: ("thick", 3)}, [(f"volume-{made.uuid}", 2, 1)]) == (stored(driver), blocks.zeroed)


def test_volumes_of_others_in_the_group_stay(world: VolumeGroupInUse) -> None:
    """Whatever their names begin with."""
    world.group.create("part-home", units.Gi)
    driver = world.driver()
    assert ["part-home"] == [each.reference for each in driver.manageable()]
    world.group.remove("part-home")


def test_data_stay_with_volumes(world: VolumeGroupInUse, pool: str, tmp_path: pathlib.Path) -> None:
    """A volume of an image, its snapshot, and what it is when it migrates to another pool."""
    if not world.live:
        pytest.skip("the kernel has no device mapper")
    source = tmp_path / "image"
    source.write_bytes(b"boot" + bytes(units.Mi))
    driver, made = world.driver(), volume(pool, 1, image=VolumeImage("i", "linux", str(source)))
    driver.create(made)
    device = world.group.device(f"volume-{made.uuid}")
    with open(device, "rb") as file:
        assert b"boot" + bytes(2 * units.Mi) == file.read(2 * units.Mi + 4)
    snapshot = volume(pool, 1, source_uuid=made.uuid, snapshot_of=made.uuid)
    driver.create(snapshot)
    with open(device, "r+b") as file:
        file.write(b"gone")
    with open(world.group.device(f"snap-{snapshot.uuid}"), "rb") as file:
        assert b"boot" == file.read(4)


WRONG = [
    ("no pool", {}, "names no pool"),
    ("a path", {"p": "/dev/vg"}, "neither a volume group nor GROUP/POOL"),
    ("an option", {"p": "--force"}, "neither a volume group"),
    ("two pools", {"p": "vg/a/b"}, "neither a volume group"),
    ("one place twice", {"p": "vg/a", "q": "vg/a"}, "has vg/a twice, as pools p and q"),
]


@pytest.mark.parametrize(("_what", "pools", "said"), WRONG, ids=[case[0] for case in WRONG])
def test_wrong_pools_stop_the_agent(loop_devices: None, _what: str, pools: dict[str, str], said: str) -> None:
    """The message names the option."""
    with pytest.raises(errors.ConfigError, match=said):
        LvmDriver(options(lvm_pools=pools))


def test_a_source_on_another_machine_is_refused(world: VolumeGroupInUse) -> None:
    """Before anything is made."""
    driver = world.driver()
    for place, said in (("lvm:elsewhere", "not on this machine"), ("directory:/srv", "in no volume group")):
        with pytest.raises(FileNotFoundError, match=said):
            driver.receive(volume("thick", 1, copy_from=place), "thick")
    assert {} == stored(driver)


def test_a_volume_does_not_move_within_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pools may be in one group, which has each name once. Nothing is copied in vain."""
    group: Any = SimpleNamespace(name="vg", volumes=list)
    monkeypatch.setattr(commands, "find", lambda program: program)
    monkeypatch.setattr(pathlib.Path, "is_block_device", lambda _path: True)
    driver = LvmDriver(options(lvm_pools={"thick": "vg", "thin": "vg/pool"}), lambda _name: group)
    with pytest.raises(FileExistsError, match="pool thin is in the volume group where the volume is"):
        driver.receive(volume("thick", 1, copy_from="lvm:vg"), "thin")


def test_a_thin_volume_has_stored_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thick one takes all of its size. Of a thin one that is not active LVM does not tell it."""
    there = [
        LogicalVolume("pool", 40 * units.Gi, data_percent=50.0, attributes="twi-aotz--"),
        LogicalVolume("written", 8 * units.Gi, "pool", 30.0, attributes="Vwi-a-tz--"),
        LogicalVolume("inactive", 8 * units.Gi, "pool", attributes="Vwi---tz--"),
        LogicalVolume("plain", 8 * units.Gi),
    ]
    group: Any = SimpleNamespace(name="vg", volumes=lambda: there)
    monkeypatch.setattr(commands, "find", lambda program: program)
    driver = LvmDriver(options(lvm_pools={"thick": "vg", "thin": "vg/pool"}), lambda _name: group)
    listed = {each.reference: each.stored_gb for each in driver.manageable()}
    assert {"written": 2, "inactive": 0, "plain": 8} == listed
    for name, stored_gb in listed.items():
        assert stored_gb == driver.measure(name, "thick" if name == "plain" else "thin").stored_gb


def test_a_logical_volume_becomes_a_volume(world: VolumeGroupInUse, pool: str) -> None:
    """It grows to whole GiB by zeros, and keeps its data; afterwards it is a logical volume again."""
    driver = world.driver()
    if pool == "thin":
        world.group.create_thin("mine", units.Gi + 2**22, "pool")
    else:
        world.group.create("mine", units.Gi + 2**22)
    (seen,) = [each for each in driver.manageable() if each.pool == pool]
    # Nothing is written in a new thin volume.
    assert ("mine", 2, 1 if pool == "thick" else 0) == (seen.reference, seen.size_gb, seen.stored_gb)
    wanted = volume(pool, reference="mine", claimed_gb=2)
    if seen.reason:
        pytest.skip(seen.reason)
    for _repeated in range(2):
        driver.manage(wanted)
    assert ({wanted.uuid: (pool, 2)}, True) == (stored(driver), f"volume-{wanted.uuid}" in world.names())
    with pytest.raises(errors.InvalidReference, match="it belongs to a volume"):
        driver.measure(f"volume-{wanted.uuid}", pool)
    for _repeated in range(2):
        driver.unmanage(wanted.uuid, pool)
    assert ({}, True) == (stored(driver), f"unmanaged-{wanted.uuid}" in world.names())
    with pytest.raises(errors.InvalidReference, match="no such logical volume"):
        driver.measure("mine", pool)
    driver._pool(pool).group.remove(f"unmanaged-{wanted.uuid}")


NOT_MANAGED = [
    ("it is a snapshot", LogicalVolume("mine", units.Gi, attributes="swi-a-s---"), "no plain or thin"),
    ("it has a snapshot", LogicalVolume("mine", units.Gi, attributes="owi-a-s---"), "no plain or thin"),
    ("it is a thin pool", LogicalVolume("mine", units.Gi, attributes="twi-aotz--"), "no plain or thin"),
    ("a program has it open", LogicalVolume("mine", units.Gi, attributes="-wi-ao----"), "a program has it open"),
    (
        "it is thin, and the pool is not",
        LogicalVolume("mine", units.Gi, "tp", attributes="Vwi-a-tz--"),
        "not in pool p",
    ),
]


@pytest.mark.parametrize(("_what", "there", "said"), NOT_MANAGED, ids=[case[0] for case in NOT_MANAGED])
def test_what_depends_on_others_is_refused(_what: str, there: LogicalVolume, said: str) -> None:
    class Group(VolumeGroup):
        def volumes(self) -> list[LogicalVolume]:
            return [there]

    driver = LvmDriver(options(lvm_pools={"p": "vg"}), Group)
    with pytest.raises(errors.InvalidReference, match=said):
        driver.measure("mine", "p")
