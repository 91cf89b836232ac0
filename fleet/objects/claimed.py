# SPDX-License-Identifier: Apache-2.0
"""The resources that a host holds for an instance after its claim.

Agents report it after a claim, and the ledger keeps it for each instance and move.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from fleet.json_codec import JSONObject
from fleet.objects import fields, numa, pci

#: In place of cells and devices that cannot be read in the ledger. They are not empty, and no parser accepts them: a host
#: that reads them does not take what they stand for as free.
UNKNOWN_CELLS: Final[JSONObject] = {"cells": "unreadable"}
UNKNOWN_DEVICES: Final[list[JSONObject]] = [{"address": None}]


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
        claimed.require_hardware(field)
        return claimed

    def require_hardware(self, field: str) -> None:
        """:raises errors.InvalidInput: naming the field of a topology or a device that is none"""
        numa.InstanceTopology.from_wire(self.numa_topology, f"{field}.numa_topology")
        pci.devices_from_wire(self.pci_devices, f"{field}.pci_devices")

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)
