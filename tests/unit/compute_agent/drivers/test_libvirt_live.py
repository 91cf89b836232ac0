# SPDX-License-Identifier: Apache-2.0
"""Live migrations of the driver libvirt, as far as it needs none: paths of the destination, and where a guest is."""

from __future__ import annotations

import pathlib
from xml.etree import ElementTree

import pytest

from compute_agent.drivers.base import LiveMigrationFailed
from compute_agent.drivers.libvirt.domains import domain_xml, live, part, usage
from compute_agent.drivers.libvirt.domains.domain_xml import Disk, Machine
from compute_agent.drivers.libvirt.domains.part import Part
from fleet.json_codec import JSONObject
from fleet.objects import numa
from tests.unit.compute_agent import builders

libvirt = pytest.importorskip("libvirt")
HERE, THERE = pathlib.Path("/a/guests/u1"), pathlib.Path("/b/guests/u1")


A_MIGRATION = {
    "type": libvirt.VIR_DOMAIN_JOB_UNBOUNDED,
    "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT,
    "data_total": 100,
    "data_processed": 50,
}


class Domain:
    def __init__(self, state: int, reason: int = 0, persistent: bool = True) -> None:
        self.now = [state, reason]
        self._persistent = persistent

    def isPersistent(self) -> bool:
        return self._persistent

    def state(self) -> list[int]:
        return self.now


class Moving(Domain):
    """A domain whose memory is sent again and again until it switches to post-copy."""

    def __init__(self, post_copy: bool) -> None:
        super().__init__(libvirt.VIR_DOMAIN_RUNNING)
        self._post_copy = post_copy
        self.looks = 0
        self.switched = 0

    def state(self) -> list[int]:
        self.looks += 1
        return super().state()

    def jobStats(self) -> dict[str, int]:
        is_over = self.switched or self.looks > 5
        job = {"type": libvirt.VIR_DOMAIN_JOB_NONE} if is_over else A_MIGRATION
        return {**job, "memory_iteration": self.looks - 1}

    def migrateStartPostCopy(self) -> None:
        if not self._post_copy:
            raise libvirt.libvirtError("the migration was not begun as one")
        self.switched = self.looks


