# SPDX-License-Identifier: Apache-2.0
"""The cells and devices of a node together: the free ones, those that an instance requests, and those that it then holds.

Called by the claims of :mod:`compute_agent.node` and the hardware filters of :mod:`scheduler.compute.filters`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Hashable, Iterable, Mapping

from fleet.hardware import pools as device_pools
from fleet.hardware import topology_fit, usage
from fleet.hardware.pools import Pools
from fleet.json_codec import JSONMapping
from fleet.objects.numa import HostTopology, InstanceTopology, Limits
from fleet.objects.pci import PciDevice, PciRequest


@dataclasses.dataclass(frozen=True)
class Held:
    """The cells on the host, and the devices by kind, that an instance gets."""

    topology: InstanceTopology | None = None
    devices: tuple[device_pools.Taken, ...] = ()


@dataclasses.dataclass(frozen=True)
class Hardware:
    """The free cells and devices of a node. ``limits`` overcommit its cells for floating vcpus.

    ``stock`` are all its pools, held devices included; empty if unknown.
    """

    topology: HostTopology | None = None
    pools: Pools = ()
    limits: Limits | None = None
    stock: Pools = ()

    def emptied(self) -> Hardware:
        """Return the same node without instances."""
        topology = self.topology.emptied() if self.topology else None
        return dataclasses.replace(self, topology=topology, pools=self.stock or self.pools)


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The cells and devices that an instance requests."""

    topology: InstanceTopology | None = None
    devices: tuple[PciRequest, ...] = ()

    def __bool__(self) -> bool:
        return self.topology is not None or bool(self.devices)

    def key(self, *more: Hashable) -> Hashable:
        """Return a key that is equal for requests with equal fits. The ids of their devices do not matter."""
        topology = self.topology and self.topology.to_wire()
        devices = [(each.count, each.spec, each.numa_policy) for each in self.devices]
        return (json.dumps([topology, devices], sort_keys=True), *more)

    @property
    def device_count(self) -> int:
        return sum(request.count for request in self.devices)

    def taken_from(self, hardware: Hardware | None) -> Hardware | None:
        """Return the hardware that is free after one more such instance.

        If its cells do not fit, only its devices are taken, or nothing.
        """
        if hardware is None:
            return None
        held = fit(hardware, self) or fit(hardware, Wanted(devices=self.devices))
        return hardware if held is None else take(hardware, held)


def fit(hardware: Hardware, wanted: Wanted, packing: bool = False) -> Held | None:
    """Return how the node would meet ``wanted``; None if it cannot. A topology never fits a node that reports none."""
    if wanted.topology is None:
        alone = device_pools.allocate(hardware.pools, wanted.devices)
        return None if alone is None else Held(devices=alone.taken)
    if hardware.topology is None:
        return None
    found = topology_fit.fit_topology(
        hardware.topology, wanted.topology, hardware.limits, hardware.pools, wanted.devices, packing
    )
    return None if found is None else Held(found.topology, found.devices.taken)


def fits(hardware: Hardware, wanted: Wanted) -> bool:
    """Return True if :func:`fit` would find a way. It is cheaper, because the scheduler tests every host."""
    if wanted.topology is None:
        return device_pools.allocate(hardware.pools, wanted.devices) is not None
    if hardware.topology is None:
        return False
    return topology_fit.fits_topology(
        hardware.topology, wanted.topology, hardware.limits, hardware.pools, wanted.devices
    )


def take(hardware: Hardware, held: Held) -> Hardware:
    """Return the node without ``held``, which was fitted to it."""
    topology = hardware.topology
    if topology is not None and held.topology is not None:
        topology = usage.add(topology, held.topology)
    kinds = [each.kind for each in held.devices for _ in range(each.count)]
    return dataclasses.replace(hardware, topology=topology, pools=device_pools.less(hardware.pools, kinds))


def without(hardware: Hardware, topology: InstanceTopology | None, devices: Iterable[PciDevice]) -> Hardware:
    """Return the node as if one of its instances were not there."""
    known = hardware.topology
    if known is not None and topology is not None:
        known = usage.without(known, topology)
    back = device_pools.more(hardware.pools, [device.kind for device in devices])
    return dataclasses.replace(hardware, topology=known, pools=back)


def wants_thread_siblings(extra_specs: Mapping[str, str], image_properties: JSONMapping) -> bool:
    """Return True if the request needs hyperthreading: pinned vcpus with the thread policy ``require``."""
    policies = (extra_specs.get("hw:cpu_policy"), image_properties.get("hw_cpu_policy"))
    threads = (extra_specs.get("hw:cpu_thread_policy"), image_properties.get("hw_cpu_thread_policy"))
    return "dedicated" in policies and "require" in threads
