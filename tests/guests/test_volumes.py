# SPDX-License-Identifier: Apache-2.0
"""Volumes of real guests: they see the disk that they get while they run, keep it through reboots, and give it back."""

from __future__ import annotations

import pathlib

import pytest

from compute_agent.drivers.libvirt.domains.volumes import GuestSuspended, VolumeBusy
from fleet import states
from fleet.objects import Attachment, VolumeConnection
from tests import factories
from tests.guests.machine import Machine, eventually
from tests.unit.compute_agent import builders

MIB = 2**20


def a_volume(directory: pathlib.Path, number: int, size: int, device: str, uuid: str) -> Attachment:
    """A file of so many bytes, to be attached to a guest."""
    path = directory / f"volume-{factories.uuid(number)}"
    with open(path, "wb") as file:
        file.truncate(size)
    where = VolumeConnection("file", str(path))
    volume, attachment = factories.uuid(number), factories.uuid(number + 100)
    return Attachment(attachment, volume, uuid, device, "attaching", 1, "m1@files#p", where)


def serials(machine: Machine, uuid: str) -> list[str]:
    """Of the disks in the domain that runs."""
    domain = machine.driver._find(uuid)
    text = machine.driver._connection.call(lambda _connection: domain.XMLDesc())
    return [part.split("</serial>")[0] for part in text.split("<serial>")[1:]]


def test_a_guest_gets_volumes_while_it_runs_and_gives_them_back(machine: Machine) -> None:
    """Each step twice, as after a lost answer. What is attached is there after each start, also by a new agent."""
    guest, context = machine.spawn(), builders.a_context()
    machine.up(guest)
    first, second = (
        a_volume(machine.root, number, size, device, guest.uuid)
        for number, size, device in ((1, 3 * MIB, "vdb"), (2, 5 * MIB, "vdc"))
    )
    for _twice in range(2):
        machine.driver.attach_volume(context, guest.uuid, first)
    seen = ("new", f"{first.volume_uuid[:20]} {3 * MIB}")
    eventually(lambda: seen in machine.console(guest.uuid))
    machine.driver.attach_volume(context, guest.uuid, second)
    assert {guest.uuid: [first.volume_uuid, second.volume_uuid]} == machine.restart().attached_volumes()
    for _twice in range(2):
        machine.driver.detach_volume(context, guest.uuid, first)
    assert [second.volume_uuid] == serials(machine, guest.uuid)
    machine.driver.reboot(context, guest, hard=True)
    shown = machine.up(guest, times=2)
    assert 1 == [line for word, line in machine.console(guest.uuid) if word == "disk"].count(f"vdb {5 * MIB}")
    assert states.RUNNING == machine.state(guest), shown
    machine.driver.power_off(context, guest)
    machine.driver.detach_volume(context, guest.uuid, second)
    machine.driver.attach_volume(context, guest.uuid, first)
    machine.driver.power_on(context, guest)
    assert [first.volume_uuid] == serials(machine, guest.uuid)
    machine.destroy(guest.uuid)
    assert ({}, True) == (machine.driver.attached_volumes(), pathlib.Path(first.connection.path).exists())


def test_a_guest_that_does_not_answer_keeps_its_volume(make_machine) -> None:
    """It is still in its boot loader, and the time is short."""
    machine = make_machine(device_detach_timeout=1)
    guest, context = machine.spawn(), builders.a_context()
    volume = a_volume(machine.root, 1, MIB, "vdb", guest.uuid)
    machine.driver.attach_volume(context, guest.uuid, volume)
    with pytest.raises(VolumeBusy, match="has not released device vdb within 1 s"):
        machine.driver.detach_volume(context, guest.uuid, volume)
    assert {guest.uuid: [volume.volume_uuid]} == machine.driver.attached_volumes()
    machine.driver.power_off(context, guest)
    machine.driver.detach_volume(context, guest.uuid, volume)
    assert {} == machine.driver.attached_volumes()


def test_a_suspended_guest_keeps_its_volumes(machine: Machine) -> None:
    """Its saved memory knows them: a volume that was given to another guest meanwhile would have two."""
    guest, context = machine.spawn(), builders.a_context()
    machine.up(guest)
    there, other = (a_volume(machine.root, n, MIB, device, guest.uuid) for n, device in ((1, "vdb"), (2, "vdc")))
    machine.driver.attach_volume(context, guest.uuid, there)
    machine.driver.suspend(context, guest)
    for change, volume in ((machine.driver.detach_volume, there), (machine.driver.attach_volume, other)):
        with pytest.raises(GuestSuspended):
            change(context, guest.uuid, volume)
    assert {guest.uuid: [there.volume_uuid]} == machine.driver.attached_volumes()
    machine.driver.resume(context, guest)
    assert [there.volume_uuid] == serials(machine, guest.uuid)
    machine.driver.detach_volume(context, guest.uuid, there)
    assert {} == machine.driver.attached_volumes()
