# SPDX-License-Identifier: Apache-2.0
"""Enough virtual CPUs, overcommitted as the host allows. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import dataclasses

import numpy

from fleet import capacity
from fleet.objects import RequestSpec, request_parts
from fleet.reasons import Reason
from scheduler.compute.filters.base import ColumnFilter
from scheduler.compute.filters.ram import aggregate_ratio
from scheduler.engine.hosts.candidates import Candidates
from scheduler.why.shortfall import Shortfall


class CoreFilter(ColumnFilter):
    """Hosts pass with room for the flavor's vcpus. A host that reports no CPU passes without limit."""

    judges = (request_parts.VCPUS,)
    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        if request.room_is_given:
            return None
        # As ``usable`` and ``ever`` have it, with fewer passes over the hosts: each decision asks for it.
        requested = request.flavor.vcpus
        usable = capacity.usable(self._limit(hosts), hosts.column("vcpus_used"))
        # Nothing reported means that the CPU inventory is broken, not that there is no CPU.
        unlimited = hosts.column("vcpus_total") == 0
        return ((usable >= requested) & (hosts.column("vcpu_most") >= requested)) | unlimited

    def usable(self, hosts: Candidates) -> numpy.ndarray:
        """Return the vcpus that are left within the limit: infinity where nothing is reported."""
        usable = capacity.usable(self._limit(hosts), hosts.column("vcpus_used"))
        return numpy.where(hosts.column("vcpus_total") == 0, numpy.inf, usable)

    def ever(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        """Return True for hosts that would pass if nothing else was on them."""
        return (hosts.column("vcpu_most") >= request.flavor.vcpus) | (hosts.column("vcpus_total") == 0)

    def limits(self, hosts: Candidates, request: RequestSpec) -> dict[str, numpy.ndarray]:
        return {"vcpu": numpy.where(hosts.column("vcpus_total") > 0, self._limit(hosts), numpy.nan)}

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> Shortfall:
        total, reserved, ratio = hosts.column("vcpus_total"), hosts.column("reserved_vcpus"), self._ratio(hosts)
        asked, consumed = request.flavor.vcpus, request.vcpus
        used, largest = hosts.column("vcpus_used"), hosts.column("vcpu_most")
        made = Shortfall.of("vcpus", "", asked, total, reserved, ratio, used, consumed, largest)
        unlimited = total == 0
        limit, most = (numpy.where(unlimited, numpy.inf, each) for each in (made.limit, made.most))
        return dataclasses.replace(made, limit=limit, most=most)

    def _ratio(self, hosts: Candidates) -> numpy.ndarray:
        return hosts.column("cpu_allocation_ratio")

    def _limit(self, hosts: Candidates) -> numpy.ndarray:
        return hosts.column("vcpu_limit")


class AggregateCoreFilter(CoreFilter):
    """CoreFilter with the ratio that the host's aggregates set, if any (``cpu_allocation_ratio``, the smallest)."""

    def _ratio(self, hosts: Candidates) -> numpy.ndarray:
        return aggregate_ratio(hosts, "cpu_allocation_ratio")

    def _limit(self, hosts: Candidates) -> numpy.ndarray:
        return capacity.limit(hosts.column("vcpus_total"), hosts.column("reserved_vcpus"), self._ratio(hosts))
