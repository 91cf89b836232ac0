# SPDX-License-Identifier: Apache-2.0
"""Which host cells an instance gets."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.hardware import node, shortage, topology_fit
from fleet.hardware.cell_fit import fit_cell
from fleet.hardware.topology_fit import fit_topology, fits_topology
from fleet.objects import numa
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

BIG = cell(1, range(2, 4), memory=3000)


def ids(found):
    return [each.id for each in found.topology.cells] if found else None


@pytest.mark.parametrize(
    ("name", "there", "asked", "expected"),
    [
        ("one cell each", two_cells(), instance(cell(0), cell(1, range(2, 4))), [0, 1]),
        ("more cells than the host has", host(host_cell()), instance(cell(0), cell(1)), None),
        (
            "the second fits the first cell only",
            host(host_cell(0), host_cell(1, range(4, 8), memory_usage=2000)),
            instance(cell(0), BIG),
            [1, 0],
        ),
        ("one of them fits nowhere", two_cells(memory_usage=2000), instance(cell(0), BIG), None),
        ("both want the same cell", two_cells(), instance(cell(0, memory=5000), cell(1)), None),
        (
            "host ids are kept, whatever their order",
            host(host_cell(8), host_cell(3, range(4, 8))),
            instance(cell(0), cell(1)),
            [8, 3],
        ),
    ],
)
def test_arrangements(name, there, asked, expected):
    """Every cell gets a host cell of its own; the first arrangement in the host's order wins."""
    assert expected == ids(fit_topology(there, asked, NO_OVERCOMMIT)), name


@pytest.mark.parametrize(
    ("name", "cells", "asked", "pools", "requests", "packing", "expected"),
    [
        ("the emptier memory", ({"memory_usage": 100}, {}), cell(), (), (), False, 1),
        ("packing: the fuller memory", ({}, {"memory_usage": 100}), cell(), (), (), True, 1),
        ("the less used CPUs", ({"cpu_usage": 1}, {"memory_usage": 100}), cell(), (), (), False, 1),
        ("packing: the more used CPUs", ({"memory_usage": 100}, {"cpu_usage": 1}), cell(), (), (), True, 1),
        ("pinned: the cell with more free CPUs", ({"pinned": [0]}, {}), pinned(vcpus=[0]), (), (), False, 1),
        ("packing pinned: the cell with fewer", ({}, {"pinned": [4]}), pinned(vcpus=[0]), (), (), True, 1),
        ("no devices wanted: away from them", ({}, {"cpu_usage": 1}), cell(), (pool(1, 0),), (), False, 1),
        ("devices wanted: next to them", ({}, {"cpu_usage": 1}), cell(), (pool(2, 1),), (devices(),), False, 1),
        ("all alike: the first", ({}, {}), cell(), (), (), False, 0),
    ],
)
def test_which_cell_is_tried_first(name, cells, asked, pools, requests, packing, expected):
    """Devices count most, then CPUs, then memory; packing fills what is in use already."""
    first, second = cells
    there = host(host_cell(0, range(4), **first), host_cell(1, range(4, 8), **second))
    found = fit_topology(there, instance(asked), NO_OVERCOMMIT, pools, requests, packing)
    assert [expected] == ids(found), name


def test_devices_decide_the_cell():
    """The emptier cell has no such device, so the other cell is chosen, or none."""
    there = host(host_cell(0), host_cell(1, range(4, 8), cpu_usage=2))
    assert [1] == ids(fit_topology(there, instance(cell()), NO_OVERCOMMIT, (pool(1, 1),), [devices()]))
    full = host(host_cell(0), host_cell(1, range(4, 8), cpu_usage=3))
    assert None is fit_topology(full, instance(cell()), NO_OVERCOMMIT, (pool(1, 1),), [devices()])


def test_a_hopeless_search_ends():
    """Ten alike cells and an eleventh device that no arrangement reaches: not ten factorial permutations."""
    there = host(*(host_cell(number, range(4 * number, 4 * number + 4)) for number in range(11)))
    asked = instance(*(cell(number, [number]) for number in range(10)))
    begun = time.process_time()
    assert None is fit_topology(there, asked, NO_OVERCOMMIT, (), [devices()])
    assert 10 > time.process_time() - begun


