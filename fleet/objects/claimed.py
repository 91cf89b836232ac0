# SPDX-License-Identifier: Apache-2.0
"""The resources that a host holds for an instance after its claim.

Agents report it after a claim, and the ledger keeps it for each instance and move.
"""

from __future__ import annotations

import dataclasses

from fleet.json_codec import JSONObject
from fleet.objects import fields, numa, pci


@dataclasses.dataclass(frozen=True)
class Claimed:
    """Memory in MB with the driver's overhead, disk in GB; the topology with host cells and CPUs; devices by address."""

    memory_mb: fields.Natural
    disk_gb: fields.Natural
    vcpus: fields.Natural
    numa_topology: JSONObject | None = None
    pci_devices: list[JSONObject] | None = None

    @classmethod
    def from_wire(cls, data: object, field: str = "claim") -> Claimed:
        """:raises errors.InvalidInput: naming the field"""
        claimed = fields.parse(cls, data, field)
        numa.InstanceTopology.from_wire(claimed.numa_topology, f"{field}.numa_topology")
        pci.devices_from_wire(claimed.pci_devices, f"{field}.pci_devices")
        return claimed

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)
