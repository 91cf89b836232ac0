# SPDX-License-Identifier: Apache-2.0
"""Tests whether one instance cell fits one host cell.

:mod:`fleet.hardware.topology_fit` tries the cells of a host by it.
"""

from __future__ import annotations

import dataclasses

from fleet.hardware import pages, pinning
from fleet.objects.numa import DEDICATED, HostCell, InstanceCell, Limits


def fit_cell(host: HostCell, cell: InstanceCell, limits: Limits | None, beside: int = 0) -> InstanceCell | None:
    """Return the cell as the host would hold it; None if it does not fit.

    An instance never overcommits against itself. Floating vcpus and their memory are overcommitted up to ``limits``
    (None: without a limit). A cell with pinned vcpus is not overcommitted.

    :param beside: 1 for one more CPU beside the pinned ones, as ``InstanceTopology.emulator_cpus`` returns it
    """
    if not _can_ever_fit(host, cell, beside) or not _has_room(host, cell, limits, beside):
        return None
    pagesize = pages.choose(host, cell) if cell.pagesize is not None else None
    if pagesize is None and (cell.pagesize is not None or not pages.room_without_size(host, cell)):
        return None
    held = dataclasses.replace(cell, id=host.id, pagesize=pagesize)
    return _pinned(host, held, beside) if cell.pcpuset else held


def fits_cell(host: HostCell, cell: InstanceCell, limits: Limits | None, beside: int = 0) -> bool:
    """Return True if :func:`fit_cell` would return a cell."""
    if not _can_ever_fit(host, cell, beside) or not _has_room(host, cell, limits, beside):
        return False
    has_pages = pages.room_without_size(host, cell) if cell.pagesize is None else pages.choose(host, cell) is not None
    return has_pages and (not cell.pcpuset or pinning.can_pin(host, cell, beside))


def _can_ever_fit(host: HostCell, cell: InstanceCell, beside: int) -> bool:
    if cell.memory > host.memory or len(cell.pcpuset) + beside > len(host.dedicated_cpus):
        return False
    together = host.pcpuset is None  # then both kinds of vcpus come from one set
    return len(cell.cpuset if together else cell.shared_vcpus) <= len(host.cpuset)


def _has_room(host: HostCell, cell: InstanceCell, limits: Limits | None, beside: int) -> bool:
    if cell.pcpuset:
        return cell.memory <= host.avail_memory and _has_cpus(host, cell, limits, beside)
    if limits is None:
        return True
    memory_limit = host.memory * limits.ram_allocation_ratio
    return host.memory_usage + cell.memory <= memory_limit and _has_shared_cpus(host, cell, limits)


def _has_cpus(host: HostCell, cell: InstanceCell, limits: Limits | None, beside: int) -> bool:
    if host.pcpuset is None:
        return host.cpu_usage + len(cell.cpuset) + beside <= len(host.cpuset)
    return not cell.shared_vcpus or limits is None or _has_shared_cpus(host, cell, limits)


def _has_shared_cpus(host: HostCell, cell: InstanceCell, limits: Limits) -> bool:
    return host.cpu_usage + len(cell.shared_vcpus) <= len(host.cpuset) * limits.cpu_allocation_ratio


def _pinned(host: HostCell, cell: InstanceCell, beside: int) -> InstanceCell | None:
    found = pinning.pin(host, cell, beside)
    if found is None:
        return None
    topology = found.topology if cell.cpu_policy == DEDICATED else cell.cpu_topology
    return dataclasses.replace(
        cell, cpu_pinning=found.cpus, cpu_topology=cell.cpu_topology or topology, cpuset_reserved=found.idle
    )
