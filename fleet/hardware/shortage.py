# SPDX-License-Identifier: Apache-2.0
"""The cells and devices that a node lacks for an instance, in numbers.

Of the possible arrangements the nearest is reported: the host's cell that lacks the smallest share. Called by modules
of :mod:`scheduler.compute.filters` and :mod:`scheduler.why`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from fleet.hardware import node, pages, pinning, pools, topology_fit
from fleet.hardware.cell_fit import fits_cell
from fleet.hardware.node import Hardware, Wanted
from fleet.objects.numa import ISOLATE, HostCell, HostTopology, InstanceCell, InstanceTopology, Limits
from fleet.objects.pci import PciRequest


@dataclasses.dataclass(frozen=True)
class Lack:
    """Too little of one resource, in ``unit``.

    :param place: where on the host, as in "in cell 0"
    :param total: what exists, free or not; None if unknown
    """

    resource: str
    free: float
    asked: float
    total: float | None = None
    place: str = ""
    unit: str = ""

    @property
    def part(self) -> float:
        """Return the missing share of the requested amount."""
        return (self.asked - self.free) / max(self.asked, 1)


def of_cells(hardware: Hardware, topology: InstanceTopology, devices: Sequence[PciRequest] = ()) -> list[Lack]:
    """Return what the cells lack, or devices near them; nothing if the topology fits."""
    known, wanted = hardware.topology, len(topology.cells)
    if node.fits(hardware, Wanted(topology, tuple(devices))):
        return []
    if known is None or len(known.cells) < wanted:
        number = len(known.cells) if known else 0
        return [Lack("NUMA cells", number, wanted, number)]
    alone = _each_alone(known, topology, hardware.limits)
    if alone:
        return alone
    placed = topology_fit.most_placed(known, topology, hardware.limits)
    if placed < wanted:
        return [Lack("NUMA cells with room", placed, wanted, len(known.cells))]
    if networks := topology.network_metadata:
        anywhere = dataclasses.replace(topology, network_metadata=None)
        if node.fits(hardware, Wanted(anywhere, tuple(devices))):
            return [Lack(f"NUMA cells with room near {' and '.join(networks.named)}", 0, 1)]
    return of_devices(hardware, devices) or [_near(known, topology, hardware, devices)]


def of_devices(hardware: Hardware, requests: Sequence[PciRequest]) -> list[Lack]:
    """Return the devices that the pools of all cells lack; an empty list if they meet all requests."""
    left, stock, lacks = hardware.pools, hardware.stock, []
    for request in requests:
        found = pools.allocate(left, [request])
        if found is not None:
            left = found.left
            continue
        total = pools.matching_devices(stock, request) if stock else None
        lacks.append(Lack(f"PCI devices of pool {_kind(request)}", pools.matching_devices(left, request),
                          request.count, total))  # fmt: skip
    return lacks


def _each_alone(host: HostTopology, topology: InstanceTopology, limits: Limits | None) -> list[Lack]:
    """Return, for each cell that fits nowhere even on an empty host, what the nearest host cell lacks."""
    found: list[Lack] = []
    for number, cell in enumerate(topology.cells):
        beside = topology.emulator_cpus(number)
        if not any(fits_cell(there, cell, limits, beside) for there in host.cells):
            found += min((_of_cell(there, cell, limits, beside) for there in host.cells), key=_sum)
    return list(dict.fromkeys(found))


def _sum(lacks: Iterable[Lack]) -> float:
    return sum(lack.part for lack in lacks)


def _of_cell(host: HostCell, cell: InstanceCell, limits: Limits | None, beside: int) -> list[Lack]:
    """Apply the rules of :mod:`fleet.hardware.cell_fit`."""
    lacks = [*_cpus(host, cell, limits, beside), *_memory(host, cell, limits), *_pages(host, cell)]
    return [dataclasses.replace(lack, place=f"in cell {host.id}") for lack in lacks if lack.free < lack.asked]


def _cpus(host: HostCell, cell: InstanceCell, limits: Limits | None, beside: int) -> list[Lack]:
    there, floating = len(host.cpuset), len(cell.shared_vcpus)
    stretched = math.inf if limits is None else there * limits.cpu_allocation_ratio - host.cpu_usage
    if not cell.pcpuset:
        return [Lack("vcpus", min(stretched, there), floating, there)]
    own, free, dedicated = len(cell.pcpuset) + beside, len(host.free_cpus), len(host.dedicated_cpus)
    if host.pcpuset is None:  # both kinds come from one set, and what floats is counted in full
        lacks = [Lack("pinned CPUs", min(free, there - host.cpu_usage - floating), own, dedicated)]
    else:
        lacks = [Lack("pinned CPUs", free, own, dedicated), Lack("vcpus", min(stretched, there), floating, there)]
    if free >= own and not pinning.can_pin(host, cell, beside):
        what = "free cores" if cell.cpu_thread_policy == ISOLATE else "CPUs on cores with several threads free"
        lacks.append(Lack(what, min(pinning.most(host, cell), own - 1), own, dedicated))
    return lacks


def _memory(host: HostCell, cell: InstanceCell, limits: Limits | None) -> list[Lack]:
    if cell.pcpuset:
        room: float = host.avail_memory
    else:
        room = math.inf if limits is None else host.memory * limits.ram_allocation_ratio - host.memory_usage
    return [Lack("memory", min(room, host.memory), cell.memory, host.memory, unit="MB")]


def _pages(host: HostCell, cell: InstanceCell) -> list[Lack]:
    if cell.pagesize is None:
        if pages.room_without_size(host, cell):
            return []
        return [Lack("memory in the smallest pages", pages.smallest_mb(host, cell), cell.memory, unit="MB")]
    if pages.choose(host, cell) is not None:
        return []
    return [Lack(f"memory in {pages.said(cell.pagesize)}", pages.most_mb(host, cell), cell.memory, unit="MB")]


def _near(host: HostTopology, topology: InstanceTopology, hardware: Hardware, devices: Sequence[PciRequest]) -> Lack:
    """Cells have room and pools have devices, but not together."""
    named = " and ".join(_kind(request) for request in devices)
    asked = sum(request.count for request in devices)
    wanted = [(cell, topology.emulator_cpus(number)) for number, cell in enumerate(topology.cells)]
    roomy = [
        there for there in host.cells if any(fits_cell(there, cell, hardware.limits, more) for cell, more in wanted)
    ]
    free = 0
    for request in devices:
        near = pools.near(hardware.pools, request, roomy, host.cells)
        free += min(pools.matching_devices(near, request), request.count)
    return Lack(f"PCI devices of pool {named}", min(free, asked - 1), asked, place="near NUMA cells with room")


def _kind(request: PciRequest) -> str:
    """Return the devices' name for operators: vendor:product, or the properties that were asked for."""
    return " or ".join(dict.fromkeys(_named(each) for each in request.spec)) or request.alias_name or "any"


def _named(properties: Mapping[str, str | None]) -> str:
    if "vendor_id" in properties and "product_id" in properties:
        return f"{properties['vendor_id']}:{properties['product_id']}"
    return ",".join(f"no {key}" if value is None else f"{key}={value}" for key, value in sorted(properties.items()))
