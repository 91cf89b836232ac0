# SPDX-License-Identifier: Apache-2.0
"""Drivers: what every driver does, and what a directory does when something goes wrong."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import os
import pathlib
import shutil
import struct
import types
from collections.abc import Callable
from typing import Any

import pytest
from oslo_utils import units, uuidutils

from fleet import errors, json_codec
from fleet.objects import Volume
from tests.unit.volume_agent.builders import options, stored, volume
from volume_agent import drivers
from volume_agent.backends.backend import Backend, Policy
from volume_agent.drivers.base import VolumeDriver
from volume_agent.drivers.directory import DirectoryDriver
from volume_agent.drivers.fake import FakeDriver, FakeVolumeFailure

Make = Callable[[], VolumeDriver]


def directory(path: pathlib.Path, **given: Any) -> DirectoryDriver:
    driver = DirectoryDriver(options(directory_pools={"p1": str(path / "p1"), "p2": str(path / "p2")}, **given))
    driver.init_backend()
    return driver


@pytest.fixture(params=["raw", "qcow2", "fake"])
def driver(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> VolumeDriver:
    if request.param == "fake":
        return FakeDriver(options(fake_pools={"p1": "1000", "p2": "1000"}))
    if request.param == "qcow2" and shutil.which("qemu-img") is None:
        pytest.skip("qemu-img is not installed")
    return directory(tmp_path, volume_format=request.param)


def test_a_volume_is_made_and_removed(driver: VolumeDriver) -> None:
    """Each step may be repeated."""
    one, other = volume("p1", 3), volume("p2", 5)
    for each in (one, other, one):
        driver.create(each)
    assert {one.uuid: ("p1", 3), other.uuid: ("p2", 5)} == stored(driver)
    for _ in range(2):
        driver.delete(one.uuid, "p1")
    assert {other.uuid: ("p2", 5)} == stored(driver)


def test_a_volume_tells_where_its_data_are(driver: VolumeDriver) -> None:
    """By a path with its uuid, and the format that the driver has given it."""
    made = volume(size_gb=1)
    driver.create(made)
    assert made.pool is not None
    found = driver.connection(made.uuid, made.pool)
    assert found.kind == ("fake" if driver.simulated else "file")
    assert ("qcow2" if found.path.endswith(".qcow2") else "raw") == found.format
    assert made.uuid in found.path
    assert driver.simulated or pathlib.Path(found.path).exists()
    driver.delete(made.uuid, made.pool)
    with pytest.raises(FileNotFoundError):
        driver.connection(made.uuid, made.pool)


def test_a_volume_is_extended(driver: VolumeDriver) -> None:
    """It is never made smaller, so a late order does no harm."""
    made = volume("p1", 3)
    driver.create(made)
    for _ in range(2):
        driver.extend(made, 5)
    assert {made.uuid: ("p1", 5)} == stored(driver)


def test_a_copy_may_be_larger_than_its_source(driver: VolumeDriver) -> None:
    """A source that is gone is an error."""
    source = volume("p1", 1)
    driver.create(source)
    copy = volume("p1", 2, source_uuid=source.uuid)
    for _ in range(2):
        driver.create(copy)
    assert {source.uuid: ("p1", 1), copy.uuid: ("p1", 2)} == stored(driver)
    with pytest.raises((OSError, FakeVolumeFailure), match="volume"):
        driver.create(volume("p1", 2, source_uuid=volume().uuid))
    assert 2 == len(stored(driver))


def test_a_copy_has_its_size_although_its_source_was_extended(driver: VolumeDriver) -> None:
    """Between the request for the copy and its turn."""
    source = volume("p1", 2)
    driver.create(source)
    driver.extend(source, 3)
    copy = volume("p1", 2, source_uuid=source.uuid)
    driver.create(copy)
    assert {source.uuid: ("p1", 3), copy.uuid: ("p1", 2)} == stored(driver)


def test_a_snapshot_keeps_the_data(driver: VolumeDriver) -> None:
    """It has the size of its volume at the time, whatever becomes of the volume; a volume may begin with it."""
    made = volume("p1", 1)
    driver.create(made)
    snapshot = volume("p1", 1, source_uuid=made.uuid, snapshot_of=made.uuid)
    for _ in range(2):
        driver.create(snapshot)
    driver.extend(made, 2)
    restored = volume("p1", 3, source_uuid=snapshot.uuid)
    driver.create(restored)
    driver.delete(made.uuid, "p1")
    assert {snapshot.uuid: ("p1", 1), restored.uuid: ("p1", 3)} == stored(driver)
    for _ in range(2):
        driver.delete(snapshot.uuid, "p1")
    assert {restored.uuid} == stored(driver).keys()


def location(driver: VolumeDriver, pool: str) -> str:
    return next(each["location_info"] for each in driver.stats()["pools"] if each["pool_name"] == pool)


def test_a_volume_is_copied_to_another_pool(driver: VolumeDriver) -> None:
    """It is on both until the first one is removed."""
    made = volume("p1", 3)
    driver.create(made)
    moving = dataclasses.replace(made, copy_from=location(driver, "p1"))
    for _ in range(2):
        driver.receive(moving, "p2")
    assert [("p1", 3), ("p2", 3)] == sorted((each.pool, each.size_gb) for each in driver.volumes())
    driver.delete(made.uuid, "p1")
    assert {made.uuid: ("p2", 3)} == stored(driver)
    with pytest.raises((OSError, FakeVolumeFailure), match="data"):
        driver.receive(dataclasses.replace(made, copy_from="elsewhere"), "p1")


def test_an_old_copy_of_another_format_is_replaced(tmp_path: pathlib.Path) -> None:
    """A lost attempt has left a raw file there, and the volume is an image: its guest must not get the empty disk."""
    driver, made = directory(tmp_path), volume()
    name = f"volume-{made.uuid}"
    (tmp_path / "p1" / f"{name}.qcow2").write_bytes(image_header(size=units.Gi))
    (tmp_path / "p2" / name).touch()
    driver.receive(dataclasses.replace(made, copy_from=location(driver, "p1"), old_copy=True), "p2")
    found = driver.connection(made.uuid, "p2")
    assert (str(tmp_path / "p2" / f"{name}.qcow2"), "qcow2") == (found.path, found.format)
    assert [f"{name}.qcow2"] == [path.name for path in (tmp_path / "p2").glob("[!.]*")]


def test_an_old_copy_is_replaced(tmp_path: pathlib.Path) -> None:
    """Only if the ledger knows it, and only when the new one is whole."""
    driver, made = directory(tmp_path), volume()
    driver.create(made)
    source, copy = (tmp_path / pool / f"volume-{made.uuid}" for pool in ("p1", "p2"))
    moving = dataclasses.replace(made, copy_from=location(driver, "p1"))
    driver.receive(moving, "p2")

    def begin() -> bytes:
        with open(copy, "rb") as file:
            return file.read(3)

    with open(source, "r+b") as file:
        file.write(b"new")
    driver.receive(moving, "p2")
    assert bytes(3) == begin()
    driver.receive(dataclasses.replace(moving, old_copy=True), "p2")
    assert b"new" == begin()
    source.unlink()
    with pytest.raises(FileNotFoundError, match="has no volume or snapshot"):
        driver.receive(dataclasses.replace(moving, old_copy=True), "p2")
    assert b"new" == begin()


def test_two_pools_cannot_be_one_directory(tmp_path: pathlib.Path) -> None:
    """Each would take the volumes of the other for copies that an aborted migration has left."""
    (tmp_path / "p1").mkdir()
    (tmp_path / "p2").symlink_to(tmp_path / "p1")
    with pytest.raises(OSError, match="pools p1 and p2 are one directory"):
        directory(tmp_path)


def test_two_backends_cannot_have_one_directory(tmp_path: pathlib.Path) -> None:
    """Each would remove what the other writes, and take its volumes for copies. A backend that has ended is succeeded."""
    one, other = directory(tmp_path), DirectoryDriver(options(directory_pools={"p": str(tmp_path / "p1")}))
    part = tmp_path / "p1" / f".part-volume-{uuidutils.generate_uuid()}"
    part.touch()
    for _ in range(2):
        with pytest.raises(OSError, match="pool p: .*/p1 cannot be served: another backend serves it"):
            other.init_backend()
    assert part.exists()
    one.init_backend()
    del one
    other.init_backend()
    other.create(made := volume("p"))
    assert {made.uuid: ("p", 1)} == stored(other)


def test_a_file_system_that_is_unmounted_under_the_backend_is_missed(tmp_path: pathlib.Path) -> None:
    """Nothing is made, or taken for removed, in the directory below the mount point: the mount would hide it later."""
    driver, made, given_up = directory(tmp_path), volume(), volume()
    for each in (made, given_up):
        driver.create(each)
    (tmp_path / "p1").rename(tmp_path / "away")
    (tmp_path / "p1").mkdir()
    works: list[Callable[[], object]] = [
        lambda: driver.create(volume()),
        lambda: driver.delete(made.uuid, "p1"),
        lambda: driver.unmanage(given_up.uuid, "p1"),
        lambda: driver.connection(made.uuid, "p1"),
        *(driver.stats, driver.volumes, driver.manageable),
    ]
    for work in works:
        with pytest.raises(OSError, match="the file system of .*/p1 was unmounted while it was served"):
            work()
    (tmp_path / "p1").rmdir()
    with pytest.raises(FileNotFoundError):
        driver.delete(made.uuid, "p1")
    (tmp_path / "away").rename(tmp_path / "p1")
    driver.delete(made.uuid, "p1")
    driver.unmanage(given_up.uuid, "p1")
    assert ({}, [f"unmanaged-{given_up.uuid}"]) == (stored(driver), os.listdir(tmp_path / "p1"))


def test_a_volume_does_not_move_to_where_it_is(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pools of two backends may be one directory, if its file system has no locks. Its source, which would be removed
    then, is its only copy.
    """

    def lock(_descriptor: int, _how: int) -> None:
        raise OSError(errno.EBADF, "not of a directory")

    monkeypatch.setattr(fcntl, "flock", lock)
    one, other = directory(tmp_path), directory(tmp_path)
    made = volume("p1", 3)
    one.create(made)
    with pytest.raises(FileExistsError, match="is the one that the volume is on already, under another name"):
        other.receive(dataclasses.replace(made, copy_from=location(one, "p1")), "p1")


