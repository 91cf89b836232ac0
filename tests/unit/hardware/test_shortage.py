# SPDX-License-Identifier: Apache-2.0
"""The cells and devices that a node lacks for a request."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.hardware import node, shortage
from fleet.hardware.node import Hardware, Wanted
from fleet.objects.numa import SMALL_PAGES, Limits, Pages
from tests.unit.hardware.builders import (
    NO_OVERCOMMIT,
    cell,
    devices,
    host,
    host_cell,
    instance,
    pinned,
    pool,
    two_cells,
)

GPU = {"vendor_id": "10de", "product_id": "1eb8"}
GPUS = devices(1, None, GPU)
EIGHT = range(8)
PAGES = (Pages(4, 262144), Pages(2048, 512, used=500))


def gpus(count, numa_node=None):
    return pool(count, numa_node, **GPU)


def lacks(topology, asked, requests=(), free=(), stock=(), limits=NO_OVERCOMMIT):
    found = shortage.of_cells(Hardware(topology, tuple(free), limits, tuple(stock)), asked, requests)
    return [(each.resource, each.place, each.unit, each.free, each.asked) for each in found]


@pytest.mark.parametrize(
    ("name", "there", "asked", "expected"),
    [
        ("it fits", two_cells(), instance(pinned()), []),
        ("no cells", None, instance(cell()), [("NUMA cells", "", "", 0, 1)]),
        ("too few cells", host(host_cell()), instance(cell(), cell(1)), [("NUMA cells", "", "", 1, 2)]),
        (
            "own CPUs, by the cell that lacks least",
            host(host_cell(cpus=EIGHT, pinned=range(7)), host_cell(1, range(8, 16), pinned=[8, 9])),
            instance(pinned(vcpus=EIGHT)),
            [("pinned CPUs", "in cell 1", "", 6, 8)],
        ),
        (
            "own CPUs that float for others",
            host(host_cell(cpu_usage=3)),
            instance(pinned()),
            [("pinned CPUs", "in cell 0", "", 1, 2)],
        ),
        (
            "memory, and own CPUs",
            host(host_cell(memory_usage=4000, pinned=range(4))),
            instance(pinned()),
            [("pinned CPUs", "in cell 0", "", 0, 2), ("memory", "in cell 0", "MB", 96, 1024)],
        ),
        (
            "vcpus that float, at their limit",
            host(host_cell(cpu_usage=3)),
            instance(cell()),
            [("vcpus", "in cell 0", "", 1, 2)],
        ),
        (
            "pages of a size",
            host(host_cell(mempages=PAGES)),
            instance(cell(memory=64, pagesize=2048)),
            [("memory in pages of 2048 KiB", "in cell 0", "MB", 24, 64)],
        ),
        (
            "pages of a size that does not divide it",
            host(host_cell(mempages=PAGES)),
            instance(cell(memory=3, pagesize=2048)),
            [("memory in pages of 2048 KiB", "in cell 0", "MB", 0, 3)],
        ),
        (
            "small pages by name",
            host(host_cell(mempages=PAGES)),
            instance(cell(memory=2000, pagesize=SMALL_PAGES)),
            [("memory in small pages", "in cell 0", "MB", 1024, 2000)],
        ),
        (
            "small pages, for want of a wish",
            host(host_cell(mempages=PAGES)),
            instance(cell(memory=2000)),
            [("memory in the smallest pages", "in cell 0", "MB", 1024, 2000)],
        ),
        (
            "whole cores",
            host(host_cell(threads=2, pinned=[0])),
            instance(pinned(cpu_thread_policy="isolate")),
            [("free cores", "in cell 0", "", 1, 2)],
        ),
        (
            "threads of one core",
            host(host_cell(threads=2, pinned=[0, 2])),
            instance(pinned(cpu_thread_policy="require")),
            [("CPUs on cores with several threads free", "in cell 0", "", 0, 2)],
        ),
        (
            "room in one cell for either, not for both",
            host(host_cell(), host_cell(1, range(4, 8), pinned=range(4, 8))),
            instance(pinned(), pinned(1)),
            [("NUMA cells with room", "", "", 1, 2)],
        ),
    ],
)
def test_cells(name, there, asked, expected):
    """What the nearest cell lacks, with its numbers."""
    assert expected == lacks(there, asked), name


@pytest.mark.parametrize(
    ("name", "free", "stock", "expected"),
    [
        ("none left", [], [gpus(4)], [("PCI devices of pool 10de:1eb8", 0, 1, 4)]),
        ("of another kind", [pool(2)], [pool(2)], [("PCI devices of pool 10de:1eb8", 0, 1, 0)]),
        ("how many there are is not known", [], [], [("PCI devices of pool 10de:1eb8", 0, 1, None)]),
        ("enough", [gpus(1)], [gpus(4)], []),
    ],
)
def test_devices(name, free, stock, expected):
    """The message has the free and the total number of devices of the kind."""
    found = shortage.of_devices(Hardware(None, tuple(free), stock=tuple(stock)), [GPUS])
    assert expected == [(each.resource, each.free, each.asked, each.total) for each in found], name


def test_requests_share_the_pools():
    """The second request finds what the first has left."""
    (lack,) = shortage.of_devices(Hardware(None, (gpus(3),), stock=(gpus(4),)), [devices(2, None, GPU)] * 2)
    assert (1, 2, 4) == (lack.free, lack.asked, lack.total)


def test_names_of_devices():
    """Vendor and product, or the requested properties; all alternatives are named."""
    asked = devices(1, None, {"dev_type": "type-VF", "vendor_id": "8086"}, GPU)
    (lack,) = shortage.of_devices(Hardware(), [asked])
    assert "PCI devices of pool dev_type=type-VF,vendor_id=8086 or 10de:1eb8" == lack.resource


def test_devices_far_from_the_cells():
    """The cell with room has no device near, and the cell with a device has no room."""
    there = host(host_cell(), host_cell(1, range(4, 8), pinned=range(4, 8)))
    found = lacks(there, instance(pinned()), [GPUS], free=[gpus(2, 1)])
    assert [("PCI devices of pool 10de:1eb8", "near NUMA cells with room", "", 0, 1)] == found


HOST_CELLS = st.builds(
    lambda **values: values,
    threads=st.sampled_from([1, 2]),
    pinned=st.sets(st.integers(0, 3)),
    cpu_usage=st.sampled_from([0, 3, 4]),
    memory_usage=st.sampled_from([0, 3500]),
    mempages=st.sampled_from([(), PAGES]),
)
CELLS = st.one_of(
    st.builds(cell, vcpus=st.sampled_from([[0], range(3)]), pagesize=st.sampled_from([None, SMALL_PAGES, 2048])),
    st.builds(
        pinned,
        vcpus=st.sampled_from([[0], range(3)]),
        memory=st.sampled_from([24, 1024]),
        cpu_thread_policy=st.sampled_from([None, "isolate", "require"]),
    ),
)


@settings(max_examples=200, deadline=None)
@given(
    known=st.lists(HOST_CELLS, max_size=3),
    asked=st.lists(CELLS, min_size=1, max_size=2),
    near=st.lists(st.sampled_from([None, 0, 1]), max_size=2),
    count=st.integers(0, 2),
    limits=st.sampled_from([NO_OVERCOMMIT, Limits(2, 1.5)]),
)
def test_what_does_not_fit_lacks_something(known, asked, near, count, limits):
    """A node that cannot take the instance lacks a positive amount of something, any other nothing."""
    cells = [
        host_cell(each, range(4 * each, 4 * each + 4), **{**values, "pinned": {4 * each + cpu for cpu in values["pinned"]}})
        for each, values in enumerate(known)
    ]  # fmt: skip
    free = tuple(pool(1, place, slot=str(slot)) for slot, place in enumerate(near))
    requests = (devices(count),) if count else ()
    hardware = Hardware(host(*cells) if cells else None, free, limits)
    found = shortage.of_cells(hardware, instance(*asked), requests)
    assert node.fits(hardware, Wanted(instance(*asked), requests)) is not bool(found)
    assert all(lack.free < lack.asked and lack.part > 0 for lack in found)
