# SPDX-License-Identifier: Apache-2.0
"""The life of real guests: what they are given, what is left of them, and what survives the agent and libvirtd."""

from __future__ import annotations

import os
import pathlib
import signal
import tempfile
from collections.abc import Iterator

import pytest

from compute_agent.drivers.base import SpawnFailed
from fleet import errors, states
from fleet.agent import commands
from fleet_trial.private_servers import Libvirt
from tests.guests.machine import HOST, IMAGE, Machine, eventually
from tests.unit.compute_agent import builders


def test_three_guests_have_what_their_flavors_say(machine: Machine) -> None:
    """Each prints its name, memory, CPUs and disks; all boot from one base; nothing is left of them in the end."""
    flavors = [
        {"vcpus": 1, "memory_mb": 96},
        {"vcpus": 2, "memory_mb": 128},
        {"vcpus": 1, "ephemeral_gb": 1, "swap": 16},
    ]
    guests = [machine.spawn(name=f"Web <{n}> & Co", flavor=flavor) for n, flavor in enumerate(flavors)]
    for number, guest in enumerate(guests):
        shown = machine.up(guest)
        assert (f"web-{number}-co", str(guest.flavor.vcpus)) == (shown["name"], shown["cpus"])
        # The kernel keeps some for itself.
        assert guest.flavor.memory_mb * 0.6 < int(shown["memory_kb"]) / 1024 < guest.flavor.memory_mb
        assert states.RUNNING == machine.state(guest)
    disks = {line for word, line in machine.console(guests[2].uuid) if word == "disk"}
    assert {f"vda {2**30}", f"vdb {2**30}", f"vdc {16 * 2**20}"} == {
        line for line in disks if not line.startswith("vdd")
    }
    assert [IMAGE] == machine.bases()
    assert {guest.uuid for guest in guests} == set(machine.driver.list_instance_uuids())
    usage = machine.driver.get_per_instance_usage()[guests[0].uuid]
    assert {"uuid": guests[0].uuid, "memory_mb": 96, "node": HOST, "attempt": 1} == usage
    for guest in guests:
        machine.destroy(guest.uuid)
    assert ([], []) == (machine.guests(), machine.driver.list_instance_uuids())
    with pytest.raises(errors.NotFound):
        machine.state(guests[0])
    machine.destroy(guests[0].uuid)


def test_guests_survive_the_agent_and_libvirtd(machine: Machine, libvirtd: Libvirt) -> None:
    """After kill -9 of libvirtd the driver says that it does not know; afterwards all is as before."""
    guest = machine.spawn()
    machine.up(guest)
    (pid,) = libvirtd.domains()
    machine.restart()
    libvirtd.kill()
    assert [guest.uuid] == machine.driver.list_instance_uuids()
    with pytest.raises(errors.ReportRefused):
        machine.driver.get_available_resource(HOST)
    libvirtd.start()
    assert states.RUNNING == eventually(lambda: machine.state(guest))
    assert [pid] == libvirtd.domains()
    assert 1 == [word for word, _ in machine.console(guest.uuid)].count("up")


def test_a_killed_guest_is_announced_and_can_be_started(machine: Machine, libvirtd: Libvirt) -> None:
    """The driver calls its listener within seconds; the guest boots again from its disk."""
    announced: list[str] = []
    machine.driver.register_event_listener(announced.append)
    guest = machine.spawn()
    machine.up(guest)
    (pid,) = libvirtd.domains()
    announced.clear()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: guest.uuid in announced, 30)
    assert states.CRASHED == machine.state(guest)
    machine.driver.power_on(builders.a_context(), guest)
    machine.up(guest, times=2)
    machine.driver.power_on(builders.a_context(), guest)


def test_events_come_again_after_libvirtd_was_away(machine: Machine, libvirtd: Libvirt) -> None:
    announced: list[str] = []
    machine.driver.register_event_listener(announced.append)
    libvirtd.kill()
    libvirtd.start()
    eventually(lambda: machine.driver.get_available_resource(HOST), 60)
    guest = machine.spawn()
    eventually(lambda: guest.uuid in announced, 30)


def test_a_guest_that_is_shut_down_inside_is_off(machine: Machine) -> None:
    """It stays off until it is started."""
    guest = machine.spawn()
    machine.up(guest)
    machine.driver._find(guest.uuid).shutdown()
    eventually(lambda: machine.state(guest) == states.SHUTDOWN)
    assert ("power", "button") in machine.console(guest.uuid)


def test_nothing_is_left_of_a_guest_that_is_backed_up(machine: Machine) -> None:
    """A program for backups makes checkpoints, and libvirt keeps a domain that has one."""
    guest = machine.spawn()
    machine.driver._find(guest.uuid).checkpointCreateXML("<domaincheckpoint><name>monday</name></domaincheckpoint>")
    machine.destroy(guest.uuid)
    assert ([], []) == (machine.guests(), machine.driver.list_instance_uuids())


def test_an_orphan_is_counted_and_never_touched(machine: Machine) -> None:
    """A domain that something else has made."""
    connection = machine.driver._connection.get()
    uuid = "c0ffee00-0000-4000-8000-000000000001"
    domain = connection.defineXML(
        f"<domain type='qemu'><name>theirs</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory>"
        "<os><type>hvm</type></os></domain>"
    )
    try:
        usage = machine.driver.get_per_instance_usage()[uuid]
        assert {"uuid": uuid, "memory_mb": 64, "node": HOST} == usage
        machine.destroy(uuid)
        assert uuid in machine.driver.list_instance_uuids()
    finally:
        domain.undefine()


