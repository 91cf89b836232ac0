# SPDX-License-Identifier: Apache-2.0
"""Enough memory, overcommitted as the host allows. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import numpy

from fleet import capacity
from fleet.objects import RequestSpec, fields, request_parts
from fleet.reasons import Reason
from scheduler.compute.domain import aggregate_overrides
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates
from scheduler.why.shortfall import Shortfall


class RamFilter(ColumnFilter):
    """Hosts pass with room for the flavor's memory. One instance is not overcommitted against itself."""

    judges = (request_parts.MEMORY,)
    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        if request.room_is_given:
            return None
        return (self.usable(hosts) >= request.flavor.memory_mb) & self.ever(hosts, request)

    def usable(self, hosts: Candidates) -> numpy.ndarray:
        """Return the MB that are left within the limit."""
        return hosts.column("free_ram_mb") + self._headroom(hosts)

    def ever(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        """Return True for hosts that would pass if nothing else was on them."""
        found: numpy.ndarray = hosts.column("ram_most_mb") >= request.flavor.memory_mb
        return found

    def limits(self, hosts: Candidates, request: RequestSpec) -> dict[str, numpy.ndarray]:
        return {"memory_mb": self._limit(hosts)}

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> Shortfall:
        total, reserved = hosts.column("total_usable_ram_mb"), hosts.column("reserved_ram_mb")
        used, largest = total - hosts.column("free_ram_mb"), hosts.column("ram_most_mb")
        asked, consumed = request.flavor.memory_mb, request.memory_mb
        return Shortfall.of("RAM", "MB", asked, total, reserved, self._ratio(hosts), used, consumed, largest)

    def _ratio(self, hosts: Candidates) -> numpy.ndarray:
        return hosts.column("ram_allocation_ratio")

    def _limit(self, hosts: Candidates) -> numpy.ndarray:
        return hosts.column("ram_limit_mb")

    def _headroom(self, hosts: Candidates) -> numpy.ndarray:
        """Return the limit minus the total, in MB."""
        return hosts.column("ram_headroom_mb")


class AggregateRamFilter(RamFilter):
    """RamFilter with the ratio that the host's aggregates set, if any (``ram_allocation_ratio``, the smallest)."""

    def _ratio(self, hosts: Candidates) -> numpy.ndarray:
        return aggregate_ratio(hosts, "ram_allocation_ratio")

    def _limit(self, hosts: Candidates) -> numpy.ndarray:
        return capacity.limit(hosts.column("total_usable_ram_mb"), hosts.column("reserved_ram_mb"), self._ratio(hosts))

    def _headroom(self, hosts: Candidates) -> numpy.ndarray:
        return self._limit(hosts) - hosts.column("total_usable_ram_mb")


def aggregate_ratio(hosts: Candidates, name: str) -> numpy.ndarray:
    """Return the ratio of this name in the aggregates' metadata, at most that of any host, or else the host's own."""
    return numpy.minimum(aggregate_overrides.number(hosts, name, hosts.column(name)), fields.MOST_RATIO)
