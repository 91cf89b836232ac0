# SPDX-License-Identifier: Apache-2.0
"""Hosts that fit an instance exactly: whole machines, handed out one an instance."""

from __future__ import annotations

import numpy

from fleet.objects import RequestSpec
from fleet.reasons import Reason
from scheduler.candidates import Candidates
from scheduler.filters.base import ColumnFilter


class ExactRamFilter(ColumnFilter):
    """Hosts pass with exactly the flavor's memory free."""

    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return hosts.column("free_ram_mb") == request.flavor.memory_mb


class ExactDiskFilter(ColumnFilter):
    """Hosts pass with exactly the flavor's root, ephemeral and swap disk free."""

    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return hosts.column("free_disk_mb") == request.flavor.requested_disk_mb


class ExactCoreFilter(ColumnFilter):
    """Hosts pass with exactly the flavor's vcpus unused; one that reports no CPU at all does not."""

    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        total = hosts.column("vcpus_total")
        return (total - hosts.column("vcpus_used") == request.flavor.vcpus) & (total > 0)

    def limits(self, hosts: Candidates, request: RequestSpec) -> dict[str, numpy.ndarray]:
        return {"vcpu": hosts.column("vcpus_total")}
