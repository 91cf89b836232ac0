# SPDX-License-Identifier: Apache-2.0
"""Services, compute nodes and aggregates of hosts. The queries of :mod:`fleet.db.hosts` read and write them."""

from __future__ import annotations

import datetime
from typing import Protocol

import sqlalchemy as sa

from fleet.db.tables.base import (
    METADATA,
    NAME,
    UUID,
    BigId,
    HeldJSON,
    Timestamp,
    TrackedRow,
    number,
    tracked,
)
from fleet.json_codec import JSONList, JSONObject

services = sa.Table(
    "services",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("host", NAME, nullable=False),
    sa.Column("binary", NAME, nullable=False),
    sa.Column("topic", NAME, nullable=False),
    number("report_count"),
    sa.Column("disabled", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("disabled_reason", NAME),
    sa.Column("forced_down", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("clock_skew_s", sa.Float, nullable=False, default=0.0, server_default="0"),
    sa.Column("last_seen_up", Timestamp, index=True),
    sa.Column("incarnation", sa.String(64)),
    #: Of the state directory: processes with the same identity replace each other, others must not share a host.
    sa.Column("identity", UUID),
    #: Counts the processes that have held the identity; NULL if the process does not count them.
    sa.Column("life", sa.Integer),
    sa.Column("pid", sa.Integer),
    sa.Column("hostname", NAME),
    sa.Column("started_at", Timestamp),
    #: API version and release of the process; NULL if it did not send them.
    sa.Column("rpc_version", sa.String(64)),
    sa.Column("release", sa.String(64)),
    *tracked(),
    sa.UniqueConstraint("host", "binary"),
)


class ServiceRow(TrackedRow, Protocol):
    """A row of services."""

    id: int
    host: str
    binary: str
    topic: str
    report_count: int
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    clock_skew_s: float
    last_seen_up: datetime.datetime | None
    incarnation: str | None
    identity: str | None
    life: int | None
    pid: int | None
    hostname: str | None
    started_at: datetime.datetime | None
    rpc_version: str | None
    release: str | None


compute_nodes = sa.Table(
    "compute_nodes",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("uuid", UUID, nullable=False),
    sa.Column("host", NAME, nullable=False),
    sa.Column("hypervisor_hostname", NAME, nullable=False),
    number("vcpus"),
    number("vcpus_used"),
    number("memory_mb"),
    number("memory_mb_used"),
    number("free_ram_mb"),
    number("local_gb"),
    number("local_gb_used"),
    number("free_disk_gb"),
    sa.Column("disk_available_least", sa.Integer),
    number("reserved_vcpus"),
    number("reserved_memory_mb"),
    number("reserved_disk_gb"),
    number("orphaned_memory_mb"),
    sa.Column("cpu_allocation_ratio", sa.Float, nullable=False),
    sa.Column("ram_allocation_ratio", sa.Float, nullable=False),
    sa.Column("disk_allocation_ratio", sa.Float, nullable=False),
    number("running_vms"),
    number("current_workload"),
    number("io_workload"),
    number("failed_builds"),
    sa.Column("hypervisor_type", NAME),
    number("hypervisor_version"),
    sa.Column("host_ip", sa.String(64)),
    sa.Column("cpu_info", sa.Text),
    sa.Column("supported_instances", sa.JSON),
    sa.Column("numa_topology", sa.JSON),
    #: All device pools of the node, and (pci_stats) the free devices; numa_topology includes its usage.
    sa.Column("pci_device_pools", HeldJSON),
    sa.Column("pci_stats", sa.JSON),
    sa.Column("metrics", sa.JSON),
    sa.Column("stats", sa.JSON),
    #: Labels that the administrator has set; those of the host's configuration are in its stats.
    sa.Column("labels", HeldJSON),
    *tracked(),
    sa.UniqueConstraint("host", "hypervisor_hostname"),
)


class NodeRow(TrackedRow, Protocol):
    """A row of compute_nodes."""

    id: int
    uuid: str
    host: str
    hypervisor_hostname: str
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    free_ram_mb: int
    local_gb: int
    local_gb_used: int
    free_disk_gb: int
    disk_available_least: int | None
    reserved_vcpus: int
    reserved_memory_mb: int
    reserved_disk_gb: int
    orphaned_memory_mb: int
    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    disk_allocation_ratio: float
    running_vms: int
    current_workload: int
    io_workload: int
    failed_builds: int
    hypervisor_type: str | None
    hypervisor_version: int
    host_ip: str | None
    cpu_info: str | None
    supported_instances: JSONList | None
    numa_topology: JSONObject | None
    pci_device_pools: JSONList | None
    pci_stats: JSONList | None
    metrics: JSONList | None
    stats: JSONObject | None
    labels: dict[str, str] | None


aggregates = sa.Table(
    "aggregates",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", UUID, nullable=False),
    sa.Column("name", NAME, nullable=False, unique=True),
    *tracked(),
)


class AggregateRow(TrackedRow, Protocol):
    """A row of aggregates."""

    id: int
    uuid: str
    name: str


aggregate_hosts = sa.Table(
    "aggregate_hosts",
    METADATA,
    sa.Column("aggregate_id", sa.ForeignKey("aggregates.id"), primary_key=True),
    sa.Column("host", NAME, primary_key=True),
)

aggregate_metadata = sa.Table(
    "aggregate_metadata",
    METADATA,
    sa.Column("aggregate_id", sa.ForeignKey("aggregates.id"), primary_key=True),
    sa.Column("key", NAME, primary_key=True),
    sa.Column("value", NAME, nullable=False),
)


class MetadataRow(Protocol):
    """A row of aggregate_metadata."""

    aggregate_id: int
    key: str
    value: str
