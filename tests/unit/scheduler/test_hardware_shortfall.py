# SPDX-License-Identifier: Apache-2.0
"""Why cells and devices were refused, in numbers; whether an empty host would do; how many more would fit."""

from __future__ import annotations

from unittest import mock

import pytest

from fleet.hardware import shortage
from fleet.reasons import Reason
from scheduler.compute import filters
from scheduler.compute.drivers import capacity_count
from scheduler.engine.pipeline import prepare
from tests import factories
from tests.factories import node, request
from tests.unit.hardware import builders

NUMA, PCI = filters.NUMATopologyFilter(), filters.PciPassthroughFilter()
GPU = {"vendor_id": "10de", "product_id": "1eb8"}


def pools(*made):
    return [each.to_wire() for each in made]


def gpus(free, total):
    return {"pci_stats": pools(builders.pool(free, **GPU)), "pci_device_pools": pools(builders.pool(total, **GPU))}


def cells(*made):
    return {"numa_topology": builders.host(*made).to_wire()}


def asking(numa=None, devices=0, count=1, **specs):
    instance = {
        "numa_topology": numa and builders.instance(*numa).to_wire(),
        "pci_requests": [builders.devices(devices, None, GPU).to_wire()] if devices else None,
    }
    return request({"extra_specs": {f"hw:{name}": value for name, value in specs.items()}}, instance, count)


OWN = builders.pinned()
EIGHT = builders.pinned(vcpus=range(8))
BUSY = builders.host_cell(cpus=range(8), pinned=[0, 1], cpu_usage=2)
THREADS = {"cpu_policy": "dedicated", "cpu_thread_policy": "require"}

REFUSED = [
    (
        "busy CPUs",
        cells(BUSY),
        asking([EIGHT]),
        Reason.CAPACITY,
        ["h lacks 2 pinned CPUs in cell 0: free 6 of 8, asked 8"],
    ),
    (
        "a cell too small",
        cells(builders.host_cell()),
        asking([EIGHT]),
        Reason.NEVER_FITS,
        ["h lacks 4 pinned CPUs in cell 0: free 4 of 4, asked 8; even when it is empty"],
    ),
    (
        "small and busy: what it would lack when empty",
        cells(builders.host_cell(pinned=[0], cpu_usage=1)),
        asking([EIGHT]),
        Reason.NEVER_FITS,
        ["h lacks 4 pinned CPUs in cell 0: free 4 of 4, asked 8; even when it is empty"],
    ),
    (
        "no cells reported",
        {},
        asking([OWN]),
        Reason.NEVER_FITS,
        ["h lacks 1 NUMA cell: free 0 of 0, asked 1; even when it is empty"],
    ),
    (
        "no threads",
        cells(builders.host_cell()),
        asking([OWN], **THREADS),
        Reason.NEVER_FITS,
        ["h lacks 1 core with several threads: free 0 of 0, asked 1; even when it is empty"],
    ),
    (
        "devices in use",
        gpus(0, 4),
        asking(devices=1),
        Reason.CAPACITY,
        ["h lacks 1 PCI device of pool 10de:1eb8: free 0 of 4, asked 1"],
    ),
    (
        "fewer devices than asked for",
        gpus(1, 1),
        asking(devices=2),
        Reason.NEVER_FITS,
        ["h lacks 1 PCI device of pool 10de:1eb8: free 1 of 1, asked 2; even when it is empty"],
    ),
    (
        "a device that both filters miss is told once",
        {**cells(builders.host_cell()), **gpus(0, 1)},
        asking([OWN], devices=1),
        Reason.CAPACITY,
        ["h lacks 1 PCI device of pool 10de:1eb8: free 0 of 1, asked 1"],
    ),
]


@pytest.mark.parametrize(("name", "host", "asked", "code", "texts"), REFUSED)
def test_a_no_has_numbers(name, host, asked, code, texts):
    """What is lacking where, and whether it would be lacking on the empty host."""
    hosts = factories.candidates(node("h", **host))
    made = factories.decision(factories.pipeline([NUMA, PCI]), hosts, asked)
    assert (code, texts) == (made.refusal.code, [miss.text for miss in made.refusal.nearest]), name


