# SPDX-License-Identifier: Apache-2.0
"""The columns of compute nodes, and how a row of the database fills them.

Called by the modules beside it and those of :mod:`scheduler.nova`. Names and units are those of nova's HostState.
Times are epoch seconds, 0 for never.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from fleet import capacity, stored_json
from fleet.clock import epoch_s
from fleet.hardware.node import Hardware
from fleet.json_codec import JSONObject
from fleet.objects import host_labels, host_report
from fleet.objects.feed_rows import ShownCapabilities, ShownNode, ShownReport
from scheduler.compute.domain.hardware import DEFAULT_RATIOS, HARDWARE, hardware, hardware_numbers, json_text
from scheduler.compute.domain.host_state import Capabilities
from scheduler.engine.hosts.domain import HostRow

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
    # Computed from the columns above when the node's inventory changes: see ceilings.
    "ram_limit_mb": float,
    "ram_headroom_mb": float,
    "ram_most_mb": float,
    "disk_limit_gb": float,
    "disk_headroom_mb": float,
    "disk_most_mb": float,
    "vcpu_limit": float,
    "vcpu_most": float,
}
OFTEN_UNIFORM = ("failed_builds", "free_pci_devices", "hypervisor_version")
#: Hosts with equal texts share one parsed value.
_PARSED = 4096
_NOTHING: frozenset[str] = frozenset()
#: Labels of a host: pairs of key and value.
Labels = tuple[tuple[str, str], ...]


def read_row(node: ShownNode) -> HostRow:
    """Return a row of ``compute_nodes`` in the form of the table."""
    parts = hardware(node)
    known = rare(node)
    return HostRow(
        numbers(node, parts),
        {"host_ip": node.host_ip},
        {
            "capabilities": capabilities(node),
            "bridges": bridges(known["stats"]),
            "labels": labels(known["stats"], _parsed(node.labels)),
        },
        known,
        {} if parts is None else {HARDWARE: parts},
    )


def numbers(node: ShownNode, parts: Hardware | None) -> dict[str, float]:
    """Return the numbers of a row of ``compute_nodes`` with these cells and devices."""
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
    known.update(hardware_numbers(parts))
    return known


def ceilings(known: Mapping[str, float]) -> dict[str, float]:
    """Return the columns that follow from the others, by the arithmetic of :mod:`fleet.capacity`.

    The headroom is the limit minus the total, so that free plus headroom is usable. ``most`` is the most that one
    instance can have. Both change with the node's inventory only, so they are not computed for every request.
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


def capabilities(node: ShownCapabilities) -> Capabilities:
    """Return the capabilities of a row, or of a host state."""
    cpu_info = node.cpu_info if isinstance(node.cpu_info, str) or node.cpu_info is None else json.dumps(node.cpu_info)
    return Capabilities(node.hypervisor_type, cpu_info, _kinds(json_text(node.supported_instances)))


@functools.lru_cache(_PARSED)
def _kinds(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the kinds of guests of a report. What is no list of names is left out: only reports of agents are checked."""
    found = stored_json.read(text) if text else ()
    kinds = [kind for kind in found if isinstance(kind, list)] if isinstance(found, list) else []
    return tuple(tuple(map(str, kind)) for kind in kinds)


def rare(node: ShownReport) -> JSONObject:
    """Return the rare values of a row, or of a host state, that nothing placed takes from."""
    stats, metrics = _parsed(node.stats), _parsed(node.metrics)
    known = [each for each in metrics if isinstance(each, Mapping)] if isinstance(metrics, list) else None
    return {"stats": stats if isinstance(stats, Mapping) else None, "metrics": known}


def bridges(stats: object) -> frozenset[str]:
    """Return the bridges that a host reports: empty if it does not say, the empty name alone if it has none."""
    reported = stats.get(host_report.BRIDGES) if stats and isinstance(stats, Mapping) else None
    return _names(reported) if isinstance(reported, str) else _NOTHING


def labels(stats: object, administered: Mapping[str, str] | None) -> Labels:
    """Return the labels of a host as pairs, in the order of their keys."""
    reported = stats.get(host_labels.LABELS) if stats and isinstance(stats, Mapping) else None
    if not reported and not administered:
        return ()
    return tuple(host_labels.effective(reported, administered).items())


@functools.lru_cache(_PARSED)
def _names(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


def _parsed(value: object) -> Any:
    # Most hosts report neither.
    return (stored_json.read(json_text(value) or "null") if isinstance(value, str) else value) if value else None


def _free_disk_gb(node: ShownNode) -> int:
    """Return what the hypervisor reports as left, if that is less than the records imply."""
    least, free = node.disk_available_least, node.free_disk_gb
    return free if least is None else min(free, least)
