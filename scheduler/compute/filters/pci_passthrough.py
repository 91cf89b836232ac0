# SPDX-License-Identifier: Apache-2.0
"""PCI devices that the instance is to be given. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy

from fleet.hardware import pools, shortage
from fleet.hardware.node import Hardware
from fleet.hardware.shortage import Lack
from fleet.objects import RequestSpec, request_parts
from fleet.objects.pci import PciRequest
from fleet.reasons import Reason
from scheduler.compute.domain.hardware import HARDWARE
from scheduler.compute.domain.hardware import wanted as wanted_hardware
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates
from scheduler.why.hardware_shortfall import HardwareShortfall


class PciPassthroughFilter(ColumnFilter):
    """Hosts pass with free devices for all PCI requests. NUMATopologyFilter checks which cells they are near."""

    judges = (request_parts.PCI,)
    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        wanted = wanted_hardware(request)
        if not wanted.devices:
            return None
        may = hosts.present() & (hosts.column("free_pci_devices") >= wanted.device_count)
        return hosts.narrowed(
            may, HARDWARE, lambda hardware: pools.allocate(hardware.pools, wanted.devices) is not None
        )

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> HardwareShortfall | None:
        wanted = wanted_hardware(request)
        if not wanted.devices:
            return None
        known = [hosts.rare(row, HARDWARE) for row in hosts.rows.tolist()]
        stock = _matching([each.stock or each.pools if each else () for each in known], wanted.devices)
        free = _matching([each.pools if each else () for each in known], wanted.devices)
        lacking = functools.partial(_lacking, wanted.devices)
        return HardwareShortfall(
            "PCI devices", "", wanted.device_count, stock, stock - free, stock, None, known, wanted, lacking
        )


def _lacking(requests: Sequence[PciRequest], hardware: Hardware) -> list[Lack]:
    return shortage.of_devices(hardware, requests)


def _matching(known: Sequence[pools.Pools], requests: Sequence[PciRequest]) -> numpy.ndarray:
    """Return, per host, the number of devices that meet any of the requests."""
    return numpy.array([pools.matching_devices(each, *requests) for each in known], dtype=float)