def test_the_numbers_are_on_the_wire():
    """Programs need not read the sentence."""
    hosts = factories.candidates(node("h", **cells(BUSY)))
    made = factories.decision(factories.pipeline([NUMA]), hosts, asking([EIGHT]))
    (shortfall,) = made.refusal.to_wire()["nearest"][0]["shortfalls"]
    expected = {"resource": "pinned CPUs", "place": "in cell 0", "limit": 8.0, "used": 2.0, "asked": 8.0, "lacks": 2.0}
    assert expected == {name: shortfall[name] for name in expected}


def test_each_host_is_fitted_once_for_a_refusal():
    """Once as it is and once as if it were empty, and the nearest hosts again for their texts: others wait meanwhile."""
    hosts = [
        node(f"h{number}", **cells(builders.host_cell(cpus=range(8), pinned=[0, 1], memory_usage=number)))
        for number in range(20)
    ]
    with mock.patch.object(shortage, "of_cells", wraps=shortage.of_cells) as fitted:
        made = factories.decision(factories.pipeline([NUMA]), factories.candidates(*hosts), asking([EIGHT]))
    assert Reason.CAPACITY is made.refusal.code
    assert fitted.call_count <= 2 * (len(hosts) + len(made.refusal.nearest))


def test_the_nearest_comes_first():
    """Hosts are compared by the part that is missing, over all that is measured."""
    busy = [builders.host_cell(cpus=range(8), pinned=range(number), cpu_usage=number) for number in (7, 1, 4)]
    nodes = [node(f"h{number}", **cells(cell)) for number, cell in enumerate(busy)]
    made = factories.decision(factories.pipeline([NUMA]), factories.candidates(*nodes), asking([EIGHT]))
    assert ["h1", "h2", "h0"] == [miss.host for miss in made.refusal.nearest]


TWO_CELLS = {"numa_topology": builders.two_cells().to_wire()}
MEASURED = [
    ("pinned pairs in two cells of four", TWO_CELLS, asking([OWN]), (NUMA,), 4, "NUMA cells"),
    ("cells of three strand a CPU each", TWO_CELLS, asking([builders.pinned(vcpus=range(3))]), (NUMA,), 2, "NUMA cells"),
    ("over both cells", TWO_CELLS, asking([OWN, builders.pinned(1)]), (NUMA,), 2, "NUMA cells"),
    ("devices", gpus(3, 4), asking(devices=2), (PCI,), 1, "PCI devices"),
    ("cells for four, devices for three", {**TWO_CELLS, **gpus(3, 3)}, asking([OWN], 1), (NUMA, PCI), 3, "PCI devices"),
    ("RAM for three", {**TWO_CELLS, "memory_mb": 3500}, asking([OWN]), (filters.RamFilter(), NUMA), 3, "RAM"),
    ("threads that are not there", TWO_CELLS, asking(**THREADS), (NUMA,), 0, "NUMA cells"),
    ("none of it", {}, asking([OWN]), (NUMA,), 0, "NUMA cells"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "host", "asked", "chosen", "fits", "binds"), MEASURED)
def test_how_many_more(name, host, asked, chosen, fits, binds):
    """The number equals that of requests placed one after the other."""
    hosts = factories.candidates(node("h", **host))
    answer = capacity_count.survey(prepare(factories.pipeline(chosen), asked), hosts).answer()
    assert (fits, binds, []) == (answer["fits"], answer["binds_first"], answer["remarks"]), name
    made = factories.decision(factories.pipeline(chosen), hosts, factories.repeated(asked, 20))
    assert fits == len(made.picks), name


def test_what_cells_strand():
    """CPUs that no further instance of this shape can have."""
    hosts = factories.candidates(node("h", **TWO_CELLS), node("full", **cells(BUSY)))
    answer = capacity_count.survey(
        prepare(factories.pipeline([NUMA]), asking([builders.pinned(vcpus=range(3))])), hosts
    ).answer()
    stranded = answer["stranded"]["NUMA cells"]
    # h: two cells of four, three taken of each; full: six of eight are free, which is two more.
    assert (4, 14.0, 2.0) == (answer["fits"], stranded["usable"], stranded["stranded"])


def test_a_host_without_room_in_its_cells_is_not_the_largest():
    """However much memory it has."""
    full = cells(builders.host_cell(pinned=range(4), cpu_usage=4))
    hosts = factories.candidates(node("large", memory_mb=65536, **full), node("small", **TWO_CELLS))
    answer = capacity_count.survey(
        prepare(factories.pipeline([filters.RamFilter(), NUMA]), asking([OWN])), hosts
    ).answer()
    assert "small" == answer["largest"]["host"]
