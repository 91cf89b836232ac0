# SPDX-License-Identifier: Apache-2.0
"""The NUMA cells and PCI devices of a node: what exists, what instances hold, and what is free.

Called by :mod:`compute_agent.node.claims` and :mod:`compute_agent.node.resource_tracker`.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection
from typing import Self

from fleet.hardware import pools, usage
from fleet.hardware.node import Hardware, Held, Wanted
from fleet.objects import Claimed, Instance, numa, pci


@dataclasses.dataclass(frozen=True)
class Holding:
    """The cells (with pinning and page size) and devices (by address) of one instance."""

    topology: numa.InstanceTopology | None = None
    devices: tuple[pci.PciDevice, ...] = ()

    @classmethod
    def of(cls, instance: Instance) -> Self:
        """Return the hardware that a claimed instance holds in the ledger."""
        return cls(instance.claimed_topology, instance.claimed_devices)

    @classmethod
    def of_claim(cls, claimed: Claimed) -> Self:
        """Return the hardware that a move holds in the ledger."""
        return cls(numa.InstanceTopology.from_wire(claimed.numa_topology), pci.devices_from_wire(claimed.pci_devices))


NOTHING = Holding()


@dataclasses.dataclass(frozen=True)
class Stock:
    """All cells and devices of a node, as its driver reports them."""

    topology: numa.HostTopology | None = None
    devices: tuple[pci.PciDevice, ...] = ()

    def left(self, held: Collection[Holding]) -> Hardware:
        """Return the hardware that is free besides ``held``."""
        topology = self.topology
        if topology is not None:
            topology = usage.recount(topology, [each.topology for each in held if each.topology is not None])
        return Hardware(topology, pools.pools_of(self._free(held)))

    def take(self, fitted: Held, held: Collection[Holding]) -> Holding:
        """Return the actual devices for a fit to :meth:`left` of the same ``held``."""
        free: dict[pci.Kind, list[pci.PciDevice]] = collections.defaultdict(list)
        for device in self._free(held):
            free[device.kind].append(device)
        devices = [
            dataclasses.replace(free[taken.kind].pop(0), request_id=taken.request_id)
            for taken in fitted.devices
            for _ in range(taken.count)
        ]
        return Holding(fitted.topology, tuple(devices))

    def _free(self, held: Collection[Holding]) -> list[pci.PciDevice]:
        """Return free devices in the driver's order."""
        gone = {device.address for each in held for device in each.devices}
        return [device for device in self.devices if device.address not in gone]


def wanted_by(instance: Instance) -> Wanted:
    """Return the hardware that the instance requests. :raises errors.InvalidInput: it is malformed"""
    return Wanted(instance.wanted_topology, instance.wanted_devices)
