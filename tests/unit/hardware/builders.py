# SPDX-License-Identifier: Apache-2.0
"""Builders of cells, pools and requests with defaults for all that a test is not about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.objects import numa
from fleet.objects.pci import PciPool, PciRequest

NO_OVERCOMMIT = numa.Limits(1.0, 1.0)


def host_cell(number: int = 0, cpus: Iterable[int] = range(4), threads: int = 1, **values: Any) -> numa.HostCell:
    """4 CPUs and 4096 MB, empty; with ``threads`` adjacent CPUs are the threads of one core."""
    cpus = sorted(cpus)
    cores = [frozenset(cpus[first : first + threads]) for first in range(0, len(cpus), threads)]
    sets = {"pinned_cpus": frozenset(values.pop("pinned", ()))}
    if "pcpuset" in values:
        sets["pcpuset"] = frozenset(values.pop("pcpuset"))
    siblings = tuple(cores) if threads > 1 else ()
    values.setdefault("memory", 4096)
    return numa.HostCell(id=number, cpuset=frozenset(cpus), **{"siblings": siblings, **sets, **values})


def host(*cells: numa.HostCell) -> numa.HostTopology:
    return numa.HostTopology(cells)


def two_cells(**values: Any) -> numa.HostTopology:
    """CPUs 0-3 and 4-7."""
    return host(host_cell(0, range(4), **values), host_cell(1, range(4, 8), **values))


def cell(number: int = 0, vcpus: Iterable[int] = range(2), memory: int = 1024, **values: Any) -> numa.InstanceCell:
    """2 vcpus that float, and 1024 MB."""
    return numa.InstanceCell(number, frozenset(vcpus), memory, **values)


def pinned(number: int = 0, vcpus: Iterable[int] = range(2), memory: int = 1024, **values: Any) -> numa.InstanceCell:
    """2 vcpus with CPUs of their own, and 1024 MB."""
    vcpus = frozenset(vcpus)
    return cell(number, vcpus, memory, cpu_policy=numa.DEDICATED, **{"pcpuset": vcpus, **values})


def instance(*cells: numa.InstanceCell) -> numa.InstanceTopology:
    return numa.InstanceTopology(cells)


def pool(count: int = 1, numa_node: int | None = None, **tags: str) -> PciPool:
    return PciPool(count, numa_node, frozenset({"vendor_id": "8086", **tags}.items()))


def devices(count: int = 1, policy: Any = None, *spec: Mapping[str, str | None]) -> PciRequest:
    """Any of vendor 8086, or with one of the given sets of properties."""
    return PciRequest(count, tuple(spec) or ({"vendor_id": "8086"},), request_id="r", numa_policy=policy)
