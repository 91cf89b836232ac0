# SPDX-License-Identifier: Apache-2.0
"""The driver lvm over volume groups in memory: faults that no real group has when a test wants them."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import pytest
from oslo_utils import units

from fleet.agent import commands
from fleet.agent.patience import Patience
from fleet.context import new_context
from fleet.objects import Volume
from tests.unit.volume_agent.builders import backend, options, volume
from tests.worlds.one_backend import GIVEN_UP, calls
from tests.worlds.storage_ledger import StorageLedger
from volume_agent.drivers.base import ExtensionUnfinished
from volume_agent.drivers.lvm import LvmDriver
from volume_agent.drivers.volume_group import LogicalVolume
from volume_agent.work.volume import VolumeWorker

GIB = units.Gi


class Group:
    """A volume group. The methods that ``failing`` names raise OSError."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failing: set[str] = set()
        self.made: dict[str, LogicalVolume] = {}

    def _do(self, method: str, name: str, **values: Any) -> None:
        if method in self.failing:
            raise OSError(f"{method} ended with status 5")
        self.made[name] = dataclasses.replace(self.made[name], **values)

    def volumes(self) -> list[LogicalVolume]:
        return list(self.made.values())

    def device(self, name: str) -> pathlib.Path:
        return pathlib.Path("/dev", self.name, name)

    def create(self, name: str, size: int) -> None:
        self.made[name] = LogicalVolume(name, size)

    def extend(self, name: str, size: int) -> None:
        self._do("lvextend", name, size=size)

    def reduce(self, name: str, size: int) -> None:
        self._do("lvreduce", name, size=min(size, self.made[name].size))

    def rename(self, name: str, to: str) -> None:
        self.made[to] = dataclasses.replace(self.made.pop(name), name=to)

    def remove(self, name: str) -> None:
        del self.made[name]

    def tag(self, name: str, tag: str) -> None:
        self._do("addtag", name, tags=(*self.made[name].tags, tag))

    def untag(self, name: str, tag: str) -> None:
        self._do("deltag", name, tags=tuple(each for each in self.made[name].tags if each != tag))


