# SPDX-License-Identifier: Apache-2.0
"""One instance cell on one host cell."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.hardware.cell_fit import fit_cell, fits_cell
from fleet.objects import numa
from fleet.objects.numa import ANY_PAGES, LARGE_PAGES, SMALL_PAGES, CpuTopology, Limits, Pages
from tests.unit.hardware.builders import NO_OVERCOMMIT, cell, host_cell, pinned

#: 1024 MB in pages of 4 KiB, and 512 of 2 MiB (1024 MB), 100 of these used; 2 of 1 GiB.
PAGES = (Pages(4, 262144), Pages(2048, 512, used=100), Pages(1048576, 2))


@pytest.mark.parametrize(
    ("name", "host", "asked", "limits", "expected"),
    [
        ("room to spare", host_cell(), cell(), NO_OVERCOMMIT, True),
        ("to the last MB and CPU", host_cell(), cell(vcpus=range(4), memory=4096), NO_OVERCOMMIT, True),
        ("more memory than there is, whatever the ratio", host_cell(), cell(memory=4097), Limits(16, 16), False),
        ("more vcpus than there are, whatever the ratio", host_cell(), cell(vcpus=range(5)), Limits(16, 16), False),
        ("memory in use", host_cell(memory_usage=3073), cell(), NO_OVERCOMMIT, False),  # 3073 + 1024 > 4096
        ("memory overcommitted", host_cell(memory_usage=4096), cell(), Limits(1, 1.25), True),  # 5120 <= 5120
        ("CPUs in use", host_cell(cpu_usage=3), cell(), NO_OVERCOMMIT, False),  # 3 + 2 > 4
        ("CPUs overcommitted", host_cell(cpu_usage=6), cell(), Limits(2, 1), True),  # 6 + 2 <= 8
        ("no limits, no ceiling", host_cell(cpu_usage=99, memory_usage=99999), cell(), None, True),
        ("CPUs set aside are not for these", host_cell(cpus=[0], pcpuset=[1, 2, 3]), cell(), Limits(16, 1), False),
        ("own CPUs", host_cell(), pinned(), NO_OVERCOMMIT, True),
        ("own CPUs are not overcommitted", host_cell(cpu_usage=3), pinned(), Limits(16, 16), False),
        ("nor is the memory", host_cell(memory_usage=3073), pinned(), Limits(16, 16), False),
        ("own CPUs, none free", host_cell(pinned=[0, 1, 2]), pinned(), Limits(16, 16), False),
        ("own CPUs, set aside", host_cell(cpus=[0], pcpuset=[2, 3], cpu_usage=16), pinned(), Limits(16, 1), True),
        ("own CPUs, too few set aside", host_cell(cpus=[0, 1, 2], pcpuset=[3]), pinned(), Limits(16, 1), False),
    ],
)
def test_room(name, host, asked, limits, expected):
    """Floating vcpus are overcommitted by the ratios, pinned ones never, and no instance against itself."""
    assert expected == (fit_cell(host, asked, limits) is not None), name


@pytest.mark.parametrize(
    ("name", "pagesize", "memory", "expected"),
    [
        ("small is the smallest", SMALL_PAGES, 1024, 4),
        ("small, and it is not enough", SMALL_PAGES, 1025, None),
        ("large is the largest that divides it", LARGE_PAGES, 1024, 1048576),
        ("large, not a multiple of 1 GiB", LARGE_PAGES, 512, 2048),
        ("large is never small", LARGE_PAGES, 825, None),  # (512 - 100) * 2 = 824 MB, and 825 is odd
        ("any prefers the largest", ANY_PAGES, 2048, 1048576),
        ("any falls to the smallest", ANY_PAGES, 513, 4),
        ("a size", 2048, 824, 2048),  # 412 free
        ("a size with too few left", 2048, 826, None),
        ("a size, not a multiple", 2048, 823, None),
        ("a size that the host has not", 16, 16, None),
    ],
)
def test_page_size(name, pagesize, memory, expected):
    """The first allowed size, the largest first, of which enough pages are free and which divides the memory."""
    found = fit_cell(host_cell(mempages=PAGES), cell(memory=memory, pagesize=pagesize), NO_OVERCOMMIT)
    assert expected == (found and found.pagesize), name


@pytest.mark.parametrize(
    ("name", "asked", "used", "expected"),
    [
        ("huge pages are not for who asks for none", cell(memory=1025), 0, False),
        ("floating: all small pages count", cell(memory=1024), 262144, True),
        ("pinned: the free ones", pinned(memory=1024), 1, False),
        ("pinned, and it fits", pinned(memory=1024), 0, True),
    ],
)
def test_no_page_size_asked_for(name, asked, used, expected):
    """Then only the smallest pages are there for the cell, and no size is noted."""
    host = host_cell(mempages=(Pages(4, 262144, used=used), *PAGES[1:]))
    found = fit_cell(host, asked, NO_OVERCOMMIT)
    assert (expected, None) == (found is not None, found and found.pagesize), name


def test_reserved_pages_are_not_for_instances():
    """What the host keeps for itself is not free."""
    host = host_cell(mempages=(Pages(2048, 512, reserved=100),))
    assert None is fit_cell(host, cell(pagesize=2048), NO_OVERCOMMIT)


ISOLATE, PREFER, REQUIRE = ({"cpu_thread_policy": policy} for policy in ("isolate", "prefer", "require"))
EIGHT = range(8)


@pytest.mark.parametrize(
    ("name", "host", "asked", "expected", "guest", "idle"),
    [
        ("no threads: the first free CPUs", host_cell(pinned=[0]), pinned(), [1, 2], (2, 1), []),
        ("threads of one core together", host_cell(cpus=EIGHT, threads=2, pinned=[0]), pinned(), [2, 3], (1, 2), []),
        (
            "all four threads of a core",
            host_cell(cpus=EIGHT, threads=4),
            pinned(vcpus=range(4)),
            [0, 1, 2, 3],
            (1, 4),
            [],
        ),
        ("an odd number: the guest sees cores", host_cell(threads=2), pinned(vcpus=range(3)), [0, 1, 2], (3, 1), []),
        (
            "half cores: one thread of each",
            host_cell(threads=2, pinned=[0, 2]),
            pinned(**PREFER),
            [1, 3],
            (2, 1),
            [],
        ),
        (
            "neither pairs nor halves suffice: anything free",
            host_cell(threads=2, pinned=[3]),
            pinned(vcpus=range(3), **PREFER),
            [0, 1, 2],
            (3, 1),
            [],
        ),
        ("require: two threads of a core", host_cell(threads=2), pinned(**REQUIRE), [0, 1], (1, 2), []),
        ("require: no whole core is free", host_cell(threads=2, pinned=[0, 2]), pinned(**REQUIRE), None, None, None),
        ("require: no threads at all", host_cell(), pinned(**REQUIRE), None, None, None),
        ("isolate: one thread of each core", host_cell(threads=2), pinned(**ISOLATE), [0, 2], (2, 1), [1, 3]),
        (
            "isolate: a half-used core will not do",
            host_cell(threads=2, pinned=[3]),
            pinned(**ISOLATE),
            None,
            None,
            None,
        ),
        ("isolate: any CPU where there are no threads", host_cell(), pinned(**ISOLATE), [0, 1], (2, 1), []),
        (
            "isolate: a sibling that is not for pinning spoils the core",
            host_cell(cpus=[0], pcpuset=[1, 2, 3], siblings=(frozenset([0, 1]), frozenset([2, 3]))),
            pinned(vcpus=[0], **ISOLATE),
            [2],
            (1, 1),
            [3],
        ),
        (
            "isolate: a core without threads is none",
            host_cell(cpus=[0, 1, 2, 3], siblings=(frozenset(), frozenset([0, 2]))),
            pinned(**ISOLATE),
            [0, 1],
            (2, 1),
            [2],
        ),
        (
            "the guest has threads: as many of a core",
            host_cell(threads=2, pinned=[0]),
            pinned(cpu_topology=CpuTopology(1, 1, 2)),
            [2, 3],
            (1, 2),
            [],
        ),
        (
            "the guest has threads, the host no core for them",
            host_cell(threads=2, pinned=[0, 2]),
            pinned(cpu_topology=CpuTopology(1, 1, 2)),
            None,
            None,
            None,
        ),
    ],
)
def test_pinning(name, host, asked, expected, guest, idle):
    """Each vcpu in order gets a CPU, core by core; the guest sees cores and threads as they are."""
    found = fit_cell(host, asked, NO_OVERCOMMIT)
    if expected is None:
        assert None is found, name
        return
    assert dict(zip(sorted(asked.pcpuset), expected, strict=True)) == found.cpu_pinning, name
    assert (guest, idle) == ((found.cpu_topology.cores, found.cpu_topology.threads), sorted(found.cpuset_reserved))


def test_mixed_pins_some_and_lets_the_others_float():
    """Shared vcpus use the shared CPUs within their ratio; the others get dedicated CPUs."""
    asked = cell(vcpus=range(3), cpu_policy=numa.MIXED, pcpuset=frozenset([2]))
    host = host_cell(cpus=[0, 1], pcpuset=[2, 3], cpu_usage=2)
    assert None is fit_cell(host, asked, NO_OVERCOMMIT)  # 2 + 2 > 2
    found = fit_cell(host, asked, Limits(2.0, 1.0))
    assert {2: 2} == found.cpu_pinning


def test_the_held_cell_bears_the_host_cells_id():
    """That is how its usage is found again."""
    assert 7 == fit_cell(host_cell(7), cell(0), NO_OVERCOMMIT).id


HOST_CELLS = st.builds(
    host_cell,
    cpus=st.just(EIGHT),
    threads=st.sampled_from([1, 2, 4]),
    pcpuset=st.sampled_from([(), [8, 9, 10, 11]]),
    pinned=st.sets(st.sampled_from([0, 1, 4, 6, 8, 9]), max_size=4),
    cpu_usage=st.sampled_from([0, 4, 7]),
    memory_usage=st.sampled_from([0, 3000]),
    mempages=st.sampled_from([(), PAGES]),
).map(lambda cell: cell if cell.pcpuset else dataclasses.replace(cell, pcpuset=None))
INSTANCE_CELLS = st.builds(
    cell,
    vcpus=st.sampled_from([range(1), range(2), range(5)]),
    memory=st.sampled_from([512, 1024, 2047]),
    pagesize=st.sampled_from([None, None, SMALL_PAGES, LARGE_PAGES, 2048]),
    pcpuset=st.sampled_from([frozenset(), frozenset([0]), frozenset([0, 1])]),
    cpu_thread_policy=st.sampled_from([None, "prefer", "isolate", "require"]),
    cpu_topology=st.sampled_from([None, CpuTopology(threads=2)]),
)


@settings(max_examples=300, deadline=None)
@given(host=HOST_CELLS, asked=INSTANCE_CELLS, limits=st.sampled_from([None, NO_OVERCOMMIT, Limits(4, 2)]))
def test_whether_it_fits_without_fitting_it(host, asked, limits):
    """The short check gives the same result as the whole fit."""
    asked = dataclasses.replace(asked, cpuset=asked.cpuset | asked.pcpuset)
    assert (fit_cell(host, asked, limits) is not None) is fits_cell(host, asked, limits)
