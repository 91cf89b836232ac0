# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices in a claim, in the tracker, and in an agent's life."""

from __future__ import annotations

import dataclasses
import logging
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compute_agent.drivers import fake_hardware
from compute_agent.node import claims, inventory
from compute_agent.node.claims import ClaimRequest, Resources
from compute_agent.node.resource_tracker import ResourceTracker
from compute_agent.work import recovery
from fleet import errors
from fleet.hardware.node import Hardware, Wanted
from fleet.objects import Claimed, HostLimits, Instance, numa, pci
from fleet.objects.claimed import UNKNOWN_CELLS, UNKNOWN_DEVICES
from tests.unit.compute_agent import builders as agents
from tests.unit.hardware import builders
from tests.worlds.one_host import one_host

RATIOS = numa.Limits(1.0, 1.0)
TWO_CELLS = builders.two_cells()
NICS = pci.devices_from_wire([{"address": f"0000:00:00.{slot}", "vendor_id": "8086"} for slot in range(3)])
ONE = builders.instance(builders.cell())
PINNED = builders.instance(builders.pinned())
NIC = (builders.devices(),)
FULL = builders.two_cells(memory_usage=4000)

TOPOLOGY_SHORT = "The requested NUMA topology does not fit what is free of the host's topology"
BOTH_SHORT = "The requested NUMA topology and PCI devices do not fit what is free of the host's topology"
DEVICES_SHORT = "The PCI claim failed: not enough free devices for 1 unnamed"


@pytest.mark.parametrize(
    ("name", "hardware", "wanted", "expected"),
    [
        ("fits", Hardware(TWO_CELLS), Wanted(ONE), []),
        ("no room in the cells", Hardware(FULL), Wanted(ONE), [TOPOLOGY_SHORT]),
        ("a host without cells is not asked for any", Hardware(), Wanted(ONE), []),
        ("no devices", Hardware(), Wanted(None, NIC), [DEVICES_SHORT]),
        ("a device", Hardware(pools=(builders.pool(),)), Wanted(None, NIC), []),
        ("cells and no device", Hardware(TWO_CELLS), Wanted(ONE, NIC), [BOTH_SHORT, DEVICES_SHORT]),
        ("a device out of reach", Hardware(TWO_CELLS, (builders.pool(1, 9),)), Wanted(ONE, NIC), [BOTH_SHORT]),
        ("no cells, and a device somewhere", Hardware(pools=(builders.pool(1, 9),)), Wanted(ONE, NIC), []),
    ],
)
def test_refusals(name, hardware, wanted, expected):
    """The refusal names what is short, the topology before the devices."""
    request = ClaimRequest(Resources(), Resources(), Resources(), HostLimits(numa_topology=RATIOS), wanted, hardware)
    assert expected == claims.refusals(request), name


def test_all_that_is_short_is_told_in_order():
    """Memory, disk, vcpus, NUMA, PCI."""
    short = HostLimits(memory_mb=1, disk_gb=1, vcpu=1, numa_topology=RATIOS)
    request = ClaimRequest(Resources(2, 2, 2), Resources(), Resources(), short, Wanted(ONE, NIC), Hardware(FULL))
    begun = [" ".join(reason.split()[:2]) for reason in claims.refusals(request)]
    assert ["Free memory", "Free disk", "Free CPUs", "The requested", "The PCI"] == begun


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (None, None),
        ({"cpu_allocation_ratio": 2.0, "ram_allocation_ratio": 1.5}, numa.Limits(2.0, 1.5)),
        ('{"cpu_allocation_ratio": 2.0, "ram_allocation_ratio": 1.5}', numa.Limits(2.0, 1.5)),
        (
            {"cells": [{"id": 0, "cpus": [0, 1], "mem": {"total": 1000, "limit": 1500}, "cpu_limit": 8}]},
            numa.Limits(4.0, 1.5),
        ),
    ],
)
def test_forms_of_the_limits(wire, expected):
    """Two ratios, or the form of old that they are recovered from."""
    assert expected == HostLimits.from_wire({"numa_topology": wire}).numa_topology


def test_limits_that_make_no_sense_are_named():
    """The error names the field."""
    with pytest.raises(errors.InvalidInput) as invalid:
        HostLimits.from_wire({"numa_topology": {"cpu_allocation_ratio": "x", "ram_allocation_ratio": 1}})
    assert "limits.numa_topology.cpu_allocation_ratio" == invalid.value.field


def tracker(topology: numa.HostTopology | None = TWO_CELLS, packing: bool = False) -> ResourceTracker:
    made = ResourceTracker(agents.HOST, agents.HOST, packing)
    made.set_report(agents.a_report(numa_topology=topology and topology.to_wire()), NICS)
    return made


def instance(topology: numa.InstanceTopology | None = PINNED, devices: int = 0, **values: Any) -> Instance:
    wire = [builders.devices(devices).to_wire()] if devices else None
    return agents.an_instance(numa_topology=topology and topology.to_wire(), pci_requests=wire, **values)


