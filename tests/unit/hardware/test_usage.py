# SPDX-License-Identifier: Apache-2.0
"""What instances hold, added up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import errors
from fleet.hardware import usage
from fleet.hardware.node import Hardware, Wanted, fit, take, without
from fleet.objects.numa import HostTopology, InstanceTopology, Pages
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


def used(there, number=0):
    each = there.cells[number]
    return each.cpu_usage, each.memory_usage, sorted(each.pinned_cpus), [pages.used for pages in each.mempages]


HUGE = (Pages(4, 10000), Pages(2048, 1000, used=5))


@pytest.mark.parametrize(
    ("name", "there", "held", "expected"),
    [
        ("floating", host_cell(cpu_usage=1, memory_usage=10), cell(), (3, 1034, [], [])),
        ("pinned", host_cell(), pinned(cpu_pinning={0: 2, 1: 3}), (2, 1024, [2, 3], [])),
        ("pages", host_cell(mempages=HUGE), cell(pagesize=2048), (2, 1024, [], [0, 517])),  # 5 + 1024 / 2
        ("floating without a size: may be overcommitted", host_cell(mempages=HUGE), cell(), (2, 1024, [], [0, 5])),
        (
            "pinned without a size: the smallest pages",  # 8 MB of 4 KiB
            host_cell(mempages=HUGE),
            pinned(memory=8, cpu_pinning={0: 2, 1: 3}),
            (2, 8, [2, 3], [2048, 5]),
        ),
        (
            "isolated: the core's other threads are in use too",
            host_cell(threads=2),
            pinned(vcpus=[0], cpu_pinning={0: 0}, cpu_thread_policy="isolate", cpuset_reserved=frozenset([1])),
            (2, 1024, [0, 1], []),
        ),
        (
            "CPUs set aside: only floating vcpus count",
            host_cell(cpus=[0, 1], pcpuset=[2, 3]),
            cell(vcpus=range(3), pcpuset=frozenset([2]), cpu_policy="mixed", cpu_pinning={2: 3}),
            (2, 1024, [3], []),
        ),
        ("a cell of another id", host_cell(), cell(1), (0, 0, [], [])),
    ],
)
def test_add(name, there, held, expected):
    """Memory, vcpus, pages and pins of the cells with the same id."""
    assert expected == used(usage.add(host(there), instance(held))), name


@pytest.mark.parametrize(
    ("pins", "error"),
    [({0: 0, 1: 9}, errors.CPUPinningUnknown), ({0: 0, 1: 3}, errors.CPUPinningInvalid)],
)
def test_what_was_fitted_elsewhere_is_not_added(pins, error):
    """A CPU that the cell has not, or that is pinned already, is an error."""
    with pytest.raises(error):
        usage.add(host(host_cell(pinned=[3])), instance(pinned(cpu_pinning=pins)))


def test_recount_bears_a_host_that_has_changed():
    """A CPU that is gone is not pinned, one that two hold is pinned once, a cell that is gone is left out."""
    mine = instance(pinned(cpu_pinning={0: 3, 1: 9}), cell(5))
    assert (4, 2048, [3], []) == used(usage.recount(host(host_cell()), [mine, mine]))


HOSTS = st.sampled_from(
    [
        two_cells(mempages=(Pages(4, 2**20), Pages(2048, 1024))),
        two_cells(threads=2),
        host(host_cell(cpus=[0, 1], pcpuset=[2, 3]), host_cell(1, cpus=[4, 5], pcpuset=[6, 7])),
    ]
)
CELLS = st.sampled_from(
    [
        cell(vcpus=[0]),
        cell(memory=1536),
        pinned(vcpus=[0], memory=512),
        pinned(vcpus=[0], memory=512, cpu_thread_policy="isolate"),
        cell(memory=512, pagesize=-2),
        cell(vcpus=range(3), memory=512, pcpuset=frozenset([0]), cpu_policy="mixed"),
    ]
)
WANTED = st.builds(
    lambda cells, count: Wanted(instance(*cells), (devices(count),) if count else ()),
    st.lists(CELLS, min_size=1, max_size=2),
    st.integers(0, 1),
)


def test_pinned_cells_without_a_size_are_not_overcommitted() -> None:
    """Half of 4096 MB is in huge pages. A second cell of 1536 MB has room in the memory, but not in the small pages."""
    node = Hardware(host(host_cell(mempages=(Pages(4, 2**19), Pages(2048, 1024)))), (), NO_OVERCOMMIT)
    wanted = Wanted(instance(pinned(memory=1536)))
    held = fit(node, wanted)
    assert held is not None
    assert fit(take(node, held), wanted) is None


@settings(max_examples=300, deadline=None)
@given(there=HOSTS, asked=st.lists(WANTED, max_size=8), gone=st.sets(st.integers(0, 7)))
def test_counting_afresh_is_the_same_as_taking(there, asked, gone):
    """One by one or together, usage is the same; after instances leave, it is as if they had never been there."""
    hardware = Hardware(there, (pool(2, 0), pool(1)), NO_OVERCOMMIT)
    all_held = []
    for wanted in asked:
        held = fit(hardware, wanted)
        if held is not None:
            hardware = take(hardware, held)
            all_held.append(held.topology)
    assert hardware.topology == usage.recount(there, all_held)
    pins = [cpu for each in all_held for mine in each.cells for cpu in mine.held_cpus]
    assert len(set(pins)) == len(pins)
    stayed = [each for number, each in enumerate(all_held) if number not in gone]
    expected = there
    for each in stayed:
        expected = usage.add(expected, each)
    assert expected == usage.recount(hardware.topology, stayed)
    assert there == usage.recount(hardware.topology, [])
    for each in all_held:
        hardware = without(hardware, each, [])
    assert there == hardware.topology


@settings(max_examples=100, deadline=None)
@given(there=HOSTS, wanted=WANTED)
def test_the_wire_keeps_everything(there, wanted):
    """Host and instance come back from JSON as they went."""
    assert there == HostTopology.from_wire(json.loads(json.dumps(there.to_wire())))
    held = fit(Hardware(there, (pool(2),), NO_OVERCOMMIT), wanted)
    for topology in (wanted.topology, held and held.topology):
        if topology is not None:
            assert topology == InstanceTopology.from_wire(json.loads(json.dumps(topology.to_wire())))
