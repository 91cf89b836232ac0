# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices in a decision and in its bookings."""

from __future__ import annotations

import logging

import pytest

from fleet import errors
from scheduler.compute import filters, weights
from scheduler.compute.domain.hardware import HARDWARE
from scheduler.compute.domain.host_state import HostState
from tests import factories
from tests.factories import node, request, uuid
from tests.unit.hardware import builders

NUMA, PCI = filters.NUMATopologyFilter(), filters.PciPassthroughFilter()


def topology(*cells):
    return builders.host(*cells).to_wire()


TWO_CELLS = builders.two_cells().to_wire()
THREADS = topology(builders.host_cell(threads=2))
ONE = builders.instance(builders.cell()).to_wire()
TWO = builders.instance(builders.cell(0), builders.cell(1, [2, 3])).to_wire()
PINNED = builders.instance(builders.pinned()).to_wire()
NIC = [builders.devices().to_wire()]


def pools(*made):
    return [each.to_wire() for each in made]


def passed(each, hosts, asked):
    mask = each.mask(hosts, asked)
    return [True] * len(hosts) if mask is None else mask.tolist()


def asking(numa=None, pci=None, count=1, **specs):
    extra_specs = {f"hw:{name}": value for name, value in specs.items()}
    return request({"extra_specs": extra_specs}, {"numa_topology": numa, "pci_requests": pci}, count)


FULL = topology(builders.host_cell(memory_usage=4000), builders.host_cell(1, range(4, 8), memory_usage=4000))
REQUIRE = {"cpu_policy": "dedicated", "cpu_thread_policy": "require"}


