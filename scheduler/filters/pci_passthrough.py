# SPDX-License-Identifier: Apache-2.0
"""PCI devices that the instance is to be given (spec/filters §9)."""

from __future__ import annotations

from collections.abc import Hashable

import numpy

from fleet.hardware import node, pools
from fleet.objects import RequestSpec
from fleet.reasons import Reason
from scheduler import domain
from scheduler.candidates import Candidates
from scheduler.consumption import HARDWARE
from scheduler.filters.base import ColumnFilter


class PciPassthroughFilter(ColumnFilter):
    """Hosts pass with free devices for all of the instance's requests; near which cells is NUMATopologyFilter's part."""

    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        wanted = domain.wanted(request)
        if not wanted.devices:
            return None
        may = hosts.present() & (hosts.column("free_pci_devices") >= wanted.device_count)
        return hosts.narrowed(
            may, HARDWARE, lambda hardware: pools.allocate(hardware.pools, wanted.devices) is not None
        )

    def recall_key(self, request: RequestSpec) -> Hashable | None:
        return node.Wanted(devices=request.pci_requests).key() if request.pci_requests else None

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        free = int(hosts.column("free_pci_devices")[0])
        asked = " and ".join(f"{each.count} {each.alias_name or 'unnamed'}" for each in request.pci_requests)
        return f"has {free} free PCI devices, which do not include {asked}"
