# SPDX-License-Identifier: Apache-2.0
"""The resources that an instance takes of its node: when it is picked, and when it is there.

Called by the domain of virtual machines (:mod:`scheduler.compute.domain.virtual_machines`) for each pick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet import capacity
from fleet.hardware import node as node_hardware
from fleet.objects import Claimed, RequestSpec, numa, pci
from scheduler.compute.domain.hardware import HARDWARE, wanted
from scheduler.engine.hosts.consumption import Consumption
from scheduler.engine.hosts.domain import Held


def consumption(request: RequestSpec) -> Consumption:
    """Return what one instance of the request takes. Swap is required when hosts are chosen, but not held."""
    parts = wanted(request)
    added = {
        "free_ram_mb": -request.memory_mb,
        "free_disk_mb": -capacity.MB_PER_GB * capacity.claimed_disk_gb(request.root_gb, request.ephemeral_gb),
        "vcpus_used": request.vcpus,
        "num_instances": 1,
        "num_io_ops": 1,
    }
    if not parts:
        return Consumption(added)
    return Consumption({**added, "free_pci_devices": -parts.device_count}, {HARDWARE: parts})


def held(claimed: Claimed) -> Held:
    """Return what an instance on its node holds. It counts as built, so it holds no I/O operation."""
    numbers = {
        "free_ram_mb": -claimed.memory_mb,
        "free_disk_mb": -capacity.MB_PER_GB * claimed.disk_gb,
        "vcpus_used": claimed.vcpus,
        "num_instances": 1,
        "free_pci_devices": -len(claimed.pci_devices or ()),
    }
    return Held(numbers, {HARDWARE: _without(claimed)})


def _without(claimed: Claimed) -> Callable[[Any], Any]:
    def give_back(known: Any) -> Any:
        cells = numa.InstanceTopology.from_wire(claimed.numa_topology)
        return node_hardware.without(known, cells, pci.devices_from_wire(claimed.pci_devices))

    return give_back
