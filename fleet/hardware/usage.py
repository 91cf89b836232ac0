# SPDX-License-Identifier: Apache-2.0
"""Sums the CPUs and memory that instances hold of a host's cells.

Called by :mod:`fleet.hardware.node`, :mod:`fleet.db.hosts.hardware` and :mod:`compute_agent.node.hardware`. Stored
usage is never reduced by subtraction. It is computed again from the instances that hold something, so exactly what
was taken is given back. :func:`without` is for results that are not stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fleet import errors
from fleet.hardware import pages
from fleet.hardware.pages import KB_PER_MB
from fleet.objects.numa import ISOLATE, HostCell, HostTopology, InstanceCell, InstanceTopology


def add(host: HostTopology, held: InstanceTopology) -> HostTopology:
    """Return the host with one more instance, as it was fitted.

    :raises errors.CPUPinningUnknown: the host has no such CPU
    :raises errors.CPUPinningInvalid: the instance was fitted to another state of the host
    """
    cells = []
    for cell in host.cells:
        for mine in held.cells:
            if mine.id == cell.id:
                cell = dataclasses.replace(_count(cell, mine), pinned_cpus=_pin(cell, mine))
        cells.append(cell)
    return HostTopology(tuple(cells))


def recount(host: HostTopology, instances: Iterable[InstanceTopology]) -> HostTopology:
    """Return the host with exactly ``instances`` on it. Its present usage is ignored.

    A host may have changed under its instances: CPUs that it no longer has are no longer pinned, and a CPU held by
    two instances is pinned once.
    """
    cells = {cell.id: cell for cell in host.emptied().cells}
    for mine in (cell for instance in instances for cell in instance.cells if cell.id in cells):
        cell = cells[mine.id]
        pinned = cell.pinned_cpus | (mine.held_cpus & cell.dedicated_cpus)
        cells[mine.id] = dataclasses.replace(_count(cell, mine), pinned_cpus=pinned)
    return HostTopology(tuple(cells.values()))


def full(host: HostTopology) -> HostTopology:
    """Return the host with nothing free: what one of its instances holds is unknown."""
    return HostTopology(
        tuple(
            dataclasses.replace(
                cell,
                cpu_usage=max(cell.cpu_usage, len(cell.cpuset)),
                memory_usage=max(cell.memory_usage, cell.memory),
                pinned_cpus=cell.dedicated_cpus,
                mempages=tuple(
                    dataclasses.replace(pages, used=max(pages.used, pages.total)) for pages in cell.mempages
                ),
            )
            for cell in host.cells
        )
    )


def without(host: HostTopology, held: InstanceTopology) -> HostTopology:
    """Return the host as if one of its instances were not there."""
    cells = {cell.id: cell for cell in host.cells}
    for mine in (mine for mine in held.cells if mine.id in cells):
        cell = cells[mine.id]
        cells[mine.id] = dataclasses.replace(_count(cell, mine, -1), pinned_cpus=cell.pinned_cpus - mine.held_cpus)
    return HostTopology(tuple(cells.values()))


def _count(cell: HostCell, mine: InstanceCell, sign: int = 1) -> HostCell:
    """Count everything but the pinning."""
    counted = mine.cpuset if cell.pcpuset is None else mine.shared_vcpus
    # An isolated vcpu also uses its core's other threads.
    idle = len(mine.cpuset_reserved) if cell.pcpuset is None and mine.cpu_thread_policy == ISOLATE else 0
    used_kb, size_kb = mine.memory * KB_PER_MB, _size_kb(cell, mine)
    return dataclasses.replace(
        cell,
        memory_usage=max(0, cell.memory_usage + sign * mine.memory),
        cpu_usage=max(0, cell.cpu_usage + sign * (len(counted) + idle)),
        mempages=tuple(
            dataclasses.replace(each, used=max(0, each.used + sign * used_kb // each.size_kb))
            if each.size_kb == size_kb
            else each
            for each in cell.mempages
        ),
    )


def _size_kb(cell: HostCell, mine: InstanceCell) -> int | None:
    """Return the size of the pages that are counted.

    Pinned vcpus without a page size use the smallest pages (see :func:`fleet.hardware.pages.room_without_size`); what
    floating vcpus use of them may be overcommitted.
    """
    if mine.pagesize is not None or not mine.pcpuset:
        return mine.pagesize
    small = pages.smallest(cell)
    return None if small is None else small.size_kb


def _pin(cell: HostCell, mine: InstanceCell) -> frozenset[int]:
    wanted = mine.held_cpus
    if not wanted <= cell.dedicated_cpus:
        raise errors.CPUPinningUnknown(requested=sorted(wanted), available=sorted(cell.dedicated_cpus))
    if wanted & cell.pinned_cpus:
        raise errors.CPUPinningInvalid(requested=sorted(wanted), free=sorted(cell.free_cpus))
    return cell.pinned_cpus | wanted