SIZES = st.lists(st.sampled_from([500, 1000, 2000, 3000]), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(
    used=SIZES, wanted=SIZES, near=st.lists(st.sampled_from([None, 0, 1, 2, 3]), max_size=3), count=st.integers(0, 2)
)
def test_same_as_trying_all_permutations(used, wanted, near, count):
    """The first permutation of the host's cells that fits, found without trying them all."""
    there = host(*(host_cell(each, range(4 * each, 4 * each + 4), memory_usage=mb) for each, mb in enumerate(used)))
    asked = instance(*(cell(number, [number], mb) for number, mb in enumerate(wanted)))
    pools = tuple(pool(1, cell_id, place=str(number)) for number, cell_id in enumerate(near))
    requests = [devices(count)] if count else []
    cells = there.cells if len(used) <= len(wanted) else _spread(there.cells, near, bool(count))
    expected = None
    for places in itertools.permutations(cells, len(wanted)):
        pairs = zip(places, asked.cells, strict=True)
        within = [each for each in near if each is None or each in [place.id for place in places]]
        if all(fit_cell(*pair, NO_OVERCOMMIT) for pair in pairs) and len(within) >= count:
            expected = [place.id for place in places]
            break
    assert expected == ids(fit_topology(there, asked, NO_OVERCOMMIT, pools, requests))
    assert (expected is not None) is fits_topology(there, asked, NO_OVERCOMMIT, pools, requests)


def _spread(cells, near, with_devices):
    """Sorted thrice, the least important first."""
    cells = sorted(cells, key=lambda each: each.memory_usage)
    cells = sorted(cells, key=lambda each: each.cpu_usage)
    return sorted(cells, key=lambda each: near.count(each.id), reverse=with_devices)


def fitted(hardware: node.Hardware, wanted: node.Wanted) -> int:
    """How many are placed one after the other."""
    number = 0
    while (held := node.fit(hardware, wanted)) is not None:
        hardware = node.take(hardware, held)
        number += 1
    return number


@pytest.mark.parametrize("seed", range(300))
def test_copies_are_counted_as_they_are_fitted(seed: int) -> None:
    """Random cells, busy ones too, with overcommit: in closed form and one by one."""
    chance = random.Random(seed)
    even, cells, first = chance.random() < 0.6, [], 0
    for number in range(chance.randint(1, 4)):
        count = 8 if even else chance.choice([4, 8, 12])
        cells.append(
            host_cell(
                *(number, range(first, first + count)),
                memory=16384 if even else chance.choice([4096, 8192, 16384]),
                cpu_usage=chance.randint(0, count),
                memory_usage=1024 * chance.randint(0, 4),
            )
        )
        first += count
    asked, vcpus, memory = chance.randint(1, 3), chance.randint(1, 3), 512 * chance.randint(1, 6)
    topology = instance(*(cell(each, range(each * vcpus, (each + 1) * vcpus), memory) for each in range(asked)))
    limits = numa.Limits(chance.choice([1.0, 1.5, 2.0]), chance.choice([1.0, 1.1]))
    counted = topology_fit.most_copies(host(*cells), topology, limits)
    in_middle = 1 < asked < len(cells)
    assert counted is not None or in_middle
    if counted is not None:
        assert fitted(node.Hardware(host(*cells), (), limits), node.Wanted(topology)) == counted


@pytest.mark.parametrize(
    ("parts", "asked", "expected"),
    [
        pytest.param([4, 4, 4], 2, 6, id="12 parts, 2 each"),
        pytest.param([8, 1, 1], 2, 2, id="beside the largest only 2"),
        pytest.param([5, 5, 1], 3, 1, id="each of the three"),
        pytest.param([3, 2], 1, 5, id="any"),
        pytest.param([2, 2, 2, 0], 3, 2, id="a full cell"),
    ],
)
def test_copies_in_closed_form(parts: list[int], asked: int, expected: int) -> None:
    """Host cells that take so many vcpus further, instances with a vcpu in each of so many cells."""
    cells = [
        host_cell(number, range(8 * number, 8 * number + 8), cpu_usage=8 - free) for number, free in enumerate(parts)
    ]
    topology = instance(*(cell(each, [each], 1) for each in range(asked)))
    assert expected == topology_fit.most_copies(host(*cells), topology, NO_OVERCOMMIT)


def test_what_only_fitting_can_tell() -> None:
    """Pinned vcpus, pages, unequal cells, no limits, and memory that binds where the order goes by CPUs."""
    two = two_cells()
    for asked in ([pinned()], [cell(pagesize=2048)], [cell(), cell(1, range(2, 5))], [cell(memory=0)]):
        assert topology_fit.most_copies(two, instance(*asked), NO_OVERCOMMIT) is None
    assert topology_fit.most_copies(two, instance(cell()), None) is None
    three = host(*(host_cell(number, range(4 * number, 4 * number + 4), memory=1024) for number in range(3)))
    assert topology_fit.most_copies(three, instance(cell(0, [0]), cell(1, [1])), NO_OVERCOMMIT) is None
    assert 0 == topology_fit.most_copies(two, instance(*(cell(each, [each]) for each in range(3))), NO_OVERCOMMIT)


SMALL = (host_cell(0, [0, 1]), host_cell(1, [2, 3]))
ONE_THREAD = {"vcpus": [0], "cpu_thread_policy": "isolate"}


@pytest.mark.parametrize(
    ("name", "cells", "asked", "held"),
    [
        ("no cell has a third CPU", SMALL, [pinned()], None),
        ("beside the vcpus", [host_cell(0, range(4))], [pinned()], [0, 1, 2]),
        ("in the cell that has one", [*SMALL, host_cell(2, range(4, 8))], [pinned()], [4, 5, 6]),
        (
            "beside the first cell only",
            [SMALL[0], host_cell(1, [2, 3])],
            [pinned(vcpus=[0]), pinned(1, [1, 2])],
            [0, 1],
        ),
        ("not of a core in use", [host_cell(0, range(2), threads=2)], [pinned(**ONE_THREAD)], None),
        ("no other thread of its core", [host_cell(0, range(4), threads=2)], [pinned(**ONE_THREAD)], [0, 1, 2, 3]),
        ("what floats has none", SMALL, [cell()], []),
    ],
)
def test_isolated_threads_of_an_emulator(name, cells, asked, held):
    """One more CPU of the host's cell that has the first cell is taken, and counts as pinned for later instances."""
    wanted = numa.InstanceTopology(tuple(asked), "isolate")
    there = node.Hardware(host(*cells), limits=NO_OVERCOMMIT)
    fitted = node.fit(there, node.Wanted(wanted))
    assert (held is not None) == (fitted is not None) == node.fits(there, node.Wanted(wanted)), name
    if fitted is not None:
        assert "isolate" == fitted.topology.emulator_threads_policy
        assert held == sorted(fitted.topology.cells[0].held_cpus)
        left = node.take(there, fitted).topology
        assert set(held) <= frozenset().union(*(each.pinned_cpus for each in left.cells))
    else:
        (lack, *_others) = shortage.of_cells(there, wanted)
        assert lack.asked > lack.free


def _near(number, *physnets, tunneled=False, **values):
    """A cell with cards of these networks."""
    networks = numa.NetworkMetadata(frozenset(physnets), tunneled)
    return host_cell(number, range(4 * number, 4 * number + 4), network_metadata=networks, **values)


FULL = {"memory_usage": 4096}


@pytest.mark.parametrize(
    ("name", "cells", "physnets", "tunneled", "expected"),
    [
        ("the cell of the network", [_near(0), _near(1, "a")], "a", False, [1]),
        ("the cell of the network is full", [_near(0), _near(1, "a", **FULL)], "a", False, None),
        ("a network that is in no cell", [_near(0), _near(1, "a")], "b", False, [0]),
        ("both networks, in one cell", [_near(0, "a"), _near(1, "a", "b")], "ab", False, [1]),
        ("two cells for one of the instance", [_near(0, "a"), _near(1, "b")], "ab", False, None),
        ("one of several cells", [_near(0, "a", **FULL), _near(1, "a")], "a", False, [1]),
        ("a tunnel", [_near(0), _near(1, tunneled=True)], "", True, [1]),
        ("no tunnel asked for", [_near(0), _near(1, tunneled=True, **FULL)], "", False, [0]),
        ("a tunnel, whose cell is full", [_near(0), _near(1, tunneled=True, **FULL)], "", True, None),
        ("a tunnel, in no cell", [_near(0), host_cell(1)], "", True, [0]),
    ],
)
def test_cells_near_networks(name, cells, physnets, tunneled, expected):
    """A network that has cells on the host must have one among those of the instance."""
    networks = numa.NetworkMetadata(frozenset(physnets), tunneled)
    wanted = numa.InstanceTopology((cell(),), network_metadata=networks)
    there = node.Hardware(host(*cells), limits=NO_OVERCOMMIT)
    assert expected == ids(fit_topology(there.topology, wanted, NO_OVERCOMMIT)), name
    assert (expected is not None) == fits_topology(there.topology, wanted, NO_OVERCOMMIT), name
    assert wanted == numa.InstanceTopology.from_wire(wanted.to_wire())
    if expected is None:
        (lack,) = shortage.of_cells(there, wanted)
        assert lack.resource.startswith("NUMA cells with room near ")
    elif networks:
        assert None is topology_fit.most_copies(there.topology, wanted, NO_OVERCOMMIT)


def test_the_policy_of_an_emulator_on_the_wire():
    """Is kept; a topology without one has the same form as ever."""
    wanted = numa.InstanceTopology((pinned(),), "isolate")
    assert "network_metadata" not in host(host_cell()).to_wire()["cells"][0]
    assert wanted == numa.InstanceTopology.from_wire(wanted.to_wire())
    assert ["cells"] == list(instance(pinned()).to_wire())