def left(made: ResourceTracker) -> tuple[list[list[int]], int]:
    """CPUs pinned in each cell, and how many devices are free."""
    hardware = made.view().hardware
    cells = hardware.topology.cells if hardware.topology else ()
    return [sorted(cell.pinned_cpus) for cell in cells], sum(pool.count for pool in hardware.pools)


def test_a_claim_holds_cpus_and_devices_until_it_is_given_back():
    """They are known by number and address, and go with the claim."""
    made = tracker()
    claim = made.instance_claim(instance(devices=2), HostLimits())
    assert ([[0, 1], []], 1) == left(made)
    claimed = claim.claimed()
    assert {"0": 0, "1": 1} == claimed.numa_topology["cells"][0]["cpu_pinning"]
    assert ["0000:00:00.0", "0000:00:00.1"] == [device["address"] for device in claimed.pci_devices]
    claim.abort()
    assert ([[], []], 3) == left(made)


def test_a_plain_claim_tells_the_ledger_of_no_hardware():
    """An instance without hardware requests claims no cells and devices, even on a host that has some."""
    claimed = tracker().instance_claim(agents.an_instance(), HostLimits()).claimed()
    assert (None, None) == (claimed.numa_topology, claimed.pci_devices)


def test_a_host_without_cells_claims_none():
    """A forced instance gets its memory and devices, and no topology."""
    claimed = tracker(None).instance_claim(instance(devices=1), HostLimits()).claimed()
    assert (None, 1) == (claimed.numa_topology, len(claimed.pci_devices))


@pytest.mark.parametrize(("packing", "expected"), [(False, [[0], [4]]), (True, [[0, 1], []])])
def test_packing_fills_a_cell_first(packing, expected):
    """The second instance gets the other cell, unless cells are packed."""
    made = tracker(packing=packing)
    for _number in range(2):
        made.instance_claim(instance(builders.instance(builders.pinned(vcpus=[0]))), HostLimits())
    assert expected == left(made)[0]


def test_a_refused_claim_holds_nothing():
    """Memory would do, the CPUs do not: nothing is held of either."""
    made = tracker()
    with pytest.raises(errors.ComputeResourcesUnavailable) as refused:
        made.instance_claim(instance(builders.instance(builders.pinned(vcpus=range(5))), devices=1), HostLimits())
    assert BOTH_SHORT == refused.value.reason
    assert (Resources(), ([[], []], 3)) == (made.view().used, left(made))


def test_a_restarted_agent_knows_who_holds_what():
    """The ledger's rows bring CPUs and devices back; the next claim gets others."""
    before, after = tracker(), tracker()
    first = instance(devices=1)
    claimed = before.instance_claim(first, HostLimits()).claimed()
    row = dataclasses.replace(first, **{f"claimed_{name}": amount for name, amount in vars(claimed).items()})
    after.track(Instance.from_wire(row.to_wire()))
    assert left(before) == left(after)
    second = after.instance_claim(instance(devices=2), HostLimits())
    assert [4, 5] == sorted(cpu for cell in second.hardware.topology.cells for cpu in cell.held_cpus)
    assert ([[0, 1], [4, 5]], 0) == left(after)


