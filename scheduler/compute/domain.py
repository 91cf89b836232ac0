# SPDX-License-Identifier: Apache-2.0
"""What virtual machines bring to the engine: their columns, how a node's row fills them, what an instance consumes."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from oslo_log import log as logging

from fleet import capacity, errors
from fleet.hardware import node as node_hardware
from fleet.hardware import pools
from fleet.hardware.node import Hardware, Wanted
from fleet.objects import Claimed, RequestSpec, numa, pci
from scheduler.compute.host_state import Capabilities
from scheduler.engine.consumption import HARDWARE, Consumption
from scheduler.engine.host_table import HostTable

LOG = logging.getLogger(__name__)

#: Names and units are those of nova's HostState; times are epoch seconds, 0 for never.
NUMBERS: dict[str, type] = {
    "total_usable_ram_mb": int,
    "free_ram_mb": int,
    "reserved_ram_mb": int,
    "ram_allocation_ratio": float,
    "total_usable_disk_gb": int,
    "free_disk_mb": int,
    "disk_mb_used": int,
    "reserved_disk_mb": int,
    "disk_allocation_ratio": float,
    "vcpus_total": int,
    "vcpus_used": int,
    "reserved_vcpus": int,
    "cpu_allocation_ratio": float,
    "num_instances": int,
    "num_io_ops": int,
    "failed_builds": int,
    "numa_cells": int,
    "free_pci_devices": int,
    "hypervisor_version": int,
    "updated": float,
    "disabled": bool,
    "forced_down": bool,
    "last_seen_up": float,
    # What follows from the above, and changes with the node's inventory only: see ceilings.
    "ram_limit_mb": float,
    "ram_headroom_mb": float,
    "ram_most_mb": float,
    "disk_limit_gb": float,
    "disk_headroom_mb": float,
    "disk_most_mb": float,
    "vcpu_limit": float,
    "vcpu_most": float,
}
_OFTEN_UNIFORM = ("failed_builds", "free_pci_devices", "hypervisor_version")
#: A ratio of 0 or none means "not set".
DEFAULT_RATIOS = {"cpu": 16.0, "ram": 1.5, "disk": 1.0}
_EPOCH = datetime(1970, 1, 1)
#: Names of rare values: those that picks take from, and the others.
BOOKED = (HARDWARE,)
UNBOOKED = ("stats", "metrics")
_NO_HARDWARE: Mapping[str, float] = {"numa_cells": 0, "free_pci_devices": 0}
#: JSON of nothing.
_NOTHING = ("null", "{}", "[]", '""')
#: Nodes that are alike share one value: filters judge it once. The rest of a large fleet is read anew.
_HARDWARE_KEPT = 4096


def new_table() -> HostTable:
    return HostTable(NUMBERS, shared=("aggregates", "capabilities"), objects=("host_ip",), often_uniform=_OFTEN_UNIFORM)


def wanted(request: RequestSpec) -> Wanted:
    """The cells and devices that each instance of the request asks for."""
    return Wanted(request.numa_topology, request.pci_requests)


def consumption(request: RequestSpec) -> Consumption:
    """What one instance of the request takes of its host. Swap is looked for, but not held."""
    hardware = wanted(request)
    added = {
        "free_ram_mb": -request.memory_mb,
        "free_disk_mb": -capacity.MB_PER_GB * capacity.claimed_disk_gb(request.root_gb, request.ephemeral_gb),
        "vcpus_used": request.vcpus,
        "num_instances": 1,
        "num_io_ops": 1,
    }
    if not hardware:
        return Consumption(added)
    return Consumption({**added, "free_pci_devices": -hardware.device_count}, {HARDWARE: hardware})


def held(claimed: Claimed) -> Mapping[str, float]:
    """What an instance that is there takes of its node's columns, by name. It builds no more, so far as is known."""
    return {
        "free_ram_mb": -claimed.memory_mb,
        "free_disk_mb": -capacity.MB_PER_GB * claimed.disk_gb,
        "vcpus_used": claimed.vcpus,
        "num_instances": 1,
        "free_pci_devices": -len(claimed.pci_devices or ()),
    }


def less_held(known: Hardware, claimed: Claimed) -> Hardware:
    """A node's cells and devices without what an instance that is there holds of them."""
    return node_hardware.without(
        known, numa.InstanceTopology.from_wire(claimed.numa_topology), pci.devices_from_wire(claimed.pci_devices)
    )


def ceilings(known: Mapping[str, float]) -> dict[str, float]:
    """Columns that filters need of each host, by the arithmetic of :mod:`fleet.capacity`, from the other columns.

    ``headroom`` is how far the limit is above the total, so that free and headroom is what is usable; ``most`` is what
    the largest instance can have. They are the same until the node's inventory changes, so they are not found out anew
    for every request.
    """
    ram, disk = known["total_usable_ram_mb"], known["total_usable_disk_gb"] * capacity.MB_PER_GB
    reserved_ram, reserved_disk = known["reserved_ram_mb"], known["reserved_disk_mb"]
    vcpus, reserved_vcpus = known["vcpus_total"], known["reserved_vcpus"]
    ram_limit = capacity.limit(ram, reserved_ram, known["ram_allocation_ratio"])
    disk_limit = capacity.limit(disk, reserved_disk, known["disk_allocation_ratio"])
    return {
        "ram_limit_mb": ram_limit,
        "ram_headroom_mb": ram_limit - ram,
        "ram_most_mb": ram - reserved_ram,
        "disk_limit_gb": disk_limit / capacity.MB_PER_GB,
        "disk_headroom_mb": disk_limit - disk,
        "disk_most_mb": disk - reserved_disk,
        "vcpu_limit": capacity.limit(vcpus, reserved_vcpus, known["cpu_allocation_ratio"]),
        "vcpu_most": vcpus - reserved_vcpus,
    }


