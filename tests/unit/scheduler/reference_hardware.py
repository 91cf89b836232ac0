# SPDX-License-Identifier: Apache-2.0
"""The obvious placement of cells and devices: hosts one after the other, all permutations of cells, plain dicts.

Only what one cell can hold of another is taken from the code that is tested; its rules have tables of their own.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from fleet.hardware.cell_fit import fit_cell
from fleet.objects.numa import HostCell, HostTopology, InstanceCell, InstanceTopology, Limits
from fleet.objects.pci import PciRequest
from tests.factories import Node


def choose(
    nodes: Sequence[Node], wanted: InstanceTopology | None, requests: Sequence[PciRequest], count: int
) -> list[str]:
    """The host of each instance, as far as there are any: the first that passes keeps it."""
    chosen: list[str] = []
    left = [_Host(node) for node in nodes]
    for _number in range(count):
        left = [host for host in left if host.place(wanted, requests) is not None]
        if not left:
            break
        best = left[0]
        best.take(*(best.place(wanted, requests) or ([], [])))
        chosen.append(best.name)
    return chosen


class _Host:
    def __init__(self, node: Node) -> None:
        self.name = node.host
        topology = HostTopology.from_wire(node.numa_topology)
        self.cells = list(topology.cells) if topology else []
        self.devices: list[dict[str, Any]] = [dict(pool) for pool in node.pci_stats or []]
        self.limits = Limits(node.cpu_allocation_ratio, node.ram_allocation_ratio)

    def place(
        self, wanted: InstanceTopology | None, requests: Sequence[PciRequest]
    ) -> tuple[list[InstanceCell], list[dict[str, Any]]] | None:
        """The cells as they would be held, and the devices; None if there is no way."""
        needed = sum(request.count for request in requests)
        if wanted is None:
            return ([], self.devices[:needed]) if len(self.devices) >= needed else None
        for places in itertools.permutations(self._ordered(wanted, needed), len(wanted.cells)):
            held = [fit_cell(place, cell, self.limits) for place, cell in zip(places, wanted.cells, strict=True)]
            near = [device for device in self.devices if device["numa_node"] in (None, *(place.id for place in places))]
            if all(held) and len(near) >= needed:
                return [cell for cell in held if cell], near[:needed]
        return None

    def _ordered(self, wanted: InstanceTopology, needed: int) -> list[HostCell]:
        """Sorted thrice, the least important first; as they are if there is no choice."""
        cells = list(self.cells)
        if len(cells) > len(wanted.cells):
            dedicated = any(cell.pcpuset for cell in wanted.cells)
            near = [device["numa_node"] for device in self.devices]
            cells.sort(key=lambda cell: cell.memory - cell.memory_usage, reverse=True)
            cells.sort(key=lambda cell: -len(cell.cpuset - cell.pinned_cpus) if dedicated else cell.cpu_usage)
            cells.sort(key=lambda cell: near.count(cell.id), reverse=needed > 0)
        return cells

    def take(self, held: Sequence[InstanceCell], devices: Sequence[dict[str, Any]]) -> None:
        self.devices = [device for device in self.devices if not any(device is each for each in devices)]
        self.cells = [_less(cell, held) for cell in self.cells]


def _less(cell: HostCell, held: Sequence[InstanceCell]) -> HostCell:
    for mine in held:
        if mine.id == cell.id:
            cell = dataclasses.replace(
                cell,
                memory_usage=cell.memory_usage + mine.memory,
                cpu_usage=cell.cpu_usage + len(mine.cpuset),
                pinned_cpus=cell.pinned_cpus | set((mine.cpu_pinning or {}).values()),
            )
    return cell