def test_files_of_others_stay(tmp_path: pathlib.Path) -> None:
    """Whatever their names begin with. What is half-made goes."""
    made = volume("p1", 1)
    (tmp_path / "p1").mkdir()
    for name in (".part-iso", f".part-volume-{made.uuid}", f".part-volume-{made.uuid}.qcow2.image"):
        (tmp_path / "p1" / name).touch()
    directory(tmp_path)
    assert [".part-iso"] == [each.name for each in (tmp_path / "p1").iterdir()]


def test_each_pool_is_reported(driver: VolumeDriver) -> None:
    """With its capacity, and the sum of the sizes of its volumes."""
    driver.create(volume("p2", 7))
    pools = {each["pool_name"]: each for each in driver.stats()["pools"]}
    assert {"p1": 0, "p2": 7} == {name: pool["provisioned_capacity_gb"] for name, pool in pools.items()}
    assert pools["p1"]["thin_provisioning_support"]
    assert pools["p1"]["total_capacity_gb"] > 0


def test_a_pool_that_does_not_exist_is_an_error(driver: VolumeDriver) -> None:
    """The volume then goes to another backend."""
    with pytest.raises((OSError, FakeVolumeFailure), match="there is no pool other"):
        driver.create(volume("other"))


def test_a_raw_volume_is_a_sparse_file(tmp_path: pathlib.Path) -> None:
    """It has the size of the volume, and occupies no space until it is written."""
    made = volume(size_gb=2)
    directory(tmp_path).create(made)
    found = os.stat(tmp_path / "p1" / f"volume-{made.uuid}")
    assert (2 * units.Gi, True) == (found.st_size, found.st_blocks * 512 < units.Mi)
    assert 0o600 == found.st_mode & 0o777, "no other user can read it"


