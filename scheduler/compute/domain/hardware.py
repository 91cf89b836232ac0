# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices of compute nodes: a rare value, as few nodes report them.

Called by the modules beside it and those of :mod:`scheduler.compute.filters`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping

from oslo_log import log as logging

from fleet import errors
from fleet.hardware import pools
from fleet.hardware.node import Hardware, Wanted
from fleet.objects import RequestSpec, numa, pci
from fleet.objects.feed_rows import ShownHardware

LOG = logging.getLogger(__name__)
#: Name of the rare value.
HARDWARE = "hardware"
#: A ratio of 0 or NULL means that the host has not set it.
DEFAULT_RATIOS = {"cpu": 16.0, "ram": 1.5, "disk": 1.0}
_NO_NUMBERS: Mapping[str, float] = {"numa_cells": 0, "free_pci_devices": 0}
#: JSON texts of empty values.
_EMPTY = ("null", "{}", "[]", '""')
#: Nodes with equal texts share one value, which filters judge once. The rest of a large fleet is parsed again.
_PARSED = 4096


def wanted(request: RequestSpec) -> Wanted:
    """Return the cells and devices that each instance of the request asks for."""
    return Wanted(request.numa_topology, request.pci_requests)


def hardware(node: ShownHardware) -> Hardware | None:
    """Return the cells and devices of a row, or of a host state; None if it has neither, and never had."""
    # A host state made by hand may lack the last attribute.
    found = node.numa_topology, node.pci_stats, getattr(node, "pci_device_pools", None)
    if not any(found):
        return None
    topology, pci_stats, stock = (json_text(value) for value in found)
    ratios = node.cpu_allocation_ratio or DEFAULT_RATIOS["cpu"], node.ram_allocation_ratio or DEFAULT_RATIOS["ram"]
    return _hardware(topology, pci_stats, stock, *ratios) if topology or pci_stats or stock else None


def hardware_numbers(known: Hardware | None) -> Mapping[str, float]:
    """Return the columns with which filters skip nodes cheaply."""
    if known is None:
        return _NO_NUMBERS
    cells = known.topology.cells if known.topology else ()
    return {"numa_cells": len(cells), "free_pci_devices": pools.free_devices(known.pools)}


def json_text(value: object) -> str:
    """Return the JSON text of a value that may be JSON text already; the empty string for an empty value."""
    if not value:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return "" if text in _EMPTY else text


@functools.lru_cache(_PARSED)
def _hardware(topology: str, pci_stats: str, stock: str, cpu_ratio: float, ram_ratio: float) -> Hardware | None:
    try:
        known = numa.HostTopology.from_wire(topology), _pools(pci_stats)
        all_pools = _pools(stock)
    except errors.InvalidInput as bad:
        LOG.warning("A host's NUMA topology or PCI pools cannot be read; it counts as having none: %s", bad.message)
        return None
    if not any(known) and not all_pools:
        return None
    # A node that does not report all its pools has at least the free ones.
    return Hardware(*known, numa.Limits(cpu_ratio, ram_ratio), all_pools or known[1])


@functools.lru_cache(_PARSED)
def _pools(text: str) -> pools.Pools:
    """:raises errors.InvalidInput:"""
    return pools.ordered(pci.pools_from_wire(text))
