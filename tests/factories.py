# SPDX-License-Identifier: Apache-2.0
"""Builders of values with defaults for all that a test is not about."""

from __future__ import annotations

import dataclasses
import datetime
import random
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.clock import epoch_s
from fleet.db.feed.feed import ChangedAggregate, Changes
from fleet.objects import Flavor, RequestSpec
from scheduler.compute.domain.virtual_machines import VIRTUAL_MACHINES
from scheduler.compute.filters import BaseHostFilter
from scheduler.compute.weights import BaseHostWeigher
from scheduler.engine.decide import decide
from scheduler.engine.decision import Decision
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.pipeline import Pipeline, prepare
from scheduler.state.host_cache import HostCache
from scheduler.why import refusal

NOW = datetime.datetime(2026, 1, 1, 12, 0, 0)
NOW_S = epoch_s(NOW)


def uuid(number: int) -> str:
    """A uuid that is easy to recognise in a failure."""
    return f"00000000-0000-0000-0000-{number:012d}"


PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDVys2MGbgNvAcft1hWapfgmaYDVWNbsRuT72ObQzXL1 me@laptop"
#: As ssh-keygen -l -E md5 prints it.
FINGERPRINT = "ae:3a:54:44:90:6e:c7:bf:12:86:49:23:e6:34:e4:05"


@dataclasses.dataclass(frozen=True)
class Node:
    """A compute_nodes row: 8 vcpus, 16 GB of memory and 100 GB of disk, empty, nothing overcommitted."""

    host: str = "host1"
    hypervisor_hostname: str = ""
    id: int = 1
    uuid: str = ""
    vcpus: int = 8
    vcpus_used: int = 0
    memory_mb: int = 16384
    memory_mb_used: int = 0
    free_ram_mb: int = 16384
    local_gb: int = 100
    local_gb_used: int = 0
    free_disk_gb: int = 100
    disk_available_least: int | None = None
    reserved_vcpus: int = 0
    reserved_memory_mb: int = 0
    reserved_disk_gb: int = 0
    cpu_allocation_ratio: float = 1.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    running_vms: int = 0
    io_workload: int = 0
    failed_builds: int = 0
    hypervisor_type: str = "QEMU"
    hypervisor_version: int = 6000001
    host_ip: str = "192.0.2.1"
    cpu_info: str = ""
    supported_instances: Sequence[Sequence[str]] = ()
    numa_topology: Any = None
    pci_stats: Any = None
    pci_device_pools: Any = None
    metrics: Any = None
    stats: Any = None
    labels: Any = None
    updated_at: datetime.datetime | None = NOW
    deleted: bool = False


def node(host: str = "host1", node: str = "", **columns: Any) -> Node:
    """One node of the host's name. What is used is subtracted: give ``memory_mb_used``, or ``free_ram_mb`` itself."""
    made = Node(host, node or host, **columns)
    free_ram = columns.get("free_ram_mb", made.memory_mb - made.memory_mb_used)
    free_disk = columns.get("free_disk_gb", made.local_gb - made.local_gb_used)
    return dataclasses.replace(made, free_ram_mb=free_ram, free_disk_gb=free_disk)


@dataclasses.dataclass(frozen=True)
class Service:
    """A services row: enabled, with a heartbeat of this moment."""

    host: str = "host1"
    id: int = 1
    binary: str = "fleet-compute"
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    last_seen_up: datetime.datetime | None = NOW
    deleted: bool = False


@dataclasses.dataclass(frozen=True)
class PlacedInstance:
    """An instances row, as the feed has it."""

    uuid: str = uuid(1)
    host: str | None = "host1"
    node: str | None = None
    vm_state: str = "active"
    task_state: str | None = None
    deleted: bool = False
    instance_type_id: int | None = None
    project_id: str | None = None
    image_properties: Mapping[str, Any] | None = None


def aggregate(hosts: Sequence[str], number: int = 1, deleted: bool = False, **metadata: str) -> ChangedAggregate:
    return ChangedAggregate(number, f"aggregate{number}", list(hosts), metadata, deleted)


def changes(
    nodes: Sequence[Node] = (), generation: int = 1, services: Sequence[Service] | None = None, **rest: Any
) -> Changes:
    """A live service for every node, unless services are given."""
    if services is None:
        services = [Service(host) for host in dict.fromkeys(each.host for each in nodes)]
    return Changes(generation, nodes=nodes, services=services, **rest)


def cache(*nodes: Node, **rest: Any) -> HostCache:
    """A cache that has seen these nodes and :func:`changes`' other arguments."""
    made = HostCache(VIRTUAL_MACHINES)
    made.apply(changes(nodes, **rest))
    return made


def candidates(*nodes: Node, **rest: Any) -> Candidates:
    return cache(*nodes, **rest).candidates(NOW_S)


def flavor(**sizes: Any) -> Flavor:
    """1 vcpu, 1 GB of memory, no disk."""
    return Flavor(**{"vcpus": 1, "memory_mb": 1024, **sizes})


def request(
    sizes: Mapping[str, Any] | None = None,
    instance: Mapping[str, Any] | None = None,
    count: int = 1,
    image: Mapping[str, Any] | None = None,
    **properties: Any,
) -> RequestSpec:
    """``sizes`` of the flavor, ``instance`` properties, image, and filter properties; parsed as from the wire."""
    uuids = [uuid(1000 + number) for number in range(count)]
    wire = {
        "instance_type": flavor(**(sizes or {})).to_wire(),
        "num_instances": count,
        "instance_properties": {"uuid": uuids[0], **(instance or {})},
        "instance_uuids": uuids,
        "image": image,
    }
    return RequestSpec.from_wire(wire, properties)


def repeated(asked: RequestSpec, count: int) -> RequestSpec:
    """The same request for that many instances."""
    uuids = tuple(uuid(1000 + number) for number in range(count))
    return dataclasses.replace(asked, num_instances=count, instance_uuids=uuids)


def pipeline(
    filters: Sequence[BaseHostFilter] = (), weighers: Sequence[BaseHostWeigher] = (), **options: Any
) -> Pipeline:
    return Pipeline(VIRTUAL_MACHINES, filters, weighers, refusal.explain, **options)


def decision(made: Pipeline, hosts: Candidates, asked: RequestSpec, seed: int = 1) -> Decision:
    return decide(made, prepare(made, asked), hosts, random.Random(seed))