def test_a_base_that_no_guest_has_goes_after_its_age(make_machine) -> None:
    """An age of 0 is over at the next audit, and only when the last guest is gone."""
    machine = make_machine(remove_unused_original_minimum_age_seconds=0)
    guest = machine.spawn()
    machine.driver.get_available_resource(HOST)
    assert [IMAGE] == machine.bases()
    machine.destroy(guest.uuid)
    machine.driver.get_available_resource(HOST)
    assert [] == machine.bases()


def test_inventory(machine: Machine) -> None:
    found = machine.driver.get_available_resource(HOST)
    assert found is not None
    assert os.cpu_count() == found["vcpus"]
    assert "QEMU" == found["hypervisor_type"]
    assert ["x86_64", "qemu", "hvm"] in found["supported_instances"]
    cpus = {cpu for cell in found["numa_topology"]["cells"] for cpu in cell["cpuset"]}
    assert set(range(os.cpu_count() or 0)) == cpus


def test_pinned_vcpus(machine: Machine) -> None:
    """Where the claim pins vcpus to CPUs of a cell, QEMU's threads run there."""
    cell = {
        "id": 0,
        "cpuset": [0, 1],
        "memory": 128,
        "cpu_pinning": {"0": 1, "1": 0},
        "cpu_policy": "dedicated",
        "pcpuset": [0, 1],
    }
    guest = machine.spawn(flavor={"vcpus": 2}, claimed_numa_topology={"cells": [cell]})
    assert [(False, True), (True, False)] == [each[:2] for each in machine.driver._find(guest.uuid).vcpuPinInfo()]
    assert "2" == machine.up(guest)["cpus"]


def test_files_belong_to_the_hypervisors_user(machine: Machine) -> None:
    """Other users read neither a disk nor a console."""
    directory = machine.directory(machine.spawn().uuid)
    assert "libvirt-qemu" == (directory / "disk").owner()
    assert [0, 0] == [(directory / name).stat().st_mode & 0o077 for name in ("disk", "console.log")]


def test_stop_start_and_reboot(machine: Machine) -> None:
    """A guest that answers its power button is not forced; each start boots it again from its disk."""
    guest, context = machine.spawn(), builders.a_context()
    machine.up(guest)
    for _twice in range(2):
        machine.driver.power_off(context, guest)
    assert states.SHUTDOWN == machine.state(guest)
    assert ("power", "button") in machine.console(guest.uuid)
    for _twice in range(2):
        machine.driver.power_on(context, guest)
    machine.up(guest, times=2)
    machine.driver.reboot(context, guest)
    machine.up(guest, times=3)
    assert 2 == machine.console(guest.uuid).count(("power", "button"))
    machine.driver.reboot(context, guest, hard=True)
    machine.up(guest, times=4)
    assert 2 == machine.console(guest.uuid).count(("power", "button"))
    with pytest.raises(errors.NotFound):
        machine.driver.power_off(context, builders.an_instance())


def test_suspend_and_resume(machine: Machine, libvirtd: Libvirt) -> None:
    """The guest continues where it was, also if agent and libvirtd were restarted; no memory is left on disk."""
    guest, context = machine.spawn(), builders.a_context()
    machine.up(guest)
    machine.driver.suspend(context, guest)
    assert (states.SHUTDOWN, []) == (machine.state(guest), libvirtd.domains())
    libvirtd.kill()
    libvirtd.start()
    machine.restart()
    assert states.SHUTDOWN == machine.state(guest)
    machine.driver.resume(context, guest)
    assert states.RUNNING == machine.state(guest)
    machine.driver.power_off(context, guest)
    assert (1, 1) == tuple(machine.console(guest.uuid).count(each) for each in (("up", ""), ("power", "button")))
    machine.driver.power_on(context, guest)
    machine.up(guest, times=2)
    machine.driver.suspend(context, guest)
    machine.destroy(guest.uuid)
    assert [] == list(pathlib.Path(libvirtd.place.directory).rglob("*.save"))


def test_a_guest_that_does_not_answer_is_forced_off(make_machine, libvirtd: Libvirt) -> None:
    """It is still in its boot loader, and the time is short. A crashed guest is off after a stop, too."""
    machine = make_machine(shutdown_timeout=1)
    guest, context = machine.spawn(), builders.a_context()
    machine.driver.power_off(context, guest)
    assert states.SHUTDOWN == machine.state(guest)
    machine.driver.power_on(context, guest)
    (pid,) = libvirtd.domains()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: machine.state(guest) == states.CRASHED)
    machine.driver.power_off(context, guest)
    assert states.SHUTDOWN == machine.state(guest)
    machine.driver.reboot(context, guest)
    machine.up(guest)


@pytest.fixture
def small_disk() -> Iterator[pathlib.Path]:
    """A file system of 8 MiB."""
    with tempfile.TemporaryDirectory(prefix="fleet-full-") as name:
        commands.run("mount", "-t", "tmpfs", "-o", "size=8m,mode=711", "none", name)
        try:
            yield pathlib.Path(name)
        finally:
            commands.run("umount", name)


def test_a_full_disk_while_an_image_is_copied(small_disk: pathlib.Path, make_machine) -> None:
    """The build may go to another host; neither a guest nor a part of the image is left."""
    machine = make_machine(small_disk)
    for _twice in range(2):
        with pytest.raises(SpawnFailed, match="No space left on device"):
            machine.spawn()
    assert ([], [], []) == (machine.guests(), machine.bases(), machine.driver.list_instance_uuids())