def test_a_copy_has_the_data_of_its_source(tmp_path: pathlib.Path) -> None:
    """And is as sparse."""
    driver, source = directory(tmp_path), volume(size_gb=1)
    driver.create(source)
    with open(tmp_path / "p1" / f"volume-{source.uuid}", "r+b") as file:
        file.seek(units.Mi)
        file.write(b"precious")
    copy = volume(size_gb=1, source_uuid=source.uuid)
    driver.create(copy)
    with open(tmp_path / "p1" / f"volume-{copy.uuid}", "rb") as file:
        file.seek(units.Mi)
        assert b"precious" == file.read(8)
        assert os.fstat(file.fileno()).st_blocks * 512 < units.Mi


def test_a_snapshot_is_a_file_of_its_own(tmp_path: pathlib.Path) -> None:
    """Named after its uuid, with the data that the volume had."""
    driver, made = directory(tmp_path), volume(size_gb=1)
    driver.create(made)
    path = tmp_path / "p1" / f"volume-{made.uuid}"
    with open(path, "r+b") as file:
        file.write(b"before")
    snapshot = volume(size_gb=1, source_uuid=made.uuid, snapshot_of=made.uuid)
    driver.create(snapshot)
    with open(path, "r+b") as file:
        file.write(b"behind")
    with open(tmp_path / "p1" / f"snapshot-{snapshot.uuid}", "rb") as file:
        assert b"before" == file.read(6)


