# SPDX-License-Identifier: Apache-2.0
"""The host must have NUMA cells for the instance's cells. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy

from fleet.hardware import node, shortage
from fleet.hardware.node import Hardware
from fleet.hardware.shortage import Lack
from fleet.objects import RequestSpec, request_parts
from fleet.objects.numa import InstanceTopology
from fleet.objects.pci import PciRequest
from fleet.reasons import Reason
from scheduler.compute.domain.hardware import HARDWARE
from scheduler.compute.domain.hardware import wanted as wanted_hardware
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates
from scheduler.why.hardware_shortfall import HardwareShortfall


class NUMATopologyFilter(ColumnFilter):
    """Hosts pass whose cells have room for the instance's cells, with the PCI devices that must be near.

    A host with cells, but no core of several threads, is also dropped when threads of a core are required, whatever else
    is asked for.
    """

    judges = (request_parts.NUMA,)
    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        threads = _wants_threads(request)
        wanted = wanted_hardware(request)
        if wanted.topology is None:
            if not threads:
                return None
            return hosts.narrowed(hosts.column("numa_cells") > 0, HARDWARE, _has_threads) | (
                hosts.column("numa_cells") == 0
            )
        # Columns are cheap to compare: they leave out hosts that cannot fit before cells are compared.
        may = hosts.present() & (hosts.column("numa_cells") >= len(wanted.topology.cells))
        may &= hosts.column("free_pci_devices") >= wanted.device_count
        return hosts.narrowed(
            may,
            HARDWARE,
            lambda hardware: (not threads or _has_threads(hardware)) and node.fits(hardware, wanted),
        )

    def limits(self, hosts: Candidates, request: RequestSpec) -> dict[str, numpy.ndarray]:
        if request.numa_topology is None:
            return {}
        ratios = zip(hosts.column("cpu_allocation_ratio"), hosts.column("ram_allocation_ratio"), strict=True)
        networks = request.numa_topology.network_metadata
        more = {"network_metadata": networks.to_wire()} if networks else {}
        limits = [
            {"cpu_allocation_ratio": float(cpu), "ram_allocation_ratio": float(ram), **more} for cpu, ram in ratios
        ]
        return {"numa_topology": numpy.array(limits, dtype=object)}

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> HardwareShortfall | None:
        threads = _wants_threads(request)
        if request.numa_topology is None and not threads:
            return None
        known = [hosts.rare(row, HARDWARE) for row in hosts.rows.tolist()]
        asked, limit, free = _cpus(known, request.numa_topology)
        lacking = functools.partial(_lacking, request.numa_topology, request.pci_requests, threads)
        return HardwareShortfall(
            "NUMA cells",
            "CPUs",
            asked,
            limit,
            limit - free,
            limit,
            None,
            known,
            wanted_hardware(request),
            lacking,
            True,
        )


def _wants_threads(request: RequestSpec) -> bool:
    return node.wants_thread_siblings(request.flavor.extra_specs, request.image.properties)


def _has_threads(hardware: Hardware) -> bool:
    return hardware.topology is None or any(cell.has_threads for cell in hardware.topology.cells)


def _lacking(
    topology: InstanceTopology | None, devices: Sequence[PciRequest], threads: bool, hardware: Hardware
) -> list[Lack]:
    if threads and not _has_threads(hardware):
        return [Lack("cores with several threads", 0, 1, 0)]
    return [] if topology is None else shortage.of_cells(hardware, topology, devices)


def _cpus(
    known: Sequence[Hardware | None], topology: InstanceTopology | None
) -> tuple[int, numpy.ndarray, numpy.ndarray]:
    """Return the number of CPUs requested, and per host the number of such CPUs, and of free ones, in all cells."""
    wanted = topology.cells if topology else ()
    pinned = any(cell.pcpuset for cell in wanted)
    limits: list[float] = []
    free: list[float] = []
    for hardware in known:
        cells = hardware.topology.cells if hardware and hardware.topology else ()
        if pinned:
            limits.append(sum(len(cell.dedicated_cpus) for cell in cells))
            free.append(sum(len(cell.free_cpus) for cell in cells))
        else:
            ratio = hardware.limits.cpu_allocation_ratio if hardware and hardware.limits else 1.0
            limits.append(sum(len(cell.cpuset) for cell in cells) * ratio)
            free.append(limits[-1] - sum(cell.cpu_usage for cell in cells))
    asked = sum(len(cell.cpuset) for cell in wanted) + (topology.emulator_cpus(0) if topology else 0)
    return asked, numpy.array(limits, dtype=float), numpy.array(free, dtype=float)
