# SPDX-License-Identifier: Apache-2.0
"""The NUMA cells and PCI devices of a node: what exists, what instances hold, and what is free.

Called by :mod:`compute_agent.node.claims` and :mod:`compute_agent.node.resource_tracker`.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection
from typing import Self

from oslo_log import log as logging

from fleet import errors
from fleet.hardware import pools, usage
from fleet.hardware.node import Hardware, Held, Wanted
from fleet.objects import Claimed, Instance, numa, pci

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Holding:
    """The cells (with pinning and page size) and devices (by address) of one instance.

    :param any_cells: its cells are unknown: it may hold any of the node
    :param any_devices: its devices are unknown
    """

    topology: numa.InstanceTopology | None = None
    devices: tuple[pci.PciDevice, ...] = ()
    any_cells: bool = False
    any_devices: bool = False

    @classmethod
    def of(cls, instance: Instance) -> Self:
        """Return the hardware that a claimed instance holds in the ledger."""
        return cls._known(instance.uuid, lambda: instance.claimed_topology, lambda: instance.claimed_devices)

    @classmethod
    def of_claim(cls, uuid: str, claimed: Claimed) -> Self:
        """Return the hardware that a move of the instance holds in the ledger."""
        cells, devices = claimed.numa_topology, claimed.pci_devices
        return cls._known(
            uuid,
            lambda: numa.InstanceTopology.from_wire(cells, "claimed_numa_topology"),
            lambda: pci.devices_from_wire(devices, "claimed_pci_devices"),
        )

    @classmethod
    def _known(
        cls,
        uuid: str,
        cells: Callable[[], numa.InstanceTopology | None],
        devices: Callable[[], tuple[pci.PciDevice, ...]],
    ) -> Self:
        """A malformed row must not stop its host, nor make what its guest uses look free."""
        holding = cls()
        try:
            holding = dataclasses.replace(holding, topology=cells())
        except errors.InvalidInput as malformed:
            holding = dataclasses.replace(holding, any_cells=True)
            LOG.error(
                "The cells and CPUs of instance %s are unknown (%s): its node takes no more instances with cells or pinned "
                "CPUs until it is deleted",
                *(uuid, malformed.message),
            )
        try:
            holding = dataclasses.replace(holding, devices=devices())
        except errors.InvalidInput as malformed:
            holding = dataclasses.replace(holding, any_devices=True)
            LOG.error(
                "The devices of instance %s are unknown (%s): its node gives no more devices until it is deleted",
                *(uuid, malformed.message),
            )
        return holding


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
            topology = usage.full(topology) if any(each.any_cells for each in held) else topology
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
        if any(each.any_devices for each in held):
            return []
        gone = {device.address for each in held for device in each.devices}
        return [device for device in self.devices if device.address not in gone]


def wanted_by(instance: Instance) -> Wanted:
    """Return the hardware that the instance requests. :raises errors.InvalidInput: it is malformed"""
    return Wanted(instance.wanted_topology, instance.wanted_devices)
