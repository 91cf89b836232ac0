# SPDX-License-Identifier: Apache-2.0
"""Hosts must fit the instance exactly: for whole machines, one for each instance.

Called by :mod:`scheduler.compute.filters`.
"""

from __future__ import annotations

import numpy

from fleet import capacity
from fleet.objects import RequestSpec, request_parts
from fleet.reasons import Reason
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates
from scheduler.why.shortfall import ExactShortfall


class ExactRamFilter(ColumnFilter):
    """Hosts pass with exactly the flavor's memory free."""

    judges = (request_parts.MEMORY,)
    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return hosts.column("free_ram_mb") == request.flavor.memory_mb

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> ExactShortfall:
        total, reserved = hosts.column("total_usable_ram_mb"), hosts.column("reserved_ram_mb")
        used = total - hosts.column("free_ram_mb")
        asked, consumed = request.flavor.memory_mb, request.memory_mb
        return ExactShortfall("RAM", "MB", asked, total, used, total - reserved, consumed)


class ExactDiskFilter(ColumnFilter):
    """Hosts pass with exactly the flavor's root, ephemeral and swap disk free."""

    judges = (request_parts.DISK,)
    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return hosts.column("free_disk_mb") == request.flavor.requested_disk_mb

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> ExactShortfall:
        total = hosts.column("total_usable_disk_gb")
        used = total - hosts.column("free_disk_mb") / capacity.MB_PER_GB
        reserved = hosts.column("reserved_disk_mb") / capacity.MB_PER_GB
        asked = request.flavor.requested_disk_mb / capacity.MB_PER_GB
        consumed = capacity.claimed_disk_gb(request.root_gb, request.ephemeral_gb)
        return ExactShortfall("disk", "GB", asked, total, used, total - reserved, consumed)


class ExactCoreFilter(ColumnFilter):
    """Hosts pass with exactly the flavor's vcpus unused. A host that reports no CPU does not pass."""

    judges = (request_parts.VCPUS,)
    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        total = hosts.column("vcpus_total")
        return (total - hosts.column("vcpus_used") == request.flavor.vcpus) & (total > 0)

    def limits(self, hosts: Candidates, request: RequestSpec) -> dict[str, numpy.ndarray]:
        return {"vcpu": hosts.column("vcpus_total")}

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> ExactShortfall:
        total, reserved = hosts.column("vcpus_total"), hosts.column("reserved_vcpus")
        asked, consumed = request.flavor.vcpus, request.vcpus
        return ExactShortfall("vcpus", "", asked, total, hosts.column("vcpus_used"), total - reserved, consumed)
