# SPDX-License-Identifier: Apache-2.0
"""Drivers: what every driver does, and what a directory does when something goes wrong."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from oslo_utils import units

from fleet import errors
from tests.unit.volume_agent.builders import options, stored, volume
from volume_agent import drivers
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


def test_a_failure_leaves_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the disk is full."""

    def full(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    driver = directory(tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        driver.create(volume(thick=True))
    assert [] == list((tmp_path / "p1").iterdir())


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
