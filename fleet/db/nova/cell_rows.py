# SPDX-License-Identifier: Apache-2.0
"""The rows of a cell, as :mod:`fleet.db.nova.cell_queries` returns them.

SQLAlchemy makes the rows; the classes have no code. ``deleted`` is 0, or the id of a deleted row.
"""

from __future__ import annotations

import datetime
from typing import Protocol


class CellRow(Protocol):
    """The columns that all rows of a cell have."""

    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None
    deleted: int


class CellService(CellRow, Protocol):
    """A row of services."""

    id: int
    host: str
    binary: str
    disabled: bool | None
    disabled_reason: str | None
    forced_down: bool | None
    last_seen_up: datetime.datetime | None


class CellNode(CellRow, Protocol):
    """A row of compute_nodes."""

    id: int
    uuid: str
    host: str
    hypervisor_hostname: str
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    local_gb: int
    local_gb_used: int
    running_vms: int | None
    cpu_allocation_ratio: float | None
    ram_allocation_ratio: float | None
    disk_allocation_ratio: float | None
    hypervisor_type: str | None
    hypervisor_version: int | None
    #: PostgreSQL has a type of its own for addresses.
    host_ip: object
    cpu_info: str | None
    supported_instances: str | None
    stats: str | None
    metrics: str | None
    numa_topology: str | None
    pci_stats: str | None


class CellInstance(CellRow, Protocol):
    """A row of instances."""

    uuid: str
    host: str | None
    node: str | None
    vm_state: str | None
    task_state: str | None
    instance_type_id: int | None
    project_id: str | None
