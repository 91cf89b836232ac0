# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices as nova's filters judge them, by our own arithmetic.

Plugins of nova call it by :mod:`scheduler.compat.nova_names`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.hardware import topology_fit
from fleet.objects.numa import InstanceTopology, Limits
from fleet.objects.pci import PciRequest
from scheduler.compute.domain.views import CellsView, PoolsView


class NUMATopologyLimits(dict[str, Any]):
    """Ratios by which a host's cells are overcommitted; as a limit of a claim it is a plain dict."""

    def __init__(self, cpu_allocation_ratio: float, ram_allocation_ratio: float, network_metadata: Any = None) -> None:
        super().__init__(
            cpu_allocation_ratio=float(cpu_allocation_ratio), ram_allocation_ratio=float(ram_allocation_ratio)
        )


def host_topology_and_format_from_host(host: Any) -> tuple[CellsView | None, None]:
    """Return the cells of a host state, as nova up to 20 asks for them."""
    return host.numa_topology, None


def numa_fit_instance_to_host(
    host_topology: CellsView | None,
    instance_topology: InstanceTopology | None,
    limits: NUMATopologyLimits | None = None,
    pci_requests: Sequence[PciRequest] | None = None,
    pci_stats: PoolsView | None = None,
    provider_mapping: Any = None,
) -> InstanceTopology | None:
    """Return the instance's cells on cells of the host, with its devices near; None if they do not fit."""
    if host_topology is None or instance_topology is None:
        return None
    ratios = None if limits is None else Limits(limits["cpu_allocation_ratio"], limits["ram_allocation_ratio"])
    free = () if pci_stats is None else pci_stats.free
    found = topology_fit.fit_topology(host_topology.topology, instance_topology, ratios, free, pci_requests or ())
    return None if found is None else found.topology


class CandidateFilterMixin:
    """Base of filters of placement's allocation candidates. Here each host has one candidate, without mappings."""

    def filter_candidates(self, host_state: Any, filter_func: Any) -> list[dict[str, Any]]:
        """Return the candidates that ``filter_func`` lets pass."""
        candidate: dict[str, Any] = {"mappings": {}}
        return [candidate] if filter_func(candidate) else []