def test_a_volume_that_migrates_keeps_its_data(tmp_path: pathlib.Path) -> None:
    """It is as sparse on its destination. A source that is not there leaves nothing."""
    driver, made = directory(tmp_path), volume(size_gb=1)
    driver.create(made)
    with open(tmp_path / "p1" / f"volume-{made.uuid}", "r+b") as file:
        file.seek(units.Mi)
        file.write(b"precious")
    other = DirectoryDriver(options(directory_pools={"far": str(tmp_path / "far")}))
    other.init_backend()
    moving = dataclasses.replace(made, copy_from=location(driver, "p1"))
    other.receive(moving, "far")
    with open(tmp_path / "far" / f"volume-{made.uuid}", "rb") as file:
        assert os.fstat(file.fileno()).st_blocks * 512 < units.Mi
        file.seek(units.Mi)
        assert b"precious" == file.read(8)
    lost = dataclasses.replace(volume(), copy_from=location(driver, "p1"))
    with pytest.raises(FileNotFoundError, match="has no volume or snapshot"):
        other.receive(lost, "far")
    assert 1 == len(list((tmp_path / "far").iterdir()))


def two_machines(tmp_path: pathlib.Path) -> tuple[Volume, DirectoryDriver]:
    """A volume on ``m2`` that migrates to ``m1``. Both have a pool with the same path; the one that is there is m1's.

    An old file with the name of the volume is on m1.
    """
    there = DirectoryDriver(options(directory_pools={"p1": str(tmp_path / "p1")}))
    there.init_backend()
    made = volume("p1", host="m2@store", held_host="m1@store", held_pool="p2")
    moving = dataclasses.replace(made, copy_from=location(there, "p1"))
    (tmp_path / "p1").rename(tmp_path / "on-m2")
    here = directory(tmp_path)
    here.create(made)
    return moving, here


def test_another_machines_directory_is_not_read_here(tmp_path: pathlib.Path) -> None:
    """Its path may be the same. What lies here may be an old copy, and the volume would be replaced by it."""
    moving, here = two_machines(tmp_path)
    other = DirectoryDriver(options(directory_pools={"far": str(tmp_path / "far")}))
    other.init_backend()
    for receiver, pool in ((here, "p2"), (other, "far")):
        with pytest.raises(FileNotFoundError, match="the data of m2@store#p1 are not on this machine: there is no"):
            receiver.receive(moving, pool)
    by_path = dataclasses.replace(moving, copy_from=f"directory:{tmp_path / 'p1'}")
    with pytest.raises(FileNotFoundError, match="the data of m2@store#p1 are not on this machine: .*p1 is pool p1"):
        here.receive(by_path, "p2")
    assert {moving.uuid: ("p1", 1)} == stored(here)


def test_a_pool_keeps_its_place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over restarts of its agent. Agents of earlier releases find it there, too.

    A pool that is full is found by its path.
    """
    place = location(directory(tmp_path), "p1")
    assert place == location(directory(tmp_path), "p1")
    assert (tmp_path / "p1").samefile(place.removeprefix("directory:"))
    (mark,) = (tmp_path / "p1").glob(".pool-*")
    mark.rmdir()

    def full(_path: pathlib.Path, **_mode: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    driver = directory(tmp_path)
    monkeypatch.setattr(pathlib.Path, "mkdir", full)
    assert f"directory:{tmp_path / 'p1'}" == location(driver, "p1")


def test_a_thick_copy_occupies_its_space(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although its source is sparse. What it has more than the source is allocated."""
    allocated: list[tuple[int, int]] = []

    def allocate(file: int, offset: int, size: int) -> None:
        allocated.append((offset, size))
        os.truncate(file, offset + size)

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    driver, source = directory(tmp_path), volume(size_gb=1)
    driver.create(source)
    os.truncate(tmp_path / "p1" / f"volume-{source.uuid}", 8 * units.Mi)
    copy = volume(size_gb=1, source_uuid=source.uuid, thick=True)
    driver.create(copy)
    assert 8 * units.Mi <= (tmp_path / "p1" / f"volume-{copy.uuid}").stat().st_blocks * 512
    assert [(8 * units.Mi, units.Gi - 8 * units.Mi)] == allocated