@pytest.mark.parametrize(("asked", "begun_so", "switched"), [(True, True, 3), (False, True, 0), (True, False, 0)])
def test_a_migration_that_is_found_under_way_is_let_switch(
    asked: bool, begun_so: bool, switched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart of the agent, when all memory was sent once: the first number of that is 1."""
    monkeypatch.setattr(live, "_LOOK_S", 0.001)
    domain = Moving(begun_so)
    assert live.follow(domain, lambda _percent: None, asked)
    assert switched == domain.switched


class Working(Domain):
    """A domain with a job of libvirt. It is moved by steps: a state after each look."""

    def __init__(self, operation: int, *states: tuple[int, int]) -> None:
        super().__init__(*(states or [(libvirt.VIR_DOMAIN_RUNNING, 0)])[0])
        self._states, self.job = list(states), {**A_MIGRATION, "operation": operation}
        self.aborted = False

    def state(self) -> list[int]:
        if self._states:
            self.now = list(self._states.pop(0))
        return self.now

    def jobStats(self) -> dict[str, int]:
        return self.job

    def abortJob(self) -> None:
        self.aborted = True


OUT, BACKUP = libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT, libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP
RUNS = (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_BOOTED)
SWITCHED = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY)
CUT_OFF = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED)


@pytest.mark.parametrize(
    ("domain", "followed", "shown"),
    [
        pytest.param(Working(OUT, RUNS, SWITCHED, CUT_OFF), True, [50, 50], id="interrupted meanwhile"),
        pytest.param(Working(OUT, CUT_OFF), False, [], id="interrupted before: libvirt has the job all the same"),
        pytest.param(Working(BACKUP), False, [], id="a backup is not the migration"),
    ],
)
def test_only_a_migration_that_goes_on_is_followed(
    domain: Working, followed: bool, shown: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_LOOK_S", 0.001)
    seen: list[int] = []

    def progress(percent: int) -> None:
        seen.append(percent)
        assert len(seen) < 10, "it is followed for ever"

    assert (followed, shown) == (live.follow(domain, progress), seen)


@pytest.mark.parametrize(("operation", "aborted"), [(OUT, True), (BACKUP, False)])
def test_only_a_migration_is_aborted(operation: int, aborted: bool) -> None:
    domain = Working(operation)
    live.abort(domain)
    assert aborted == domain.aborted


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_migration_keeps_its_limit_of_bandwidth_after_the_switch(interrupted: bool) -> None:
    """libvirt has two limits: before and after the switch to post-copy."""
    text = domain_xml.build(Machine("qemu", "none"), builders.an_instance(), "h1", [], HERE / "console.log")
    asked: list[tuple[dict[str, object], int]] = []

    class Leaving(Domain):
        def XMLDesc(self, _flags: int) -> str:
            return text

        def migrateToURI3(self, _uri: str, parameters: dict[str, object], flags: int) -> None:
            asked.append((parameters, flags))

    way = live.Way("h2", "qemu+tls://h2/system", "", encrypted=False, bandwidth_mib=7, post_copy=not interrupted)
    live.migrate(Leaving(*(CUT_OFF if interrupted else RUNS)), way, HERE, live.Arrival(THERE))
    ((parameters, flags),) = asked
    assert (7, 7) == (parameters["bandwidth"], parameters["bandwidth.postcopy"])
    resumes = libvirt.VIR_MIGRATE_POSTCOPY | libvirt.VIR_MIGRATE_POSTCOPY_RESUME
    assert (resumes if interrupted else libvirt.VIR_MIGRATE_POSTCOPY) == flags & resumes


def test_the_files_of_a_guest_are_where_the_destination_has_them() -> None:
    """Its disks, its seed and its console; files elsewhere stay, and the mark names the new host."""
    disks = [
        Disk(HERE / "disk", "qcow2", "vda"),
        Disk(HERE / "seed.iso", "raw", "vdz", readonly=True),
        Disk(pathlib.Path("/pool/volume"), "raw", "vdb"),
    ]
    text = domain_xml.build(Machine("qemu", "none"), builders.an_instance(), "h1", disks, HERE / "console.log")
    moved = live.elsewhere(text, HERE, live.Arrival(THERE), "h2")
    root = ElementTree.fromstring(moved)
    files = [each.get("file") for name in ("source", "log") for each in root.iter(name)]
    assert [str(THERE / "disk"), str(THERE / "seed.iso"), "/pool/volume", str(THERE / "console.log")] == files
    mark = domain_xml.mark_of(moved, "h2")
    assert mark is not None
    assert ("h2", "h2") == (mark["host"], mark["node"])


def test_a_guest_is_pinned_to_what_the_destination_has_claimed() -> None:
    """Its first vcpu floats in a cell whose CPUs the destination has named. The cells that it sees stay the same."""
    flavor = builders.a_flavor(vcpus=2, memory_mb=1024)
    before = {"cells": [a_cell(0, {0}, {0: 3}, 2048), a_cell(1, {1}, {1: 7}, 2048)]}
    claimed = {"cells": [a_cell(2, {0}), a_cell(3, {1}, {1: 30})]}
    instance = builders.an_instance(flavor=flavor, claimed_numa_topology=before)
    text = domain_xml.build(Machine("qemu", "none", {0: [3], 1: [7]}), instance, "h1", [], HERE / "console.log")
    seen = ElementTree.fromstring(text).find("cpu/numa")
    arrival = live.Arrival(THERE, cell_cpus={2: [20, 21], 3: [30, 31]}, cells=claimed)
    root = ElementTree.fromstring(live.elsewhere(text, HERE, arrival, "h2"))
    pins = [(each.get("vcpu"), each.get("cpuset")) for each in root.iterfind("cputune/vcpupin")]
    assert [("0", "20,21"), ("1", "30")] == pins
    assert ["20,21,30"] == [each.get("cpuset") for each in root.iterfind("cputune/emulatorpin")]
    nodes = [each.get("nodeset") for each in root.iterfind("numatune/memnode")]
    assert (["2", "3"], None) == (nodes, root.find("memoryBacking"))
    assert seen is not None
    still = root.find("cpu/numa")
    assert still is not None
    assert ElementTree.tostring(seen) == ElementTree.tostring(still)


def a_cell(number: int, vcpus: set[int], pinned: dict[int, int] | None = None, pages: int | None = None) -> JSONObject:
    cell = numa.InstanceCell(number, frozenset(vcpus), 512, pagesize=pages, cpu_pinning=pinned)
    return next(iter(numa.InstanceTopology((cell,)).to_wire()["cells"]))


def test_disks_that_are_not_the_same_are_not_taken_for_shared(tmp_path: pathlib.Path) -> None:
    """A storage at another path would make QEMU write over a disk that is in use."""
    here, there, other = tmp_path / "here", tmp_path / "there", tmp_path / "other"
    for each in (here, there, other):
        each.mkdir()
    (here / "disk").write_bytes(b"1")
    (there / "disk").hardlink_to(here / "disk")
    (other / "disk").write_bytes(b"1")
    live._require_same([here / "disk"], there)
    for wrong in (other, tmp_path / "none"):
        with pytest.raises(OSError, match="disk"):
            live._require_same([here / "disk"], wrong)


@pytest.mark.parametrize(
    ("domain", "left"),
    [
        pytest.param(None, True, id="libvirt forgets it here when it runs there"),
        pytest.param(
            Domain(libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED), True, id="not yet forgotten"
        ),
        pytest.param(Domain(libvirt.VIR_DOMAIN_RUNNING), LiveMigrationFailed, id="it runs here"),
        pytest.param(
            Domain(libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED), LiveMigrationFailed, id="it ended"
        ),
        pytest.param(
            Domain(libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION), RuntimeError, id="unknown"
        ),
        pytest.param(
            Domain(libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED), RuntimeError, id="halfway"
        ),
    ],
)
def test_where_a_guest_is(domain: Domain | None, left: bool | type[Exception]) -> None:
    if left is True:
        assert live.has_left(domain, "why")
        return
    assert isinstance(left, type)
    with pytest.raises(left, match="why"):
        live.has_left(domain, "why")


OFF = libvirt.VIR_DOMAIN_SHUTOFF


@pytest.mark.parametrize(
    ("domain", "expected", "arrived"),
    [
        pytest.param(None, Part.NONE, False, id="no domain"),
        pytest.param(Domain(*RUNS), Part.WHOLE, True, id="it runs"),
        pytest.param(
            Domain(libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_MIGRATED), Part.WHOLE, True, id="moved"
        ),
        pytest.param(Domain(libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER), Part.WHOLE, True, id="paused"),
        pytest.param(
            Domain(libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION, False),
            *(Part.MOVING, False),
            id="it is received",
        ),
        pytest.param(
            Domain(libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION),
            *(Part.MOVING, False),
            id="it is handed over",
        ),
        pytest.param(Domain(*SWITCHED), Part.HALF, False, id="a source after the switch"),
        pytest.param(
            Domain(libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_POSTCOPY),
            *(Part.HALF, False),
            id="a destination after the switch runs",
        ),
        pytest.param(Domain(*CUT_OFF), Part.CUT_OFF, False, id="an interrupted source"),
        pytest.param(
            Domain(libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_POSTCOPY_FAILED),
            *(Part.CUT_OFF, False),
            id="an interrupted destination runs, too",
        ),
        pytest.param(Domain(OFF, libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED), Part.MOVING, False, id="not yet forgotten"),
        pytest.param(Domain(OFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED), Part.CRASHED, True, id="its QEMU has died"),
        pytest.param(Domain(OFF, libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN), Part.WHOLE, True, id="it has shut itself down"),
        pytest.param(Domain(OFF), Part.OFF, True, id="its machine was restarted"),
        pytest.param(Domain(OFF, libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED), Part.OFF, True, id="it was switched off"),
    ],
)
def test_the_part_of_a_guest_that_a_host_has(domain: Domain | None, expected: Part, arrived: bool) -> None:
    found = part.of(domain)
    assert (expected, arrived) == (found, found.has_arrived)


@pytest.mark.parametrize(
    ("uri", "address"),
    [("tcp://127.0.0.1", "127.0.0.1"), ("tcp://[fd00::1]", "fd00::1"), ("tcp://h2.data", ""), ("tcp:h2", "")],
)
def test_qemu_listens_only_on_the_address_that_is_named(uri: str, address: str) -> None:
    assert address == live._address(uri)


class Busy:
    """A connection to a libvirt of which one guest is held up, for instance by its storage."""

    def getAllDomainStats(self, _wanted: int, flags: int) -> list[object]:
        if not flags & libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT:
            raise TimeoutError("the call waits for the guest")
        return []


def test_a_guest_that_is_held_up_holds_up_no_audit() -> None:
    assert {} == usage.of_running(Busy())
