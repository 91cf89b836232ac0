# SPDX-License-Identifier: Apache-2.0
"""The obvious placement of cells and devices: all permutations of a host's cells, devices one by one, in plain dicts.

Only what one cell can hold of another is taken from the code that is tested; its rules have tables of their own.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from fleet.hardware.cell_fit import fit_cell
from fleet.objects import RequestSpec
from fleet.objects.numa import HostCell, HostTopology, InstanceCell, InstanceTopology, Limits
from fleet.objects.pci import PciRequest
from tests.factories import Node

Device = dict[str, Any]


def numa_passes(host: Node, request: RequestSpec) -> bool:
    """What NUMATopologyFilter means."""
    cells = _cells(host)
    if _wants_threads(request) and cells and not any(len(core) > 1 for cell in cells for core in cell.siblings):
        return False
    return request.numa_topology is None or _place(host, request) is not None


def pci_passes(host: Node, request: RequestSpec) -> bool:
    """What PciPassthroughFilter means."""
    return _devices_for(_devices(host), request.pci_requests, None) is not None


def free_devices(host: Node) -> int:
    return sum(pool["count"] for pool in host.pci_stats or ())


def consumed(host: Node, request: RequestSpec) -> tuple[Node, int]:
    """The host with one more such instance, and how many devices it was asked for and could not give.

    Where the cells do not fit, it gives the devices alone; where it has not all of these, none.
    """
    asked = sum(each.count for each in request.pci_requests)
    placed = _place(host, request) if request.numa_topology else None
    held, chosen = placed if placed else ([], _devices_for(_devices(host), request.pci_requests, None))
    if chosen is None:
        return host, asked
    left = [device for device in _devices(host) if not any(device["number"] == each["number"] for each in chosen)]
    return dataclasses.replace(host, numa_topology=_topology_less(host, held), pci_stats=_pools(left)), 0


def _place(host: Node, request: RequestSpec) -> tuple[list[InstanceCell], list[Device]] | None:
    """The cells as they would be held, and the devices; None if there is no way."""
    wanted, limits = request.numa_topology, Limits(host.cpu_allocation_ratio, host.ram_allocation_ratio)
    assert wanted is not None
    for places in itertools.permutations(_ordered(host, wanted, request.pci_requests), len(wanted.cells)):
        held = [fit_cell(place, cell, limits) for place, cell in zip(places, wanted.cells, strict=True)]
        chosen = _devices_for(_devices(host), request.pci_requests, [place.id for place in places])
        if all(held) and chosen is not None:
            return [cell for cell in held if cell], chosen
    return None


def _ordered(host: Node, wanted: InstanceTopology, requests: Sequence[PciRequest]) -> list[HostCell]:
    """Sorted thrice, the least important first; as they are if there is no choice."""
    cells = _cells(host)
    if len(cells) > len(wanted.cells):
        near = [device["numa_node"] for device in _devices(host)]
        dedicated = any(cell.pcpuset for cell in wanted.cells)
        cells.sort(key=lambda cell: cell.memory - cell.memory_usage, reverse=True)
        cells.sort(key=lambda cell: -len(cell.cpuset - cell.pinned_cpus) if dedicated else cell.cpu_usage)
        cells.sort(key=lambda cell: near.count(cell.id), reverse=bool(requests))
    return cells


def _devices_for(
    devices: Sequence[Device], requests: Sequence[PciRequest], near: Sequence[int] | None
) -> list[Device] | None:
    """The first devices that will do, request by request; None if one finds too few."""
    chosen: list[Device] = []
    for request in requests:
        free = [device for device in devices if device not in chosen and _is_asked_for(device, request)]
        if near is not None:
            free = _near(free, request.numa_policy, near)
        if len(free) < request.count:
            return None
        chosen += free[: request.count]
    return chosen


def _is_asked_for(device: Device, request: PciRequest) -> bool:
    if device.get("dev_type") == "type-PF" and not any(each.get("dev_type") == "type-PF" for each in request.spec):
        return False
    return any(all(str(device.get(key)) == value for key, value in each.items()) for each in request.spec)


def _near(devices: list[Device], policy: str | None, near: Sequence[int]) -> list[Device]:
    if policy == "preferred":
        here = [device for device in devices if device["numa_node"] in near]
        unknown = [device for device in devices if device["numa_node"] is None]
        return here + unknown + [device for device in devices if device not in here and device not in unknown]
    if policy == "required":
        return [device for device in devices if device["numa_node"] in near]
    return [device for device in devices if device["numa_node"] in near or device["numa_node"] is None]


def _devices(host: Node) -> list[Device]:
    """One by one: those of the plainest pools first."""

    def order(pool: dict[str, Any]) -> tuple[int, list[Any], int]:
        tags = sorted(item for item in pool.items() if item[0] not in ("count", "numa_node"))
        return len(tags), tags, -1 if pool["numa_node"] is None else pool["numa_node"]

    ordered = sorted(host.pci_stats or (), key=order)
    single = [{**pool, "count": 1} for pool in ordered for _device in range(pool["count"])]
    return [{**device, "number": number} for number, device in enumerate(single)]


def _pools(devices: Sequence[Device]) -> list[dict[str, Any]]:
    return [{key: value for key, value in device.items() if key != "number"} for device in devices]


def _cells(host: Node) -> list[HostCell]:
    topology = HostTopology.from_wire(host.numa_topology)
    return list(topology.cells) if topology else []


def _topology_less(host: Node, held: Sequence[InstanceCell]) -> Any:
    cells = _cells(host)
    return HostTopology(tuple(_less(cell, held) for cell in cells)).to_wire() if cells else None


def _less(cell: HostCell, held: Sequence[InstanceCell]) -> HostCell:
    for mine in held:
        if mine.id == cell.id:
            idle = len(mine.cpuset_reserved) if mine.cpu_thread_policy == "isolate" else 0
            pages = [
                dataclasses.replace(each, used=each.used + mine.memory * 1024 // each.size_kb)
                if each.size_kb == mine.pagesize
                else each
                for each in cell.mempages
            ]
            cell = dataclasses.replace(
                cell,
                memory_usage=cell.memory_usage + mine.memory,
                cpu_usage=cell.cpu_usage + len(mine.cpuset) + idle,
                pinned_cpus=cell.pinned_cpus | set((mine.cpu_pinning or {}).values()) | mine.cpuset_reserved,
                mempages=tuple(pages),
            )
    return cell


def _wants_threads(request: RequestSpec) -> bool:
    specs = request.flavor.extra_specs
    return specs.get("hw:cpu_policy") == "dedicated" and specs.get("hw:cpu_thread_policy") == "require"
