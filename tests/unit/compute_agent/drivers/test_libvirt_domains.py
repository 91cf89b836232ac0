# SPDX-License-Identifier: Apache-2.0
"""The driver on libvirt's own test driver, ``test:///default``: real calls of libvirt, and domains that only libvirt has."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from compute_agent.drivers.libvirt import LibvirtDriver, driver
from fleet import errors, states
from fleet.objects import Image, ImageRecord, Instance
from tests import conftest, factories
from tests.unit.compute_agent import builders

HOST = "machine"
IMAGE = factories.uuid(7)
#: The domain that libvirt's test driver begins with.
THEIRS = "6695eb01-f6a4-8304-79aa-97f2502e193f"


class Machine:
    def __init__(self, root: pathlib.Path) -> None:
        conf = builders.a_conf(compute_driver="libvirt", instances_path=str(root))
        conf.set_override("connection_uri", "test:///default", group="libvirt")
        # Its guests answer no power button.
        conf.set_override("shutdown_timeout", 0, group="libvirt")
        (root / "image").write_bytes(b"\0" * 2**20)
        self.driver = LibvirtDriver(conf)
        self.driver.kind = "test"
        self.driver.init_host(HOST)
        self.driver.use_images(lambda _context, _id: ImageRecord("tiny", str(root / "image"), IMAGE))
        self.context = builders.a_context()

    def spawn(self, **values: Any) -> Instance:
        instance = builders.an_instance(node=HOST, image=Image(id=IMAGE), **values)
        self.driver.spawn(self.context, instance, instance.image)
        return instance

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


def test_a_spawn_that_fails_is_undone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """libvirt refuses the domain after its files are made: the reason is kept, and nothing else."""
    monkeypatch.setattr(driver.domain_xml, "build", lambda *_args: "<domain/>")
    with pytest.raises(driver.SpawnFailed, match="The guest cannot be made"):
        machine.spawn()
    assert [THEIRS] == machine.driver.list_instance_uuids()


def test_a_domain_of_something_else(machine: Machine) -> None:
    """Is counted with its memory, and stays."""
    usage = machine.driver.get_per_instance_usage()[THEIRS]
    assert {"uuid": THEIRS, "memory_mb": 8192, "node": HOST} == usage
    machine.driver.destroy(machine.context, THEIRS)
    assert states.RUNNING == machine.driver.get_info(THEIRS).state