class Blocks:
    """What is written to the devices of a group: GiB."""

    def __init__(self) -> None:
        self.failing = False
        self.zeroed: list[tuple[int, int]] = []
        self.copied: list[int] = []

    def zero(self, device: pathlib.Path, offset: int, length: int) -> None:
        if self.failing:
            raise OSError("blkdiscard: I/O error")
        self.zeroed.append((offset // GIB, length // GIB))

    def copy(self, source: pathlib.Path, to: pathlib.Path, length: int) -> None:
        self.copied.append(length // GIB)


class Disks:
    """A driver with a group in memory for each that ``pools`` names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **pools: str) -> None:
        monkeypatch.setattr(commands, "find", lambda program: program)
        self.groups: dict[str, Any] = {}
        self.blocks: Any = Blocks()
        wanted = options(lvm_pools=pools or {"p1": "vg"})
        self.driver = LvmDriver(wanted, lambda name: self.groups.setdefault(name, Group(name)), self.blocks)

    def size(self, uuid: str) -> int:
        return self.groups["vg"].made[f"volume-{uuid}"].size // GIB

    def break_extensions(self, broken: bool = True) -> None:
        """The growth can be neither zeroed nor taken back."""
        self.blocks.failing = broken
        self.groups["vg"].failing = {"lvreduce"} if broken else set()


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    return Disks(monkeypatch)


def unfinished(disks: Disks) -> Volume:
    """Return a volume of 10 GiB whose extension to 20 has failed, and is not undone."""
    wanted = volume(size_gb=10)
    disks.driver.create(wanted)
    disks.break_extensions()
    with pytest.raises(ExtensionUnfinished):
        disks.driver.extend(wanted, 20)
    return wanted


def test_a_volume_whose_growth_is_not_zeroed_is_given_to_no_guest(disks: Disks) -> None:
    """What it has more may hold data of others. It is given again when it has its old size, or is extended."""
    wanted = volume(size_gb=10)
    disks.driver.create(wanted)
    disks.break_extensions()
    with pytest.raises(ExtensionUnfinished, match="blkdiscard.*lvreduce"):
        disks.driver.extend(wanted, 20)
    with pytest.raises(OSError, match="may hold data of others"):
        disks.driver.connection(wanted.uuid, "p1")
    disks.break_extensions(False)
    disks.blocks.zeroed.clear()
    disks.driver.extend(wanted, 20)
    assert ([(10, 10)], 20) == (disks.blocks.zeroed, disks.size(wanted.uuid))
    assert disks.driver.connection(wanted.uuid, "p1").path.endswith(wanted.uuid)


def test_a_copy_takes_nothing_that_is_not_zeroed(disks: Disks) -> None:
    """A copy may be larger than its source."""
    wanted = unfinished(disks)
    disks.break_extensions(False)
    disks.driver.create(volume(size_gb=20, source_uuid=wanted.uuid))
    assert [10] == disks.blocks.copied


def test_a_volume_to_manage_is_zeroed_where_an_extension_has_not(disks: Disks) -> None:
    """It was unmanaged with a growth that may hold data of others."""
    group = disks.groups["vg"]
    group.made["mine"] = LogicalVolume("mine", 20 * GIB, tags=(f"fleet.grows-from.{10 * GIB}",))
    disks.driver.manage(volume(reference="mine", claimed_gb=20))
    assert ([(10, 10)], [()]) == (disks.blocks.zeroed, [each.tags for each in group.volumes()])


@pytest.mark.parametrize("is_open", [False, True])
def test_an_extension_that_has_not_ended_is_undone_at_the_start(disks: Disks, is_open: bool) -> None:
    """But not under a program that may use all of the volume."""
    wanted = unfinished(disks)
    disks.break_extensions(False)
    disks.groups["vg"]._do("open", f"volume-{wanted.uuid}", attributes="-wi-ao----" if is_open else "-wi-a-----")
    disks.driver.init_backend()
    assert (20 if is_open else 10) == disks.size(wanted.uuid)


def test_a_start_goes_on_where_an_extension_cannot_be_undone(disks: Disks) -> None:
    """Other volumes of the backend are served."""
    wanted = unfinished(disks)
    disks.driver.init_backend()
    with pytest.raises(OSError, match="may hold data of others"):
        disks.driver.connection(wanted.uuid, "p1")


@pytest.mark.parametrize("undone", [False, True])
def test_an_extension_that_is_not_undone_is_not_reported(disks: Disks, undone: bool) -> None:
    """The conductor's sweeper repeats the order. One that is undone has failed, although its tag stays."""
    wanted = volume(size_gb=10, status="extending", claimed_gb=20)
    ledger = StorageLedger(wanted)
    worker = VolumeWorker(backend(disks.driver), calls(ledger, Patience(GIVEN_UP)))
    disks.driver.create(wanted)
    disks.break_extensions()
    if undone:
        disks.groups["vg"].failing = {"deltag"}
    worker.run(new_context(), wanted.uuid)
    assert ["OSError"] * undone == [each["code"] for each in ledger.failures]
    assert (10 if undone else 20) == disks.size(wanted.uuid)
    disks.break_extensions(False)
    if undone:
        assert disks.driver.connection(wanted.uuid, "p1").path.endswith(wanted.uuid)
        return
    worker.run(new_context(), wanted.uuid)
    assert ("available", 20) == (ledger.volumes[wanted.uuid].status, disks.size(wanted.uuid))


def test_a_group_of_another_machine_is_not_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have the same name. A volume of another backend of the machine is copied."""
    disks = Disks(monkeypatch, p1="vg", far="vg2")
    monkeypatch.setattr(pathlib.Path, "is_block_device", lambda _path: True)
    moving = volume(host="m2@store", held_host="m1@store", held_pool="far", copy_from="lvm:vg")
    with pytest.raises(FileNotFoundError, match="the data of m2@store#p1 are not on this machine"):
        disks.driver.receive(moving, "far")
    disks.driver.receive(dataclasses.replace(moving, host="m1@other"), "far")
    assert [f"volume-{moving.uuid}"] == list(disks.groups["vg2"].made)


THIN_POOLS = [
    ("it zeroes new blocks", [LogicalVolume("tp", 40 * GIB, attributes="twi-aotz--")], None),
    (
        "it hands out what others have written",
        [LogicalVolume("tp", 40 * GIB, attributes="twi-aot---")],
        "lvchange --zero y",
    ),
    ("it is a plain volume", [LogicalVolume("tp", 40 * GIB)], "pool p1: group vg has no thin pool tp"),
    ("it is not there", [], "pool p1: group vg has no thin pool tp"),
]


@pytest.mark.parametrize(("_what", "there", "said"), THIN_POOLS, ids=[case[0] for case in THIN_POOLS])
def test_a_thin_pool_must_zero(
    monkeypatch: pytest.MonkeyPatch, _what: str, there: list[LogicalVolume], said: str | None
) -> None:
    """The space of a thin volume is trusted to be zeros. Otherwise the backend is down, and says which pool it is."""
    disks = Disks(monkeypatch, p1="vg/tp")
    disks.groups["vg"].made = {each.name: each for each in there}
    if said is None:
        disks.driver.init_backend()
        return
    with pytest.raises(OSError, match=said):
        disks.driver.init_backend()
