# SPDX-License-Identifier: Apache-2.0
"""Turns rows of nova's databases into rows that the cache reads.

The feeds of nova's databases call it for each row.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json

from fleet import errors, stored_json
from fleet.db.nova.api_queries import Cell
from fleet.db.nova.cell_rows import CellInstance, CellNode, CellService
from fleet.json_codec import JSONObject
from fleet.objects import fields, structure
from scheduler.nova.providers import Provider

#: In place of a provider: placement's database is not read, so the columns of the node are what is known.
UNREAD = Provider("", {})
#: What a column without a ratio means (nova: initial_*_allocation_ratio).
_RATIOS = {"cpu": 4.0, "ram": 1.0, "disk": 1.0}
_PARSED = 4096


@dataclasses.dataclass(frozen=True)
class Reserved:
    """Amounts that the hosts keep for themselves, by nova's options. nova counts it as used, and stores it nowhere."""

    memory_mb: int = 512
    disk_mb: int = 0
    vcpus: int = 0

    @property
    def disk_gb(self) -> int:
        return -(-self.disk_mb // 1024)


@dataclasses.dataclass(frozen=True, slots=True)
class NodeRow:
    """A compute node in the form of a row of this project's own database, with its cell."""

    id: int
    uuid: str
    host: str
    hypervisor_hostname: str
    cell_uuid: str
    cell_disabled: bool
    vcpus: int
    vcpus_used: int
    memory_mb: int
    free_ram_mb: int
    local_gb: int
    local_gb_used: int
    free_disk_gb: int
    reserved_vcpus: int
    reserved_memory_mb: int
    reserved_disk_gb: int
    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    disk_allocation_ratio: float
    running_vms: int
    io_workload: int
    failed_builds: int
    hypervisor_type: str
    hypervisor_version: int
    host_ip: str | None
    cpu_info: str
    supported_instances: str
    numa_topology: str
    pci_stats: str
    stats: str
    metrics: str
    updated_at: datetime.datetime | None
    deleted: bool
    pci_device_pools: None = None
    labels: None = None
    #: nova's placement ignores what the hypervisor reports as left, and so does this scheduler for it.
    disk_available_least: None = None
    #: What placement has of the node. :data:`UNREAD` without placement's database, None if placement does not have it.
    provider: Provider | None = UNREAD


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceRow:
    """A compute service."""

    host: str
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    last_seen_up: datetime.datetime | None = None
    deleted: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceRow:
    uuid: str
    host: str | None
    node: str | None
    vm_state: str | None
    task_state: str | None
    instance_type_id: int | None
    project_id: str | None
    deleted: bool


def node(row: CellNode, cell: Cell, reserved: Reserved) -> NodeRow:
    stats = _stats(row.stats or "")
    return NodeRow(
        id=row.id,
        uuid=row.uuid,
        host=row.host,
        hypervisor_hostname=row.hypervisor_hostname,
        cell_uuid=cell.uuid,
        cell_disabled=cell.disabled,
        vcpus=row.vcpus,
        vcpus_used=row.vcpus_used,
        memory_mb=row.memory_mb,
        free_ram_mb=row.memory_mb - row.memory_mb_used,
        local_gb=row.local_gb,
        local_gb_used=row.local_gb_used,
        free_disk_gb=row.local_gb - row.local_gb_used,
        reserved_vcpus=reserved.vcpus,
        reserved_memory_mb=min(reserved.memory_mb, row.memory_mb),
        reserved_disk_gb=min(reserved.disk_gb, row.local_gb),
        cpu_allocation_ratio=row.cpu_allocation_ratio or _RATIOS["cpu"],
        ram_allocation_ratio=row.ram_allocation_ratio or _RATIOS["ram"],
        disk_allocation_ratio=row.disk_allocation_ratio or _RATIOS["disk"],
        running_vms=_number(stats.get("num_instances", row.running_vms)),
        io_workload=_number(stats.get("io_workload")),
        failed_builds=_number(stats.get("failed_builds")),
        hypervisor_type=row.hypervisor_type or "",
        hypervisor_version=row.hypervisor_version or 0,
        host_ip=None if row.host_ip is None else str(row.host_ip),
        cpu_info=row.cpu_info or "",
        supported_instances=row.supported_instances or "",
        numa_topology=row.numa_topology or "",
        pci_stats=_pools(row.pci_stats or ""),
        stats=row.stats or "",
        metrics=row.metrics or "",
        updated_at=row.updated_at or row.created_at,
        deleted=bool(row.deleted),
    )


def offered(row: NodeRow, provider: Provider | None) -> NodeRow:
    """Return the node with placement's figures in place of its own. They are what a claim is judged by."""
    if provider is None:
        return dataclasses.replace(row, provider=None)
    cpu, ram, disk = (provider.inventory(name) for name in ("VCPU", "MEMORY_MB", "DISK_GB"))
    return dataclasses.replace(
        row,
        provider=provider,
        vcpus=cpu.total,
        vcpus_used=cpu.reserved + cpu.used,
        memory_mb=ram.total,
        free_ram_mb=ram.total - ram.reserved - ram.used,
        local_gb=disk.total,
        local_gb_used=disk.reserved + disk.used,
        free_disk_gb=disk.total - disk.reserved - disk.used,
        reserved_vcpus=cpu.reserved,
        reserved_memory_mb=ram.reserved,
        reserved_disk_gb=disk.reserved,
        cpu_allocation_ratio=cpu.ratio,
        ram_allocation_ratio=ram.ratio,
        disk_allocation_ratio=disk.ratio,
    )


def service(row: CellService) -> ServiceRow:
    seen = row.last_seen_up or row.updated_at or row.created_at
    return ServiceRow(row.host, bool(row.disabled), row.disabled_reason, bool(row.forced_down), seen, bool(row.deleted))


def instance(row: CellInstance) -> InstanceRow:
    return InstanceRow(
        row.uuid,
        row.host,
        row.node,
        row.vm_state,
        row.task_state,
        row.instance_type_id,
        row.project_id,
        bool(row.deleted),
    )


def _stats(text: str) -> JSONObject:
    found = stored_json.read(text) if text else {}
    return found if isinstance(found, dict) else {}


def _number(value: object) -> int:
    """Return a number of the statistics, which a compute service writes as any text; 0 if it is none, or too large."""
    try:
        found = int(str(value or 0))
    except ValueError:
        return 0
    return found if abs(found) <= fields.INT32_MAX else 0


@functools.lru_cache(_PARSED)
def _pools(text: str) -> str:
    """Return the JSON list of the pools of PCI devices, without the object around it; empty if there are none."""
    try:
        found = structure.plain(text, "pci_stats") if text else None
    except errors.InvalidInput:
        return text  # the reader of hardware reports it
    if isinstance(found, dict):
        found = found.get("objects")
    return json.dumps(found) if found else ""
