# SPDX-License-Identifier: Apache-2.0
"""Live migrations of the driver libvirt, as far as it needs none: paths of the destination, and where a guest is."""

from __future__ import annotations

import pathlib
from xml.etree import ElementTree

import pytest

from compute_agent.drivers.base import LiveMigrationFailed
from compute_agent.drivers.libvirt.domains import domain_xml, live
from compute_agent.drivers.libvirt.domains.domain_xml import Disk, Machine
from tests.unit.compute_agent import builders

libvirt = pytest.importorskip("libvirt")
HERE, THERE = pathlib.Path("/a/guests/u1"), pathlib.Path("/b/guests/u1")


class Domain:
    def __init__(self, state: int, reason: int = 0) -> None:
        self.now = [state, reason]

    def state(self) -> list[int]:
        return self.now


def test_the_files_of_a_guest_are_where_the_destination_has_them() -> None:
    """Its disks, its seed and its console; files elsewhere stay, and the mark names the new host."""
    disks = [
        Disk(HERE / "disk", "qcow2", "vda"),
        Disk(HERE / "seed.iso", "raw", "vdz", readonly=True),
        Disk(pathlib.Path("/pool/volume"), "raw", "vdb"),
    ]
    text = domain_xml.build(Machine("qemu", "none"), builders.an_instance(), "h1", disks, HERE / "console.log")
    moved = live.elsewhere(text, HERE, THERE, "h2")
    root = ElementTree.fromstring(moved)
    files = [each.get("file") for name in ("source", "log") for each in root.iter(name)]
    assert [str(THERE / "disk"), str(THERE / "seed.iso"), "/pool/volume", str(THERE / "console.log")] == files
    mark = domain_xml.mark_of(moved)
    assert mark is not None
    assert ("h2", "h2") == (mark["host"], mark["node"])


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
    ],
)
def test_where_a_guest_is(domain: Domain | None, left: bool | type[Exception]) -> None:
    if left is True:
        assert live.has_left(domain, "why")
        return
    assert isinstance(left, type)
    with pytest.raises(left, match="why"):
        live.has_left(domain, "why")


@pytest.mark.parametrize(
    ("uri", "address"),
    [("tcp://127.0.0.1", "127.0.0.1"), ("tcp://[fd00::1]", "fd00::1"), ("tcp://h2.data", ""), ("tcp:h2", "")],
)
def test_qemu_listens_only_on_the_address_that_is_named(uri: str, address: str) -> None:
    assert address == live._address(uri)
