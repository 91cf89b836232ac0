# SPDX-License-Identifier: Apache-2.0
"""An agent's report of one node: its inventory. Usage is not part of it: the ledger sums that from instances.

Made by the drivers of :mod:`compute_agent.drivers`; conductors store it.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated

import pydantic

from fleet import errors, json_codec
from fleet.json_codec import JSONObject
from fleet.objects import fields, host_labels, numa, pci
from fleet.objects.guest_load import GuestLoad

#: Begins the reason of a service that was disabled automatically, as in nova.
AUTO = "AUTO: "
#: ``hypervisor_type`` of simulated hosts.
SIMULATED = "fake"
#: Key of ``stats``: the name of the way on which disks of guests get to other hosts that report the same one. Empty:
#: there is none, guests stay on their host. Without the key nothing has to be copied.
DISKS = "disks"
#: Key of ``stats``: the name of the storage that the host shares with others that report the same one. Guests of such a host
#: are evacuated with their disks.
SHARED = "shared_storage"
#: Key of ``stats``: the option ``volume_hosts``, patterns with commas between them. Without the key it is not known.
VOLUME_HOSTS = "volume_hosts"
#: Key of ``stats``: the name of the way in which running guests get to other hosts that report the same one. Empty, or
#: without the key: they stay on their host.
LIVE = "live_migration"
#: Key of ``stats``: the kinds of guests that move on this way although they have more than memory and disks of their own,
#: with commas between them: ``TAKES_VOLUMES``, ``TAKES_CELLS``. Without the key: none.
LIVE_TAKES = "live_migration_takes"
#: Guests with volumes.
TAKES_VOLUMES = "volumes"
#: Guests with NUMA cells, pinned CPUs or huge pages, which the destination claims anew.
TAKES_CELLS = "cells"
#: Key of ``stats``: not empty if guests see the processor of the host (``cpu_info``), so that the destination of a running
#: guest needs its features.
LIVE_CPU = "live_migration_cpu"
#: Key of ``stats``: the name of the place where disks of shelved guests are kept, for other hosts that report the same one.
#: Empty, or without the key: a shelved guest stays on its host.
SHELF = "shelf"
#: Key of ``stats``: when the machine was started, in seconds since 1970. Without the key it is not known.
BOOTED_AT = "booted_at"
#: Key of ``stats``: the bridges into which guests may be plugged, with commas between them. Without the key: any.
BRIDGES = "bridges"

#: Key of ``stats``: the number of builds that failed since the last success.
FAILED_BUILDS = "failed_builds"

_Signed = Annotated[int, pydantic.Strict(), pydantic.Field(ge=-fields.INT32_MAX, le=fields.INT32_MAX)]


@dataclasses.dataclass(frozen=True)
class HostReport:
    """Inventory of ``host``/``node`` (nova: ``hypervisor_hostname``): MB of memory, GB of disk, number of vcpus.

    ``reserved_*`` is the host's own part of the total; ``orphaned_memory_mb`` is held by guests that are not in the
    ledger. ``numa_topology`` and ``pci_device_pools`` are stored as sent (see ``numa``, ``pci``), after a check.
    ``hypervisor_version`` is nova's base-1000 integer; ``disk_available_least`` is in GB, None if unknown.
    """

    host: fields.Name
    node: fields.Name
    vcpus: fields.Natural
    memory_mb: fields.Natural
    local_gb: fields.Natural
    reserved_vcpus: fields.Natural = 0
    reserved_memory_mb: fields.Natural = 0
    reserved_disk_gb: fields.Natural = 0
    orphaned_memory_mb: fields.Natural = 0
    cpu_allocation_ratio: fields.Ratio = 16.0
    ram_allocation_ratio: fields.Ratio = 1.5
    disk_allocation_ratio: fields.Ratio = 1.0
    disk_available_least: _Signed | None = None
    hypervisor_type: fields.Text = ""
    hypervisor_version: fields.Natural = 0
    host_ip: fields.Text = ""
    cpu_info: fields.LongText = ""
    supported_instances: list[list[fields.Text]] = dataclasses.field(default_factory=list)
    numa_topology: JSONObject | None = None
    pci_device_pools: list[JSONObject] = dataclasses.field(default_factory=list)
    metrics: list[JSONObject] = dataclasses.field(default_factory=list)
    stats: JSONObject = dataclasses.field(default_factory=dict)
    #: By uuid. They are stored apart: schedulers do not follow them.
    guest_loads: dict[fields.Uuid, GuestLoad] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_wire(cls, data: object, field: str = "report") -> HostReport:
        report = fields.parse(cls, data, field)
        for part, total in (("vcpus", report.vcpus), ("memory_mb", report.memory_mb)):
            if total == 0:
                raise errors.InvalidInput(field=f"{field}.{part}", reason="must be more than 0")
        for part in ("stats", "metrics", "numa_topology", "pci_device_pools"):
            json_codec.require(getattr(report, part), f"{field}.{part}")
        host_labels.require(report.stats.get(host_labels.LABELS) or {}, f"{field}.stats.{host_labels.LABELS}")
        fields.parse(fields.Natural, report.failed_builds, f"{field}.stats.{FAILED_BUILDS}")
        numa.HostTopology.from_wire(report.numa_topology, f"{field}.numa_topology")
        pci.pools_from_wire(report.pci_device_pools, f"{field}.pci_device_pools")
        return report

    @property
    def failed_builds(self) -> int:
        failed: int = self.stats.get(FAILED_BUILDS) or 0
        return failed

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Inventory:
    """Totals of one node from the ledger, with which an agent compares its first inventory."""

    node: fields.Name
    vcpus: fields.Natural
    memory_mb: fields.Natural
    local_gb: fields.Natural

    @classmethod
    def from_wire(cls, data: object, field: str = "inventory") -> Inventory:
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)
