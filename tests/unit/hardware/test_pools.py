# SPDX-License-Identifier: Apache-2.0
"""PCI pools and requests."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.hardware import pools
from fleet.objects import pci
from tests.unit.hardware.builders import devices, host_cell, pool

CELLS = (host_cell(0, socket=0), host_cell(1, socket=0), host_cell(2, socket=1))
PF = {"vendor_id": "8086", "dev_type": "type-PF"}


@pytest.mark.parametrize(
    ("name", "free", "requests", "expected"),
    [
        ("one of one", [pool()], [devices()], True),
        ("two of one", [pool()], [devices(2)], False),
        ("two of two pools", [pool(), pool(a="b")], [devices(2)], True),
        ("two requests share", [pool(2)], [devices(), devices()], True),
        ("two requests, one device", [pool(1)], [devices(), devices()], False),
        ("another vendor", [pool(vendor_id="10de")], [devices()], False),
        (
            "either vendor",
            [pool(vendor_id="10de")],
            [devices(1, None, {"vendor_id": "1"}, {"vendor_id": "10de"})],
            True,
        ),
        ("all properties of one alternative", [pool(a="1")], [devices(1, None, {"a": "1", "b": "2"})], False),
        ("numbers compare as text", [pool(1, 1)], [devices(1, None, {"numa_node": "1"})], True),
        ("a PF is not given away", [pool(dev_type="type-PF")], [devices()], False),
        ("a PF to who asks for one", [pool(dev_type="type-PF")], [devices(1, None, PF)], True),
        ("nor is vdpa", [pool(dev_type="vdpa")], [devices()], False),
        ("nor what is managed remotely", [pool(remote_managed="true")], [devices()], False),
        ("or in other letters", [pool(remote_managed="True")], [devices()], False),
        ("letters do not matter", [pool(net="PhysNet1")], [devices(1, None, {"net": "physnet1"})], True),
        ("nothing there", [pool()], [devices(1, None, {"net": None})], True),
        ("something there", [pool(net="a")], [devices(1, None, {"net": None})], False),
        ("nothing asked for", [], [], True),
    ],
)
def test_requests(name, free, requests, expected):
    """All requests must be met, in order, by what earlier ones have left."""
    assert expected == (pools.allocate(pools.ordered(free), requests) is not None), name


@pytest.mark.parametrize(
    ("name", "policy", "at", "on", "expected"),
    [
        ("no policy is legacy: the same cell", None, 0, [0], True),
        ("legacy: another cell", "legacy", 1, [0], False),
        ("legacy: a device that tells no cell", "legacy", None, [0], True),
        ("legacy: one of several cells", None, 1, [0, 1], True),
        ("required: the same cell", "required", 0, [0], True),
        ("required: a device that tells no cell", "required", None, [0], False),
        ("preferred: another cell", "preferred", 2, [0], True),
        ("socket: a neighbour", "socket", 1, [0], True),
        ("socket: the other socket", "socket", 2, [0], False),
        ("required without cells: no matter", "required", None, None, True),
    ],
)
def test_numa_policies(name, policy, at, on, expected):
    """How near to the instance's cells a device must be."""
    cells = None if on is None else [CELLS[number] for number in on]
    assert expected == (pools.allocate((pool(1, at),), [devices(1, policy)], cells, CELLS) is not None), name


def test_a_socket_that_is_not_known_has_no_devices():
    """Without socket data the policy cannot be kept."""
    assert None is pools.allocate((pool(1, 0),), [devices(1, "socket")], [host_cell(0)], [host_cell(0)])


def test_preferred_takes_the_nearest_first():
    """First devices at the cell, then devices without a cell, then the others."""
    free = (pool(1, 1), pool(1, None), pool(1, 0))
    found = pools.allocate(free, [devices(2, "preferred")], [CELLS[0]], CELLS)
    assert [0, None] == [each.kind[0] for each in found.taken]
    assert (pool(1, 1),) == found.left


def test_plain_devices_go_first():
    """A device with a special property is kept for requests that need it."""
    free = pools.pools_of(
        pci.devices_from_wire(
            [
                {"address": "0000:01:00.0", "vendor_id": "8086", "physical_network": "net"},
                {"address": "0000:02:00.0", "vendor_id": "8086"},
                {"address": "0000:03:00.0", "vendor_id": "8086"},
            ]
        )
    )
    assert [pool(2), pool(1, physical_network="net")] == list(free)
    assert (pool(1), pool(1, physical_network="net")) == pools.allocate(free, [devices()]).left


def test_a_failed_allocation_takes_nothing():
    """The first request alone would have been met."""
    free = (pool(1),)
    assert None is pools.allocate(free, [devices(), devices()])
    assert (pool(1),) == free


@pytest.mark.parametrize(
    "given",
    [
        [{"count": 2, "numa_node": None, "vendor_id": "8086"}],
        '[{"count": 2, "numa_node": -1, "vendor_id": 8086}]',
        {"pools": [{"count": 2, "tags": {"vendor_id": "8086"}}]},
        {"nova_object.data": {"pools": [{"nova_object.data": {"count": 2, "vendor_id": "8086"}}]}},
    ],
)
def test_forms_of_pools(given):
    """A list, its JSON, and nova's objects are the same pool."""
    assert (pool(2),) == pci.pools_from_wire(given)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ([{"count": -1}], "pci_stats.0.count"),
        ([{}], "pci_stats.0.count"),
        ([{"count": 1, "numa_node": "x"}], "pci_stats.0.numa_node"),
        ({"a": 1}, "pci_stats"),
        ("{", "pci_stats"),
    ],
)
def test_bad_pools_are_refused(given, field):
    """The error names what is wrong."""
    with pytest.raises(errors.InvalidInput) as invalid:
        pci.pools_from_wire(given)
    assert field == invalid.value.field


def test_devices_that_come_back():
    """They are counted to their pool, or make one."""
    there = pools.ordered([pool(1, 0)])
    assert pools.ordered([pool(2, 0), pool(1, 1)]) == pools.more(there, [pool(1, 0).kind, pool(1, 1).kind])