def test_a_thick_volume_occupies_its_space(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system allocates it at once, or refuses."""
    asked: list[int] = []
    monkeypatch.setattr(os, "posix_fallocate", lambda _file, _offset, size: asked.append(size))
    directory(tmp_path).create(volume(size_gb=2, thick=True))
    assert [2 * units.Gi] == asked


def test_a_volume_that_becomes_thick_gets_its_space(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, and its data stay. One that becomes thin keeps what it has."""
    driver, made = directory(tmp_path), volume(size_gb=1)
    driver.create(made)
    asked: list[int] = []
    monkeypatch.setattr(os, "posix_fallocate", lambda _file, _offset, size: asked.append(size))
    driver.retype(made)
    driver.retype(volume(uuid=made.uuid, size_gb=1, thick=True))
    assert [units.Gi] == asked


def test_a_volume_that_cannot_have_its_space_takes_none(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the file system would stay full. What the volume has already is not needed."""
    driver, made = directory(tmp_path), volume(size_gb=1)
    driver.create(made)
    path = tmp_path / "p1" / f"volume-{made.uuid}"
    with open(path, "r+b") as file:
        file.write(b"x" * units.Mi)
        os.fsync(file.fileno())
    before = path.stat().st_blocks
    free = types.SimpleNamespace(f_bavail=1023 * 256 - 1, f_frsize=4096)
    with monkeypatch.context() as full:
        full.setattr(os, "statvfs", lambda _path: free)
        with pytest.raises(OSError, match="the file system lacks 0.0 GiB: free 1.0, needed 1.0"):
            driver.retype(volume(uuid=made.uuid, size_gb=1, thick=True))
        assert before == path.stat().st_blocks
        free.f_bavail += 1
        asked: list[int] = []
        full.setattr(os, "posix_fallocate", lambda _file, _offset, size: asked.append(size))
        driver.retype(volume(uuid=made.uuid, size_gb=1, thick=True))
        assert [units.Gi] == asked


def test_a_failure_leaves_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the disk is full."""

    def full(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    driver = directory(tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        driver.create(volume(thick=True))
    assert [] == list((tmp_path / "p1").iterdir())


def test_a_file_that_cannot_be_managed_is_unchanged(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """It keeps its size and its mode: others may go on reading it."""

    def full(*_arguments: Any) -> None:
        raise OSError("No space left on device")

    driver = directory(tmp_path)
    found = tmp_path / "p1" / "disk.raw"
    found.write_bytes(b"data")
    found.chmod(0o644)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        driver.manage(volume(status="managing", thick=True, reference="disk.raw", claimed_gb=1))
    assert (b"data", 0o644) == (found.read_bytes(), found.stat().st_mode & 0o777)


def test_a_volume_that_cannot_be_extended_keeps_its_size(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system may have allocated a part when it runs full."""
    monkeypatch.setattr(os, "posix_fallocate", os.truncate)
    driver, made = directory(tmp_path), volume(size_gb=1)

    def full(file: int, offset: int, size: int) -> None:
        os.truncate(file, offset + size // 2)
        raise OSError(28, "No space left on device")

    driver.create(made)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        driver.extend(volume(uuid=made.uuid, thick=True), 3)
    assert units.Gi == (tmp_path / "p1" / f"volume-{made.uuid}").stat().st_size


def test_a_crash_leaves_the_volume_or_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A half-made file is no volume, and is removed at the next start."""

    class Crash(BaseException):
        """The machine stops: no handler runs."""

    def crash(*_arguments: Any, **_named: Any) -> None:
        raise Crash

    driver = directory(tmp_path)
    monkeypatch.setattr(os, "rename", crash)
    monkeypatch.setattr(pathlib.Path, "unlink", crash)
    with pytest.raises(Crash):
        driver.create(volume())
    monkeypatch.undo()
    assert ({}, 1) == (stored(driver), len(list((tmp_path / "p1").iterdir())))
    driver.init_backend()
    assert [] == list((tmp_path / "p1").iterdir())


def test_what_is_no_volume_is_left_alone(tmp_path: pathlib.Path) -> None:
    """Other files in the directory are not listed. A raw volume is not read: its user may write anything there."""
    driver = directory(tmp_path)
    (tmp_path / "p1" / "notes").write_text("mine")
    made = volume(size_gb=1)
    driver.create(made)
    with open(tmp_path / "p1" / f"volume-{made.uuid}", "r+b") as file:
        file.write(b"QFI\xfb" + bytes(20) + (500 * units.Gi).to_bytes(8, "big"))
    assert {made.uuid: ("p1", 1)} == stored(driver)
    driver.init_backend()
    assert "mine" == (tmp_path / "p1" / "notes").read_text()


def test_an_image_that_is_damaged_harms_no_other_volume(tmp_path: pathlib.Path) -> None:
    """It is there with the size of its file, and can be deleted. It is neither copied nor extended."""
    driver, whole, damaged, cut = directory(tmp_path), volume(), volume(), volume()
    driver.create(whole)
    for each, data in ((damaged, b"x" * 40), (cut, b"QFI")):
        (tmp_path / "p1" / f"volume-{each.uuid}.qcow2").write_bytes(data)
        assert ("p1", 0) == stored(driver)[each.uuid]
        with pytest.raises(OSError, match="is no qcow2 image, although it is named so"):
            driver.extend(each, 2)
        driver.delete(each.uuid, "p1")
    assert {whole.uuid: ("p1", 1)} == stored(driver)


def test_a_directory_that_cannot_be_written_cannot_be_used(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its backend then counts as down."""
    driver = directory(tmp_path)
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(PermissionError, match="pool p1: .* cannot be written"):
        driver.stats()


WRONG = [
    ("a directory without pools", DirectoryDriver, {}, "directory_pools"),
    ("a path that depends on the working directory", DirectoryDriver, {"directory_pools": {"p": "here"}}, "absolute"),
    ("a capacity that is no number", FakeDriver, {"fake_pools": {"p": "much"}}, "fake_pools"),
]


@pytest.mark.parametrize(("_what", "driver_class", "given", "named"), WRONG, ids=[case[0] for case in WRONG])
def test_wrong_options_stop_the_agent(_what: str, driver_class: type, given: dict[str, Any], named: str) -> None:
    """The message names the option."""
    with pytest.raises(errors.ConfigError, match=named):
        driver_class(options(**given))


def test_qcow2_needs_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent does not start without it."""
    monkeypatch.setattr(shutil, "which", lambda _program: None)
    with pytest.raises(errors.ConfigError, match="qemu-img is not installed"):
        DirectoryDriver(options(directory_pools={"p": "/p"}, volume_format="qcow2"))


def test_drivers_are_found_by_name_and_by_path() -> None:
    """Anything else is an error that lists the known ones."""
    assert FakeDriver is drivers.driver_class("fake") is drivers.driver_class("volume_agent.drivers.fake.FakeDriver")
    with pytest.raises(errors.ClassNotFound, match="directory, lvm, fake"):
        drivers.driver_class("lvm2")


def test_a_simulated_pool_may_fail() -> None:
    """Every volume on a pool that fake_failures names."""
    driver = FakeDriver(options(fake_pools={"p1": "infinite"}, fake_failures=["p1"]))
    with pytest.raises(FakeVolumeFailure, match="configured to fail"):
        driver.create(volume())
    assert "infinite" == driver.stats()["pools"][0]["free_capacity_gb"]


def existing(path: pathlib.Path, size: int = 2 * units.Gi) -> pathlib.Path:
    """A sparse file of a user, which ends with a mark."""
    path.touch()
    os.truncate(path, size)
    with open(path, "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"mark")
    return path


def image_header(version: int = 3, backing_file: int = 0, features: int = 0, size: int = 3 * units.Gi) -> bytes:
    return struct.pack(">4sIQ", b"QFI\xfb", version, backing_file) + struct.pack(">8xQ40xQ", size, features) + bytes(32)


@pytest.fixture
def found(tmp_path: pathlib.Path) -> tuple[DirectoryDriver, pathlib.Path]:
    """A driver, and the path of its pool p1."""
    return directory(tmp_path), tmp_path / "p1"


def test_a_file_becomes_a_volume_and_a_file_again(found: tuple[DirectoryDriver, pathlib.Path]) -> None:
    """Each step may be repeated. It grows to whole GiB, and keeps its data and their blocks. Its holes store nothing."""
    driver, path = found
    inode = existing(path / "disk.raw", 2 * units.Gi + 512).stat().st_ino
    (seen,) = driver.manageable()
    assert (seen, (3, 0)) == (driver.measure("disk.raw", "p1"), (seen.size_gb, seen.stored_gb))
    assert seen.size_bytes == driver.measure(str(path / "disk.raw"), "p1").size_bytes
    wanted = volume("p1", status="managing", reference="disk.raw", claimed_gb=3)
    for _repeated in range(2):
        driver.manage(wanted)
    made = path / f"volume-{wanted.uuid}"
    assert ({wanted.uuid: ("p1", 3)}, [made]) == (stored(driver), list(path.iterdir()))
    assert (inode, 3 * units.Gi, 0o600) == (made.stat().st_ino, made.stat().st_size, made.stat().st_mode & 0o777)
    with open(made, "rb") as file:
        file.seek(2 * units.Gi + 508)
        assert b"mark\0" == file.read(5)
    for _repeated in range(2):
        driver.unmanage(wanted.uuid, "p1")
    assert ({}, [path / f"unmanaged-{wanted.uuid}"]) == (stored(driver), list(path.iterdir()))
    assert 3 == driver.measure(f"unmanaged-{wanted.uuid}", "p1").size_gb


@pytest.mark.parametrize(
    ("name", "shown"),
    [(b"r\xe9sum\xe9.raw", r"r\xe9sum\xe9.raw"), (b"two\nlines", r"two\nlines"), (b"\x1b[2J", r"\x1b[2J")],
)
def test_a_name_that_is_no_text_is_listed_escaped(
    found: tuple[DirectoryDriver, pathlib.Path], name: bytes, shown: str
) -> None:
    """A message could not carry it. The other files are listed as they are."""
    driver, path = found
    for each in (name, "réservé.raw".encode()):
        existing(path / os.fsdecode(each))
    listed = {each.reference: each.reason for each in driver.manageable()}
    refused = "its name is not UTF-8 or has control characters, and is shown escaped: rename it"
    assert {shown: refused, "réservé.raw": ""} == listed
    assert json_codec.dumps(sorted(listed))


def test_a_thick_volume_that_was_a_file_has_its_space(found: tuple[DirectoryDriver, pathlib.Path]) -> None:
    driver, path = found
    (path / "disk.raw").write_bytes(b"data")
    wanted = volume("p1", thick=True, reference="disk.raw", claimed_gb=1)
    if shutil.disk_usage(path).free < 2 * units.Gi:
        pytest.skip("the disk is too full")
    driver.manage(wanted)
    status = (path / f"volume-{wanted.uuid}").stat()
    assert status.st_blocks * 512 >= status.st_size == units.Gi


def _link(path: pathlib.Path) -> None:
    existing(path.parent / "other")
    os.link(path.parent / "other", path)


REFUSED: list[tuple[str, str, Callable[[pathlib.Path], object], str]] = [
    ("it does not exist", "none", lambda path: None, "none does not exist"),
    ("it is empty", "empty", pathlib.Path.touch, "it is empty"),
    ("it is a symbolic link", "link", lambda path: path.symlink_to(existing(path.parent / "x")), "a symbolic link"),
    ("it has two names", "second", _link, "it has 2 names"),
    ("it is a directory", "dir", pathlib.Path.mkdir, "not a regular file"),
    ("it is a pipe", "pipe", os.mkfifo, "not a regular file"),
    ("it lies elsewhere", "../p2/disk", lambda path: existing(path), "must be the name of a file in"),
    ("it lies far away", "/etc/passwd", lambda path: None, "must be the name of a file in"),
    ("it is a volume", f"volume-{uuidutils.generate_uuid()}", existing, "belongs to volume or snapshot"),
    ("it is a snapshot", f"snapshot-{uuidutils.generate_uuid()}.qcow2", existing, "belongs to volume or snapshot"),
    ("it is half-made", ".part-volume-1", existing, "being written by the agent"),
    ("it is an image by another name", "i.raw", lambda p: p.write_bytes(image_header()), "ends in .qcow2"),
    ("it is named as an image", "i.qcow2", existing, "it is no qcow2 image"),
    ("it is half an image", "i.qcow2", lambda p: p.write_bytes(image_header()[:40]), "it is no qcow2 image"),
    ("its data are in two files", "i.qcow2", lambda p: p.write_bytes(image_header(2, 104)), "backing file"),
    ("its data are in another file", "i.qcow2", lambda p: p.write_bytes(image_header(features=4)), "another file"),
]


@pytest.mark.parametrize(("_what", "name", "make", "said"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_may_be_no_file_of_its_own_is_refused(
    found: tuple[DirectoryDriver, pathlib.Path], _what: str, name: str, make: Callable[..., object], said: str
) -> None:
    """It is as it was, also if the ledger has claimed its space by mistake."""
    driver, path = found
    make(path / name)
    before = sorted(each.name for each in path.iterdir())
    with pytest.raises(errors.InvalidReference, match=said):
        driver.measure(name, "p1")
    with pytest.raises(errors.InvalidReference, match=said):
        driver.manage(volume("p1", reference=name, claimed_gb=9))
    assert before == sorted(each.name for each in path.iterdir())


def test_a_file_that_grows_after_its_claim_is_refused(found: tuple[DirectoryDriver, pathlib.Path]) -> None:
    driver, path = found
    existing(path / "disk.raw")
    with pytest.raises(errors.InvalidReference, match="it has 2 GiB now, and had 1 when"):
        driver.manage(volume("p1", reference="disk.raw", claimed_gb=1))
    assert ["disk.raw"] == [each.name for each in path.iterdir()]


def test_an_image_becomes_a_volume(found: tuple[DirectoryDriver, pathlib.Path]) -> None:
    """Its format is in its name, before and after."""
    driver, path = found
    (path / "i.qcow2").write_bytes(image_header())
    (path / "link").symlink_to(path / "i.qcow2")
    listed = {each.reference: (each.size_gb, each.reason) for each in driver.manageable()}
    assert {"i.qcow2": (3, ""), "link": (0, "it is a symbolic link")} == listed
    wanted = volume("p1", reference="i.qcow2", claimed_gb=3)
    driver.manage(wanted)
    assert (path / f"volume-{wanted.uuid}.qcow2").exists()
    driver.unmanage(wanted.uuid, "p1")
    assert (path / f"unmanaged-{wanted.uuid}.qcow2").exists()


def test_an_item_of_the_fake_inventory_becomes_a_volume() -> None:
    """What lies there is not free, before and after."""
    driver = FakeDriver(options(fake_pools={"p1": "100"}, fake_existing={"p1/disk": "60"}))

    def counted() -> tuple[float, int]:
        (pool,) = driver.stats()["pools"]
        return pool["free_capacity_gb"], pool["provisioned_capacity_gb"]

    assert ((40, 0), 60) == (counted(), driver.measure("disk", "p1").size_gb)
    wanted = volume("p1", reference="disk", claimed_gb=60)
    for _repeated in range(2):
        driver.manage(wanted)
    assert ((40, 60), {wanted.uuid: ("p1", 60)}, []) == (counted(), stored(driver), driver.manageable())
    for _repeated in range(2):
        driver.unmanage(wanted.uuid, "p1")
    assert ((40, 0), f"unmanaged-{wanted.uuid}") == (counted(), [*driver.manageable()][0].reference)
    with pytest.raises(errors.InvalidReference, match="pool p1 has nothing of this name"):
        driver.measure("disk", "p1")
    with pytest.raises(errors.ConfigError, match="POOL/NAME:GIB"):
        FakeDriver(options(fake_existing={"disk": "60"}))


def test_a_copy_under_way_tells_how_much_is_copied(tmp_path: pathlib.Path) -> None:
    """By the part that is written. Before and after it there is nothing to tell."""
    driver = directory(tmp_path)
    moving = volume("p1", 4, held_host="m1@store", held_pool="p2", copy_from=f"directory:{tmp_path}/p1")
    driver.create(moving)
    part = tmp_path / "p2" / f".part-volume-{moving.uuid}"
    backend = Backend("m1@store", driver, Policy("store", "z1"))
    assert {} == backend.copied()
    with backend.copying(moving):
        assert {} == backend.copied()
        existing(part, 3 * units.Gi)
        assert {moving.uuid: 75} == backend.copied()
    assert {} == backend.copied()
