# SPDX-License-Identifier: Apache-2.0
"""Enough local disk, overcommitted as the host allows. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import numpy

from fleet import capacity
from fleet.objects import RequestSpec, request_parts
from fleet.reasons import Reason
from scheduler.compute.filters.base import ColumnFilter
from scheduler.compute.filters.ram import aggregate_ratio
from scheduler.engine.hosts.candidates import Candidates
from scheduler.why.shortfall import Shortfall


class DiskFilter(ColumnFilter):
    """Hosts pass with room for root, ephemeral and swap disk. One instance is not overcommitted against itself."""

    judges = (request_parts.DISK,)
    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        if request.room_is_given:
            return None
        return (self.usable(hosts) >= request.flavor.requested_disk_mb) & self.ever(hosts, request)

    def usable(self, hosts: Candidates) -> numpy.ndarray:
        """Return the MB that are left within the limit."""
        return hosts.column("free_disk_mb") + self._headroom(hosts)

    def ever(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        """Return True for hosts that would pass if nothing else was on them."""
        found: numpy.ndarray = hosts.column("disk_most_mb") >= request.flavor.requested_disk_mb
        return found

    def limits(self, hosts: Candidates, request: RequestSpec) -> dict[str, numpy.ndarray]:
        return {"disk_gb": self._limit(hosts)}

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> Shortfall:
        """Return the numbers in GB. Swap may make the requested size a fraction."""
        total = hosts.column("total_usable_disk_gb")
        used = total - hosts.column("free_disk_mb") / capacity.MB_PER_GB
        reserved, largest = (hosts.column(name) / capacity.MB_PER_GB for name in ("reserved_disk_mb", "disk_most_mb"))
        asked = request.flavor.requested_disk_mb / capacity.MB_PER_GB
        consumed = capacity.claimed_disk_gb(request.root_gb, request.ephemeral_gb)
        return Shortfall.of("disk", "GB", asked, total, reserved, self._ratio(hosts), used, consumed, largest)

    def _ratio(self, hosts: Candidates) -> numpy.ndarray:
        return hosts.column("disk_allocation_ratio")

    def _limit(self, hosts: Candidates) -> numpy.ndarray:
        """Return the limit in GB."""
        return hosts.column("disk_limit_gb")

    def _headroom(self, hosts: Candidates) -> numpy.ndarray:
        """Return the limit minus the total, in MB."""
        return hosts.column("disk_headroom_mb")


class AggregateDiskFilter(DiskFilter):
    """DiskFilter with the ratio that the host's aggregates set, if any (``disk_allocation_ratio``, the smallest)."""

    def _ratio(self, hosts: Candidates) -> numpy.ndarray:
        return aggregate_ratio(hosts, "disk_allocation_ratio")

    def _limit(self, hosts: Candidates) -> numpy.ndarray:
        total = hosts.column("total_usable_disk_gb") * capacity.MB_PER_GB
        return capacity.limit(total, hosts.column("reserved_disk_mb"), self._ratio(hosts)) / capacity.MB_PER_GB

    def _headroom(self, hosts: Candidates) -> numpy.ndarray:
        return (self._limit(hosts) - hosts.column("total_usable_disk_gb")) * capacity.MB_PER_GB
