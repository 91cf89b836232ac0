# SPDX-License-Identifier: Apache-2.0
"""Chooses the CPUs of a host cell for pinned vcpus. :mod:`fleet.hardware.cell_fit` calls it for each pair of cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fleet.objects.numa import ISOLATE, PREFER, REQUIRE, CpuTopology, HostCell, InstanceCell

Cpus = frozenset[int]


@dataclasses.dataclass(frozen=True)
class Pinning:
    """``cpus`` maps vcpu to CPU; ``idle`` are CPUs that stay unused while this holds."""

    cpus: dict[int, int]
    topology: CpuTopology
    idle: Cpus = frozenset()


def pin(host: HostCell, cell: InstanceCell, beside: int = 0) -> Pinning | None:
    """Return CPUs for ``cell.pcpuset``, core by core; None if the cell's thread policy cannot be met.

    ``isolate`` uses one thread of completely free cores, ``require`` at least two threads of a core. ``prefer``, the
    default, uses as many threads of a core as possible, or else any free CPUs.

    :param beside: 1 to keep one more CPU idle; with ``isolate``, no other thread of its core is used either
    """
    cores = _cores(host)
    found = _vcpus_pinned(host, cell, cores)
    return found if found is None or not beside else _with_one_beside(found, cores, host.free_cpus, cell)


def _vcpus_pinned(host: HostCell, cell: InstanceCell, cores: Sequence[Cpus]) -> Pinning | None:
    if cell.cpu_thread_policy == ISOLATE:
        return _isolated(cores, host.free_cpus, cell)
    free = [sorted(core & host.free_cpus) for core in cores]
    least = 2 if cell.cpu_thread_policy == REQUIRE else 1
    found = _packed(free, cell, least)
    if found is None and cell.cpu_thread_policy in (None, PREFER) and _guest_threads(cell) == 1:
        return _anywhere(host.free_cpus, cell)
    return found


def _with_one_beside(found: Pinning, cores: Sequence[Cpus], free: Cpus, cell: InstanceCell) -> Pinning | None:
    left = free - found.idle.union(found.cpus.values())
    for core in cores:
        if usable := core & left:
            kept = usable if cell.cpu_thread_policy == ISOLATE else {min(usable)}
            return dataclasses.replace(found, idle=found.idle | kept)
    return None


def can_pin(host: HostCell, cell: InstanceCell, beside: int = 0) -> bool:
    """Return True if :func:`pin` would find CPUs. Without a thread policy any free CPUs are enough."""
    if cell.cpu_thread_policy in (None, PREFER) and _guest_threads(cell) == 1:
        return len(host.free_cpus) >= len(cell.pcpuset) + beside
    return pin(host, cell, beside) is not None


def most(host: HostCell, cell: InstanceCell) -> int:
    """Return the number of vcpus that could be pinned with the cell's thread policy."""
    cores = _cores(host)
    if cell.cpu_thread_policy == ISOLATE:
        return sum(core <= host.free_cpus for core in cores)
    least = max(2 if cell.cpu_thread_policy == REQUIRE else 1, _guest_threads(cell))
    free = [len(core & host.free_cpus) for core in cores]
    numbers = range(least, max(free, default=0) + 1)
    return max((threads * sum(each >= threads for each in free) for threads in numbers), default=0)


def _cores(host: HostCell) -> list[Cpus]:
    """Return threads by core, in the host's order. A CPU without known siblings is a core of its own.

    A driver may report a core without threads: it is none.
    """
    known = frozenset().union(*host.siblings)
    return [*filter(None, host.siblings), *(frozenset([cpu]) for cpu in sorted(host.dedicated_cpus - known))]


def _isolated(cores: Sequence[Cpus], free: Cpus, cell: InstanceCell) -> Pinning | None:
    count = len(cell.pcpuset)
    chosen = [core for core in cores if core <= free][:count]
    if len(chosen) < count or _guest_threads(cell) > 1:
        return None
    cpus = dict(zip(sorted(cell.pcpuset), (min(core) for core in chosen), strict=True))
    idle = frozenset().union(*chosen) - frozenset(cpus.values())
    return Pinning(cpus, CpuTopology(cores=count), idle)


def _packed(free: Sequence[list[int]], cell: InstanceCell, least: int) -> Pinning | None:
    """Return the largest number of threads per core, from all down to ``least``, that has room."""
    count = len(cell.pcpuset)
    for threads in range(max(map(len, free), default=0), max(least, _guest_threads(cell)) - 1, -1):
        usable = [core[:threads] for core in free if len(core) >= threads]
        if threads * len(usable) >= count:
            cpus = dict(zip(sorted(cell.pcpuset), (cpu for core in usable for cpu in core), strict=False))
            return Pinning(cpus, _guest_topology(count, threads))
    return None


def _anywhere(free: Cpus, cell: InstanceCell) -> Pinning | None:
    count = len(cell.pcpuset)
    if len(free) < count:
        return None
    return Pinning(dict(zip(sorted(cell.pcpuset), sorted(free), strict=False)), CpuTopology(cores=count))


def _guest_threads(cell: InstanceCell) -> int:
    return cell.cpu_topology.threads if cell.cpu_topology else 1


def _guest_topology(count: int, threads: int) -> CpuTopology:
    """Return the guest's threads. They are shown only if every core of the guest has all of them."""
    if count % threads:
        return CpuTopology(cores=count)
    return CpuTopology(cores=count // threads, threads=threads)