def numbers(node: Any, hardware: Hardware | None) -> dict[str, float]:
    """The columns of a compute_nodes row, whose cells and devices are these."""
    known = {
        "total_usable_ram_mb": node.memory_mb,
        "free_ram_mb": node.free_ram_mb,
        "reserved_ram_mb": node.reserved_memory_mb,
        "ram_allocation_ratio": node.ram_allocation_ratio or DEFAULT_RATIOS["ram"],
        "total_usable_disk_gb": node.local_gb,
        "free_disk_mb": _free_disk_gb(node) * capacity.MB_PER_GB,
        "disk_mb_used": node.local_gb_used * capacity.MB_PER_GB,
        "reserved_disk_mb": node.reserved_disk_gb * capacity.MB_PER_GB,
        "disk_allocation_ratio": node.disk_allocation_ratio or DEFAULT_RATIOS["disk"],
        "vcpus_total": node.vcpus,
        "vcpus_used": node.vcpus_used,
        "reserved_vcpus": node.reserved_vcpus,
        "cpu_allocation_ratio": node.cpu_allocation_ratio or DEFAULT_RATIOS["cpu"],
        "num_instances": node.running_vms,
        "num_io_ops": node.io_workload,
        "failed_builds": node.failed_builds,
        "hypervisor_version": node.hypervisor_version or 0,
        "updated": epoch_s(node.updated_at),
    }
    known.update(ceilings(known))
    known.update(hardware_numbers(hardware))
    return known


def hardware_numbers(known: Hardware | None) -> Mapping[str, float]:
    """The columns by which filters pass over hosts that need not be looked at."""
    if known is None:
        return _NO_HARDWARE
    cells = known.topology.cells if known.topology else ()
    return {"numa_cells": len(cells), "free_pci_devices": pools.free_devices(known.pools)}


def hardware(node: Any) -> Hardware | None:
    """Of a node's row, or of a host state; None where there are neither cells nor devices, nor ever were."""
    # A host state of a plugin's test has not all that a row has.
    told = node.numa_topology, node.pci_stats, getattr(node, "pci_device_pools", None)
    if not any(told):
        return None
    texts = _json(told[0]), _json(told[1]), _json(told[2])
    if not any(texts):
        return None
    ratios = (
        node.cpu_allocation_ratio or DEFAULT_RATIOS["cpu"],
        node.ram_allocation_ratio or DEFAULT_RATIOS["ram"],
    )
    return _hardware(*texts, *ratios)


def _json(value: Any) -> str:
    """The JSON text of a value that may be one already; empty if there is nothing in it."""
    if not value:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return "" if text in _NOTHING else text


@functools.lru_cache(_HARDWARE_KEPT)
def _hardware(topology: str, pci_stats: str, stock: str, cpu_ratio: float, ram_ratio: float) -> Hardware | None:
    try:
        known = numa.HostTopology.from_wire(topology), _pools(pci_stats)
        all_pools = _pools(stock)
    except errors.InvalidInput as bad:
        LOG.warning("A host's NUMA topology or PCI pools cannot be read, it counts as having none: %s", bad.message)
        return None
    if not any(known) and not all_pools:
        return None
    # Where all pools are not told, those that are free are all that is known.
    return Hardware(*known, numa.Limits(cpu_ratio, ram_ratio), all_pools or known[1])


@functools.lru_cache(_HARDWARE_KEPT)
def _pools(text: str) -> pools.Pools:
    """:raises errors.InvalidInput:"""
    return pools.ordered(pci.pools_from_wire(text))


def capabilities(node: Any) -> Capabilities:
    """Of a node's row, or of a host state."""
    cpu_info = node.cpu_info if isinstance(node.cpu_info, str) or node.cpu_info is None else json.dumps(node.cpu_info)
    return Capabilities(node.hypervisor_type, cpu_info, _kinds(_json(node.supported_instances)))


@functools.lru_cache(_HARDWARE_KEPT)
def _kinds(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(kind) for kind in json.loads(text)) if text else ()


def unbooked(node: Any) -> dict[str, Any]:
    """The rare values that nobody takes from, of a node's row or of a host state."""
    return {name: _value(getattr(node, name)) for name in UNBOOKED}


def _value(told: Any) -> Any:
    """Of what may be JSON text still."""
    return json.loads(_json(told) or "null") if isinstance(told, str) else told


def epoch_s(time: datetime | None) -> float:
    """Naive UTC, as the database has it, to epoch seconds."""
    return (time - _EPOCH).total_seconds() if time else 0.0


def _free_disk_gb(node: Any) -> int:
    """What the hypervisor says it has left counts if it is less than what the records imply."""
    least = node.disk_available_least
    return node.free_disk_gb if least is None else min(node.free_disk_gb, least)
