# SPDX-License-Identifier: Apache-2.0
"""A host starts guests with their volumes, also such as move: it must reach them, and the ledger says which they are."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from compute_agent.drivers.fake import FakeDriver
from fleet import move_states
from fleet.objects import Attachment, Instance, VolumeConnection
from tests import factories
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST
from tests.unit.compute_agent.test_move import DEST, OTHER, UUID, Part
from tests.worlds.one_host import OneHost, one_host

NOWHERE = VolumeConnection("fake", "fake/volume")


def volume(instance: Instance, number: int = 1, **values: Any) -> Attachment:
    known = {"device": "vdb", "status": "reserved", "attempt": 1, "volume_host": "m1@files#p", "connection": NOWHERE}
    uuids = {
        "uuid": factories.uuid(number + 100),
        "volume_uuid": factories.uuid(number),
        "instance_uuid": instance.uuid,
    }
    return Attachment(**{**uuids, **known, **values})


def build(
    world: OneHost, instance: Instance, *volumes: Attachment, recorded: Sequence[Attachment] | None = None
) -> None:
    """:param recorded: by the ledger; None: the same"""
    known = volumes if recorded is None else recorded
    world.conductor.attachments = {each.uuid: each for each in known}
    world.build(instance, volumes=list(volumes))


@pytest.fixture
def world() -> OneHost:
    return one_host()


@pytest.fixture
def instance(world: OneHost) -> Instance:
    return world.conductor.place(builders.an_instance())


def test_a_guest_starts_with_its_volumes(world: OneHost, instance: Instance) -> None:
    """What the ledger has counts, and a guest without volumes costs no message."""
    build(world, instance, volume(instance), volume(instance, 2, device="vdc"))
    assert {instance.uuid: [factories.uuid(1), factories.uuid(2)]} == world.driver.attached_volumes()
    calls = list(world.conductor.calls)
    world.build(world.conductor.place(builders.an_instance()))
    assert (1, 1) == tuple(list(seen).count("get_attachments") for seen in (calls, world.conductor.calls))


def test_volumes_that_the_host_does_not_reach(instance: Instance, world: OneHost) -> None:
    """The claim is refused, so that another host gets the build, and no guest was there."""
    there = VolumeConnection("file", f"/nowhere/volume-{factories.uuid(1)}")
    build(world, instance, volume(instance, connection=there))
    failure = world.conductor.rescheduled[instance.uuid]["failure"]
    assert ("claim", "VolumeUnreachable") == (failure["step"], failure["code"])
    assert "its data are on machine m1" in failure["message"]
    assert [] == world.driver.list_instance_uuids()


def test_volumes_that_the_host_shares(tmp_path: pathlib.Path) -> None:
    world = one_host(builders.a_conf(reserved_host_memory_mb=0, volume_hosts=["m*"]))
    instance = world.conductor.place(builders.an_instance())
    path = tmp_path / f"volume-{factories.uuid(1)}"
    path.touch()
    build(world, instance, volume(instance, connection=VolumeConnection("file", str(path))))
    assert {instance.uuid: [factories.uuid(1)]} == world.driver.attached_volumes()


def test_a_driver_without_volumes(instance: Instance) -> None:
    class Plain(FakeDriver):
        takes_volumes = False

    world = one_host(driver=Plain(builders.a_conf(reserved_host_memory_mb=0), pause=lambda seconds: None))
    instance = world.conductor.place(instance)
    build(world, instance, volume(instance))
    failure = world.conductor.rescheduled[instance.uuid]["failure"]
    assert "A guest that starts with volumes is not supported by Plain." == failure["message"]


def test_an_order_that_names_other_volumes(world: OneHost, instance: Instance) -> None:
    """It is forged, or late: nothing is opened."""
    asked = volume(instance)
    build(world, instance, asked, recorded=[dataclasses.replace(asked, connection=VolumeConnection("fake", "other"))])
    failure = world.conductor.rescheduled[instance.uuid]["failure"]
    assert ("claim", "OrderDiffers") == (failure["step"], failure["code"])
    assert [] == world.driver.list_instance_uuids()


def test_a_report_says_what_the_host_reaches() -> None:
    world = one_host(builders.a_conf(reserved_host_memory_mb=0, volume_hosts=["m1", "n*"]))
    assert ["m1,n*"] == [each.stats["volume_hosts"] for each in world.reporter.audit()]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        pytest.param(move_states.POST_MIGRATING, move_states.RESIZE, id="resized"),
        pytest.param(move_states.PRE_MIGRATING, move_states.EVACUATION, id="evacuated"),
    ],
)
def test_a_guest_that_arrives_has_its_volumes(status: str, kind: str) -> None:
    """Those that the ledger names, also after the step is repeated."""
    part = Part(status, **DEST, kind=kind)
    for number in (1, 2):
        part.moves.put(part.migration, volumes=[volume(part.instance, number)])
        part.look()
        assert {part.instance.uuid: [factories.uuid(number)]} == part.world.driver.attached_volumes()


def test_a_guest_that_comes_back_has_the_volumes_of_the_ledger() -> None:
    """Not those that it had when it was switched off."""
    part = Part(move_states.PRE_MIGRATING, source=HOST, dest=OTHER)
    part.world.driver.attach_volume(builders.a_context(), part.instance.uuid, volume(part.instance))
    part.look()
    part.moves.put(part.moves.records[UUID], status=move_states.RESUMING, volumes=[volume(part.instance, 2)], held=None)
    part.look()
    assert {part.instance.uuid: [factories.uuid(2)]} == part.world.driver.attached_volumes()


def test_a_destination_that_does_not_reach_a_volume() -> None:
    """It refuses before anything is held, and another one is tried."""
    part = Part(move_states.PREPARING, **DEST)
    there = VolumeConnection("file", f"/nowhere/volume-{factories.uuid(1)}")
    part.moves.put(part.migration, volumes=[volume(part.instance, connection=there)])
    part.look()
    assert "its data are on machine m1" in part.moves.records[UUID].failure["message"]
    assert {} == part.world.driver.attached_volumes()