@pytest.mark.parametrize(
    ("name", "host", "asked", "expected"),
    [
        ("nothing asked for", {"numa_topology": None}, asking(), True),
        ("the host has cells", {"numa_topology": TWO_CELLS}, asking(TWO), True),
        ("the host has none", {"numa_topology": None}, asking(ONE), False),
        ("the host has too few", {"numa_topology": topology(builders.host_cell())}, asking(TWO), False),
        ("no room in the cells", {"numa_topology": FULL}, asking(ONE), False),
        ("room if overcommitted", {"numa_topology": FULL, "ram_allocation_ratio": 1.5}, asking(ONE), True),
        (
            "a device at the cells",
            {"numa_topology": TWO_CELLS, "pci_stats": pools(builders.pool(1, 1))},
            asking(ONE, NIC),
            True,
        ),
        ("no device", {"numa_topology": TWO_CELLS}, asking(ONE, NIC), False),
        (
            "a JSON text",
            {"numa_topology": '{"cells": [{"id": 0, "cpuset": [0, 1], "memory": 2048}]}'},
            asking(ONE),
            True,
        ),
        ("threads required, none there", {"numa_topology": TWO_CELLS}, asking(**REQUIRE), False),
        ("threads required, and there", {"numa_topology": THREADS}, asking(**REQUIRE), True),
        ("threads required, no cells reported", {"numa_topology": None}, asking(**REQUIRE), True),
        ("threads required, and cells", {"numa_topology": TWO_CELLS}, asking(PINNED, **REQUIRE), False),
    ],
)
def test_numa_topology_filter(name, host, asked, expected):
    """Over columns, and for a lone host state."""
    assert [expected] == passed(NUMA, factories.candidates(node(**host)), asked), name
    alone = HostState("host1", "host1", **{"cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0, **host})
    assert expected == NUMA.host_passes(alone, {"spec_obj": asked}), name


@pytest.mark.parametrize(
    ("name", "host", "expected"),
    [
        ("a device", {"pci_stats": pools(builders.pool())}, True),
        ("a device of another kind", {"pci_stats": pools(builders.pool(vendor_id="1"))}, False),
        ("no devices", {}, False),
        ("near which cell does not matter here", {"pci_stats": pools(builders.pool(1, 7))}, True),
    ],
)
def test_pci_passthrough_filter(name, host, expected):
    """Hosts with free devices for all requests; without requests every host."""
    assert [expected] == passed(PCI, factories.candidates(node(**host)), asking(pci=NIC)), name
    assert expected == PCI.host_passes(HostState("host1", "host1", **host), {"spec_obj": asking(pci=NIC)}), name
    assert None is PCI.mask(factories.candidates(node(**host)), asking())


def test_pci_weigher():
    """100 without free devices, 1 with 99 or more."""
    counts = [0, 1, 99, 500]
    hosts = [
        node(f"host{count}", pci_stats=pools(builders.pool(count - count // 2), builders.pool(count // 2, a="b")))
        for count in counts
    ]
    assert [100, 99, 1, 1] == weights.PCIWeigher().raw(factories.candidates(*hosts), asking()).tolist()


def test_the_limits_are_the_hosts_ratios():
    """The claim fits by the same ratios; a request without a topology has no such limit."""
    hosts = factories.candidates(node(numa_topology=TWO_CELLS, cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5))
    made = factories.decision(factories.pipeline([NUMA]), hosts, asking(ONE))
    ratios = {"cpu_allocation_ratio": 4.0, "ram_allocation_ratio": 1.5}
    assert {"numa_topology": ratios} == made.selections()[0].limits
    assert {} == factories.decision(factories.pipeline([NUMA]), hosts, asking()).selections()[0].limits


def test_instances_of_a_request_share_cells_and_devices():
    """Two pinned instances fill a cell of four CPUs, four the host; two devices are for two."""
    hosts = [node("a", numa_topology=TWO_CELLS), node("b", numa_topology=topology(builders.host_cell()))]
    made = factories.decision(factories.pipeline([NUMA]), factories.candidates(*hosts), asking(PINNED, count=7))
    assert (["a"] * 4 + ["b"] * 2, False) == ([pick.key[0] for pick in made.picks], made.complete)
    host = node("a", pci_stats=pools(builders.pool(2)))
    made = factories.decision(factories.pipeline([PCI]), factories.candidates(host), asking(pci=NIC, count=3))
    assert 2 == len(made.picks)


def test_a_plugin_sees_what_picks_have_left():
    """nova's attributes of a host state show cells and pools with this request's picks counted."""
    seen = []

    class Watch(filters.BaseHostFilter):
        def host_passes(self, host_state, filter_properties):
            used = [cell["pinned_cpus"] for cell in host_state.numa_topology["cells"]]
            seen.append((used, [pool["count"] for pool in host_state.pci_stats]))
            return True

    host = node(numa_topology=topology(builders.host_cell()), pci_stats=pools(builders.pool(2)))
    factories.decision(factories.pipeline([Watch()]), factories.candidates(host), asking(PINNED, NIC, count=2))
    assert [([[]], [2]), ([[0, 1]], [1])] == seen


def left(cache):
    """Memory in use and free devices of the only host, as the next request sees it."""
    hosts = cache.candidates(factories.NOW_S)
    hardware = hosts.rare(0, HARDWARE)
    (cell,) = hardware.topology.cells
    free = sum(pool.count for pool in hardware.pools)
    assert free == hosts.column("free_pci_devices")[0]
    return cell.memory_usage, sorted(cell.pinned_cpus), free


HOST = {"numa_topology": topology(builders.host_cell()), "pci_stats": pools(builders.pool(3))}


def book(cache, asked, expires_at=100.0):
    cache.book(
        factories.decision(factories.pipeline([NUMA, PCI]), cache.candidates(factories.NOW_S), asked), expires_at
    )


def test_bookings_hold_cells_and_devices():
    """A pick counts until it is released; a new report of the node does not remove it."""
    cache = factories.cache(node(**HOST))
    book(cache, asking(PINNED, NIC, count=2))
    assert (2048, [0, 1, 2, 3], 1) == left(cache)
    cache.apply(factories.changes([node(**HOST)], generation=2))
    assert (2048, [0, 1, 2, 3], 1) == left(cache)
    cache.release(uuid(1000))
    assert (1024, [0, 1], 2) == left(cache)
    cache.expire(200.0)
    assert (0, [], 3) == left(cache)


@pytest.mark.parametrize(("name", "asked"), [("cells", asking(PINNED)), ("devices", asking(pci=NIC, count=2))])
def test_what_is_remembered_of_hosts_follows_their_bookings(name, asked):
    """The same request again is answered from what is known, and still finds the host full, and free again."""
    cache = factories.cache(node(**HOST))
    pipeline = factories.pipeline([NUMA, PCI])

    def complete(asked):
        return factories.decision(pipeline, cache.candidates(factories.NOW_S), asked).complete

    assert complete(asked), name
    book(cache, asking(PINNED, NIC, count=2))
    assert not complete(asked), name
    cache.release(uuid(1000))
    assert complete(asked), name


def test_a_claim_that_the_feed_shows_replaces_the_booking():
    """The node's new row contains the claim: it counts once, whichever CPUs the host has chosen."""
    cache = factories.cache(node(**HOST))
    book(cache, asking(PINNED, NIC))
    claimed = topology(builders.host_cell(pinned=[2, 3], cpu_usage=2, memory_usage=1024))
    cache.apply(
        factories.changes(
            [node(numa_topology=claimed, pci_stats=pools(builders.pool(2)))],
            generation=2,
            instances=[factories.PlacedInstance(uuid(1000), "host1", "host1", vm_state="building")],
        )
    )
    assert (1024, [2, 3], 2) == left(cache)


def test_a_node_that_loses_its_cells_has_none():
    """Neither the reported nor the booked ones stay behind."""
    cache = factories.cache(node(**HOST))
    book(cache, asking(PINNED, NIC))
    cache.apply(factories.changes([node()], generation=2))
    hosts = cache.candidates(factories.NOW_S)
    assert (None, 0) == (hosts.rare(0, HARDWARE), hosts.column("numa_cells")[0])
    cache.apply(factories.changes([node(deleted=True)], generation=3))
    cache.release(uuid(1000))
    cache.apply(factories.changes([node(**HOST)], generation=4))
    assert (0, [], 3) == left(cache)


def test_what_cannot_be_read_is_left_out(caplog):
    """A node with a broken topology counts as having none, and is named once."""
    with caplog.at_level(logging.WARNING):
        hosts = factories.candidates(node(numa_topology={"cells": [{"id": "x"}]}))
    assert [False] == passed(NUMA, hosts, asking(ONE))
    assert 1 == len(caplog.records)


def test_a_bad_request_names_its_field():
    """A topology that makes no sense is refused when it is asked for."""
    with pytest.raises(errors.InvalidInput) as invalid:
        asking({"cells": [{"id": 0}]})
    assert "request_spec.instance_properties.numa_topology.cells.0.cpuset" == invalid.value.field