def test_racers_never_share_a_cpu_or_a_device():
    """Of 24 concurrent claims four get two CPUs each, and no CPU or device is held twice."""
    made = tracker()
    won: list[claims.Claim] = []
    gate = threading.Barrier(24)

    def race(devices: int) -> None:
        gate.wait()
        try:
            won.append(made.instance_claim(instance(devices=devices), HostLimits()))
        except errors.ComputeResourcesUnavailable:
            return

    racers = [threading.Thread(target=race, args=(number % 2,)) for number in range(24)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    cpus = [cpu for claim in won for cell in claim.hardware.topology.cells for cpu in cell.held_cpus]
    addresses = [device.address for claim in won for device in claim.hardware.devices]
    assert list(range(8)) == sorted(cpus)
    assert len(set(addresses)) == len(addresses)


ASKED = st.builds(
    instance,
    st.sampled_from(
        [
            None,
            ONE,
            PINNED,
            builders.instance(builders.pinned(0, [0]), builders.pinned(1, [1])),
            builders.instance(builders.pinned(vcpus=[0], cpu_thread_policy="isolate")),
        ]
    ),
    st.integers(0, 2),
)


@settings(max_examples=200, deadline=None)
@given(asked=st.lists(ASKED, max_size=8), order=st.randoms(use_true_random=False), threads=st.sampled_from([1, 2]))
def test_whatever_is_claimed_and_released_leaves_the_host_as_it_was(asked, order, threads):
    """In any order of claims, aborts and releases no CPU or device is held twice, and in the end none is."""
    made = tracker(builders.two_cells(threads=threads))
    empty = made.view()
    held: dict[str, claims.Claim] = {}
    for each in asked:
        try:
            held[each.uuid] = made.instance_claim(each, HostLimits(numa_topology=RATIOS))
        except errors.ComputeResourcesUnavailable:
            continue
        topologies = [claim.hardware.topology for claim in held.values()]
        cpus = [cpu for topology in topologies if topology for cell in topology.cells for cpu in cell.held_cpus]
        addresses = [device.address for claim in held.values() for device in claim.hardware.devices]
        assert (len(set(cpus)), len(set(addresses))) == (len(cpus), len(addresses))
        if order.random() < 0.4:
            gone = order.choice(list(held))
            held.pop(gone).abort()
    for uuid in order.sample(list(held), len(held)):
        made.release(uuid)
    assert empty == made.view()


FAKE = {
    "vcpus": 8,
    "memory_mb": 8192,
    "numa_cells": 2,
    "numa_threads_per_core": 2,
    "numa_huge_pages": 512,
    "pci_devices": ['{"count": 9, "vendor_id": "8086", "numa_node": 1}'],
}


def a_numa_host():
    return one_host(agents.a_conf(FAKE, reserved_host_memory_mb=0))


def test_the_fake_driver_reports_cells_and_devices():
    """Its options set CPUs, memory, cores, pages, and one pool of equal devices."""
    world = a_numa_host()
    world.reporter.report()
    report = world.conductor.reports[agents.HOST, agents.HOST]
    first, second = numa.HostTopology.from_wire(report.numa_topology).cells
    assert ([0, 1, 2, 3], 4096, 4) == (sorted(first.cpuset), first.memory, min(second.cpuset))
    assert (frozenset([0, 1]), (4, 786432), (2048, 512)) == (  # 4096 MB - 512 * 2 MB = 3072 MB
        first.siblings[0],
        *((pages.size_kb, pages.total) for pages in first.mempages),
    )
    assert [{"vendor_id": "8086", "numa_node": 1, "count": 9}] == report.pci_device_pools


@pytest.mark.parametrize("text", ["{", "[]", '{"vendor_id": "8086"}', '"x"'])
def test_bad_fake_devices_stop_the_agent(text):
    """The error names the option."""
    with pytest.raises(errors.ConfigError) as wrong:
        fake_hardware.pci_devices([text])
    assert "[fake] pci_devices" == wrong.value.option


def test_a_build_carries_its_claim_to_the_ledger_and_to_the_driver():
    """The row has the host's CPUs and the device's address; a restarted agent has them back."""
    world = a_numa_host()
    placed = world.conductor.place(instance(devices=1))
    world.build(placed)
    row = world.conductor.rows[placed.uuid]
    assert {"0": 4, "1": 5} == row.claimed_numa_topology["cells"][0]["cpu_pinning"]
    assert ["0000:00:00.0"] == [device["address"] for device in row.claimed_pci_devices]
    assert "active" == row.vm_state

    again = one_host(world.driver.conf, world.driver)
    again.conductor.rows.update(world.conductor.rows)
    recovery.recover(agents.a_context(), again.host, again.ledger)
    again.reporter.audit()
    assert ([[], [4, 5]], 8) == left(again.tracker)


def test_an_agent_says_what_is_wrong_with_its_devices():
    """An inventory with invalid devices is refused, and the log names the field."""
    resources = {"vcpus": 1, "memory_mb": 1, "local_gb": 1, "numa_topology": None, "pci_passthrough_devices": [{}]}
    with pytest.raises(errors.ReportRefused) as refused:
        inventory.to_report("h", "h", resources, inventory.HostPolicy(), 0, 0)
    assert "pci_passthrough_devices.0.address" == refused.value.field


@pytest.mark.parametrize("moves", [False, True], ids=["an instance", "a move"])
@pytest.mark.parametrize(
    ("malformed", "pinned", "devices"),
    [
        pytest.param({"numa_topology": {"cells": "all"}}, False, True, id="cells"),
        pytest.param({"numa_topology": UNKNOWN_CELLS}, False, True, id="cells that the conductor cannot read"),
        pytest.param({"pci_devices": [{"address": None}]}, True, False, id="devices"),
        pytest.param({"pci_devices": UNKNOWN_DEVICES}, True, False, id="devices that the conductor cannot read"),
    ],
)
def test_what_a_malformed_claim_may_hold_is_given_to_no_other(
    malformed: dict[str, Any], pinned: bool, devices: bool, moves: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be any CPU or device of its kind. Instances without cells and devices find room as before."""
    made, broken = tracker(), agents.an_instance()
    known = Claimed(memory_mb=512, disk_gb=10, vcpus=1)
    if moves:
        made.count(broken.uuid, None, dataclasses.replace(known, **malformed))
    else:
        values = {f"claimed_{name}": value for name, value in malformed.items()}
        made.track(dataclasses.replace(broken, **values))
    (line,) = agents.lines(caplog, logging.ERROR)
    assert broken.uuid in line
    assert f"claimed_{next(iter(malformed))}" in line

    def takes(wanted: Instance) -> bool:
        try:
            made.instance_claim(wanted, HostLimits())
        except errors.ComputeResourcesUnavailable:
            return False
        return True

    assert (pinned, devices, True) == (takes(instance()), takes(instance(None, 1)), takes(agents.an_instance()))
    made.release(broken.uuid)
    assert (True, True) == (takes(instance()), takes(instance(None, 1)))
