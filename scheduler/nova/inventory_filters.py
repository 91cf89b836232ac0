# SPDX-License-Identifier: Apache-2.0
"""The filters that judge a host as placement does.

Called by :mod:`scheduler.nova.domain`. These filters also judge forced hosts. Without placement's
database they pass all hosts.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy

from fleet import capacity
from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec, request_parts
from fleet.reasons import Reason
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates
from scheduler.nova.claims import resources_of
from scheduler.nova.domain_columns import DISABLED, KNOWN, OFFERED, TRAITS, UNKNOWN, UNREAD_PLACEMENT, units
from scheduler.nova.request import NovaRequest
from scheduler.why.shortfall import Shortfall


class ProviderFilter(ColumnFilter):
    """Hosts pass whose resource provider exists, is enabled, and has the traits that the request needs."""

    run_filter_once_per_request = True
    run_on_forced = True
    reason = Reason.POLICY

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        if not isinstance(request, NovaRequest) or hosts.uniform(OFFERED) == UNREAD_PLACEMENT:
            return None
        required, forbidden = request.required_traits, request.forbidden_traits | {DISABLED}
        if request.offered is not None:
            required, forbidden = (
                frozenset(),
                frozenset({DISABLED}),
            )  # placement has judged them, over all its providers
        known = hosts.column(OFFERED) == KNOWN
        fits = hosts.by_shared(TRAITS, lambda traits: required <= traits and forbidden.isdisjoint(traits))
        return numpy.asarray((known & fits) | (hosts.column(OFFERED) == UNREAD_PLACEMENT))

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        row = int(hosts.rows[0])
        if hosts.column(OFFERED)[0] == UNKNOWN:
            return "has no resource provider in placement"
        assert isinstance(request, NovaRequest), "the filter judges no other"
        traits = hosts.shared(row, TRAITS)
        if DISABLED in traits:
            return "is disabled"
        missing = sorted(request.required_traits - traits)
        unwanted = [f"has the forbidden trait {name}" for name in sorted(request.forbidden_traits & traits)]
        return "; ".join([*(f"has not the trait {name}" for name in missing), *unwanted])


@dataclasses.dataclass(frozen=True)
class _InventoryShortfall(Shortfall):
    """A resource of inventories, which limit the amounts of one instance by their units.

    :param resource_class: names the resource in placement
    :param least: min_unit of each host; ``largest`` and ``step_size``: the others
    """

    resource_class: str = ""
    least: numpy.ndarray = dataclasses.field(default_factory=lambda: numpy.empty(0))
    largest: numpy.ndarray = dataclasses.field(default_factory=lambda: numpy.empty(0))
    step_size: numpy.ndarray = dataclasses.field(default_factory=lambda: numpy.empty(0))

    def describe(self, position: int) -> list[JSONObject]:
        """Return the numbers; where the units refuse the amount, the text names the units and no numbers of room."""
        found = super().describe(position)
        least, largest, step = (int(each[position]) for each in (self.least, self.largest, self.step_size))
        if not largest:
            text = f"has no inventory of {self.resource_class}"
        elif self.asked < least or self.asked % step:
            allowed = f"from {least} to {largest} in steps of {step}"
            text = f"allows {self.resource_class} {allowed}, and {self.asked} are requested"
        else:
            return found
        return [{**each, "text": text} for each in found]


class InventoryFilter(ColumnFilter):
    """Hosts pass if the request's amount fits the inventory of one resource class.

    It must be within min_unit and max_unit, a multiple of step_size, and not more than what is free. The filters for memory,
    disk and vcpus run before, where a configuration has them; one of nova's has none.
    """

    run_on_forced = True
    reason = Reason.CAPACITY
    resource_class: ClassVar[str]
    #: How messages name the resource and its unit.
    resource: ClassVar[str]
    unit: ClassVar[str] = ""

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        amount = self._amount(hosts, request)
        if not amount:
            return None
        least, most, step = (hosts.column(column) for column in units(self.resource_class))
        limit, used = self._limit_and_used(hosts)
        fits = (least <= amount) & (amount <= most) & (amount % step == 0) & (capacity.usable(limit, used) >= amount)
        return numpy.asarray(fits | (hosts.column(OFFERED) == UNREAD_PLACEMENT))

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> Shortfall | None:
        amount = self._amount(hosts, request)
        if not amount:
            return None
        limit, used = self._limit_and_used(hosts)
        least, most, step = (hosts.column(column) for column in units(self.resource_class))
        # The limit includes what is reserved; an instance has nothing of that.
        fitting = (least <= amount) & (amount % step == 0)
        largest = numpy.where(fitting, numpy.minimum(most, limit - self._reserved(hosts)), 0)
        return _InventoryShortfall(
            *(self.resource, self.unit, amount, limit, used, largest, amount),
            resource_class=self.resource_class,
            least=least,
            largest=most,
            step_size=step,
        )

    def _amount(self, hosts: Candidates, request: RequestSpec) -> int:
        """Return the amount that one instance takes; 0 if this filter does not judge it."""
        if (
            not isinstance(request, NovaRequest)
            or request.offered is not None
            or hosts.uniform(OFFERED) == UNREAD_PLACEMENT
        ):
            return 0
        return resources_of(request).get(self.resource_class, 0)

    def _limit_and_used(self, hosts: Candidates) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Return both in the units of the class. The limit includes what is reserved, and so does what is used."""
        raise NotImplementedError

    def _reserved(self, hosts: Candidates) -> numpy.ndarray:
        """Return what is reserved, in the units of the class."""
        raise NotImplementedError


class VcpuInventoryFilter(InventoryFilter):
    """Hosts pass if the flavor's vcpus fit their inventory of VCPU."""

    resource_class, resource = "VCPU", "vcpus"
    judges = (request_parts.VCPUS,)

    def _limit_and_used(self, hosts: Candidates) -> tuple[numpy.ndarray, numpy.ndarray]:
        return hosts.column("vcpu_limit"), hosts.column("vcpus_used")

    def _reserved(self, hosts: Candidates) -> numpy.ndarray:
        return hosts.column("reserved_vcpus")


class MemoryInventoryFilter(InventoryFilter):
    """Hosts pass if the flavor's memory fits their inventory of MEMORY_MB."""

    resource_class, resource, unit = "MEMORY_MB", "RAM", "MB"
    judges = (request_parts.MEMORY,)

    def _limit_and_used(self, hosts: Candidates) -> tuple[numpy.ndarray, numpy.ndarray]:
        return hosts.column("ram_limit_mb"), hosts.column("total_usable_ram_mb") - hosts.column("free_ram_mb")

    def _reserved(self, hosts: Candidates) -> numpy.ndarray:
        return hosts.column("reserved_ram_mb")


class DiskInventoryFilter(InventoryFilter):
    """Hosts pass if root, ephemeral and swap disk, in whole GB, fit their inventory of DISK_GB."""

    resource_class, resource, unit = "DISK_GB", "disk", "GB"
    judges = (request_parts.DISK,)

    def _limit_and_used(self, hosts: Candidates) -> tuple[numpy.ndarray, numpy.ndarray]:
        used = hosts.column("total_usable_disk_gb") - hosts.column("free_disk_mb") / capacity.MB_PER_GB
        return hosts.column("disk_limit_gb"), used

    def _reserved(self, hosts: Candidates) -> numpy.ndarray:
        return hosts.column("reserved_disk_mb") / capacity.MB_PER_GB
