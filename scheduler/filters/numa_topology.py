# SPDX-License-Identifier: Apache-2.0
"""Cells of the host for the cells that the instance asks for (spec/filters §8)."""

from __future__ import annotations

from collections.abc import Hashable

import numpy

from fleet.hardware import node
from fleet.hardware.node import Hardware
from fleet.objects import RequestSpec
from fleet.reasons import Reason
from scheduler import domain
from scheduler.candidates import Candidates
from scheduler.consumption import HARDWARE
from scheduler.filters.base import ColumnFilter


class NUMATopologyFilter(ColumnFilter):
    """Hosts pass whose cells have room for the instance's cells, with the PCI devices that must be near.

    A host with cells, but no core of several threads, is also dropped when threads of a core are required, whatever else
    is asked for.
    """

    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        threads = _wants_threads(request)
        wanted = domain.wanted(request)
        if wanted.topology is None:
            if not threads:
                return None
            return hosts.narrowed(hosts.column("numa_cells") > 0, HARDWARE, _has_threads) | (
                hosts.column("numa_cells") == 0
            )
        # The columns say cheaply who need not be asked.
        may = hosts.present() & (hosts.column("numa_cells") >= len(wanted.topology.cells))
        may &= hosts.column("free_pci_devices") >= wanted.device_count
        return hosts.narrowed(
            may,
            HARDWARE,
            lambda hardware: (not threads or _has_threads(hardware)) and node.fits(hardware, wanted),
        )

    def recall_key(self, request: RequestSpec) -> Hashable | None:
        return domain.wanted(request).key(_wants_threads(request)) if request.numa_topology else None

    def limits(self, hosts: Candidates, request: RequestSpec) -> dict[str, numpy.ndarray]:
        if request.numa_topology is None:
            return {}
        ratios = zip(hosts.column("cpu_allocation_ratio"), hosts.column("ram_allocation_ratio"), strict=True)
        limits = [{"cpu_allocation_ratio": float(cpu), "ram_allocation_ratio": float(ram)} for cpu, ram in ratios]
        return {"numa_topology": numpy.array(limits, dtype=object)}

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        hardware = hosts.rare(int(hosts.rows[0]), HARDWARE)
        if hardware is None or hardware.topology is None:
            return "reports no NUMA topology"
        if _wants_threads(request) and not _has_threads(hardware):
            return "has no core with several threads"
        if request.numa_topology is not None and _fits_empty(hardware, request):
            devices = " with PCI devices near" if request.pci_requests else ""
            return f"has no room left in its NUMA cells for those that are asked for{devices}"
        return "has NUMA cells that could not take those that are asked for even if they were empty"


def _wants_threads(request: RequestSpec) -> bool:
    return node.wants_thread_siblings(request.flavor.extra_specs, request.image.properties)


def _has_threads(hardware: Hardware) -> bool:
    return hardware.topology is None or any(cell.has_threads for cell in hardware.topology.cells)


def _fits_empty(hardware: Hardware, request: RequestSpec) -> bool:
    """Whether the cells would do with nothing on them; devices aside."""
    assert hardware.topology is not None
    empty = Hardware(hardware.topology.emptied(), limits=hardware.limits)
    return node.fit(empty, node.Wanted(request.numa_topology)) is not None
