# SPDX-License-Identifier: Apache-2.0
"""Parses a driver's inventory of a node once, and makes the report from it.

:mod:`compute_agent.node.host` reads it at start and at each report.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from compute_agent.node.claims import Resources
from fleet import capacity, errors
from fleet.hardware import pools
from fleet.json_codec import JSONObject
from fleet.objects import HostReport, host_labels, host_report, pci

DEFAULT_RATIOS = {"cpu": 16.0, "ram": 1.5, "disk": 1.0}
REQUIRED = ("vcpus", "memory_mb", "local_gb", "numa_topology")


@dataclasses.dataclass(frozen=True)
class HostPolicy:
    """The operator's settings for every node of a host: reserved resources and allocation ratios."""

    reserved: Resources = dataclasses.field(default_factory=Resources)
    cpu_allocation_ratio: float = DEFAULT_RATIOS["cpu"]
    ram_allocation_ratio: float = DEFAULT_RATIOS["ram"]
    disk_allocation_ratio: float = DEFAULT_RATIOS["disk"]
    host_ip: str = ""
    packs_numa_cells: bool = False
    #: Seconds after which a node's failed builds are forgotten.
    forgive_after_s: float = 600.0
    #: Seconds that a driver may take to destroy a guest; None: no limit.
    driver_timeout_s: float | None = None
    #: Machines of storage backends whose files and devices are here under the same paths; shell patterns.
    volume_hosts: tuple[str, ...] = ()
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: When the machine was started, in seconds since 1970; None if it is not known.
    booted_at: int | None = None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> HostPolicy:
        reserved = Resources(
            memory_mb=conf.reserved_host_memory_mb,
            disk_gb=math.ceil(conf.reserved_host_disk_mb / capacity.MB_PER_GB),
            vcpus=conf.reserved_host_cpus,
        )
        ratios: JSONObject = {
            f"{kind}_allocation_ratio": conf[f"{kind}_allocation_ratio"] or default
            for kind, default in DEFAULT_RATIOS.items()
        }
        labels = host_labels.require(conf.host_labels, "host_labels")
        packing = conf.compute.packing_host_numa_cells_allocation_strategy
        return cls(
            reserved=reserved,
            host_ip=conf.my_ip,
            packs_numa_cells=packing,
            forgive_after_s=conf.failed_builds_expiry,
            driver_timeout_s=conf.driver_timeout,
            volume_hosts=tuple(conf.volume_hosts),
            labels=labels,
            **ratios,
        )


def pci_devices(resources: Mapping[str, object]) -> tuple[pci.PciDevice, ...]:
    """Return all devices that instances may have. :raises errors.InvalidInput: naming the field"""
    return pci.devices_from_wire(resources.get("pci_passthrough_devices"), "inventory.pci_passthrough_devices")


def to_report(
    host: str,
    node: str,
    resources: Mapping[str, object],
    policy: HostPolicy,
    orphaned_memory_mb: int,
    failed_builds: int,
) -> HostReport:
    """Return the report of one node.

    :raises errors.ReportRefused: the driver's numbers are missing, negative or not numbers; none of them is used
    """
    missing = [key for key in REQUIRED if key not in resources]
    if missing:
        raise errors.ReportRefused(host=host, node=node, field=", ".join(missing), reason="is missing")
    try:
        return HostReport.from_wire(
            _values(host, node, resources, policy, orphaned_mb=orphaned_memory_mb, failed_builds=failed_builds),
            "inventory",
        )
    except errors.InvalidInput as invalid:
        field = invalid.field.removeprefix("inventory.")
        raise errors.ReportRefused(host=host, node=node, field=field, reason=invalid.reason) from None


def _values(
    host: str, node: str, resources: Mapping[str, object], policy: HostPolicy, orphaned_mb: int, failed_builds: int
) -> JSONObject:
    return {
        "host": host,
        "node": node,
        **{key: resources[key] for key in ("vcpus", "memory_mb", "local_gb")},
        "reserved_vcpus": policy.reserved.vcpus,
        "reserved_memory_mb": policy.reserved.memory_mb,
        "reserved_disk_gb": policy.reserved.disk_gb,
        "orphaned_memory_mb": orphaned_mb,
        "cpu_allocation_ratio": policy.cpu_allocation_ratio,
        "ram_allocation_ratio": policy.ram_allocation_ratio,
        "disk_allocation_ratio": policy.disk_allocation_ratio,
        "disk_available_least": resources.get("disk_available_least"),
        "hypervisor_type": resources.get("hypervisor_type") or "",
        "hypervisor_version": resources.get("hypervisor_version") or 0,
        "host_ip": policy.host_ip,
        "cpu_info": resources.get("cpu_info") or "",
        "supported_instances": _parsed("supported_instances", resources, list),
        "numa_topology": _parsed("numa_topology", resources, dict) or None,
        "pci_device_pools": [pool.to_wire() for pool in pools.pools_of(pci_devices(resources))],
        "stats": {
            **_parsed("stats", resources, dict),
            host_report.VOLUME_HOSTS: ",".join(policy.volume_hosts),
            **({host_labels.LABELS: dict(policy.labels)} if policy.labels else {}),
            **({} if policy.booted_at is None else {host_report.BOOTED_AT: policy.booted_at}),
            "failed_builds": failed_builds,
        },
    }


def _parsed(key: str, resources: Mapping[str, object], kind: type) -> Any:
    """Return a structure that a driver gives as such or, like nova's drivers, as JSON; nothing is an empty structure.

    :raises errors.InvalidInput: it is neither
    """
    value = resources.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise errors.InvalidInput(field=key, reason="is not JSON") from None
    value = kind() if value is None else value
    if not isinstance(value, kind):
        raise errors.InvalidInput(field=key, reason=f"must be a {kind.__name__}")
    return value
