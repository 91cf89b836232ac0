# SPDX-License-Identifier: Apache-2.0
"""The filters that always run first for nova: what the request says of hosts, beyond what any filter of nova judges.

Called by :mod:`scheduler.nova.domain` and :mod:`scheduler.nova.rebuild`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy

from fleet.objects import Aggregate, RequestSpec
from scheduler.compute.filters.availability_zone import AvailabilityZoneFilter
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates
from scheduler.nova.domain_columns import CELL, CELL_DISABLED, NODE_UUID
from scheduler.nova.request import Destination, NovaRequest


class RequestedDestinationFilter(ColumnFilter):
    """Hosts pass that are in the request's cell and aggregates, have its host and node name, and its traits.

    Without a cell, and outside the one that is named, hosts of disabled cells do not pass.
    """

    run_filter_once_per_request = True
    run_on_forced = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        if not isinstance(request, NovaRequest) or not request.is_restricted:
            # Never None: that would hold for later requests, and a cell may be disabled before them.
            return ~hosts.column(CELL_DISABLED)
        wanted = request.destination
        mask = self._of_usable_cells(hosts, wanted)
        if wanted.cell and not wanted.other_cells:
            mask &= hosts.by_shared(CELL, lambda cell: cell == wanted.cell)
        if wanted.host:
            mask &= hosts.only(hosts.rows_of_hosts([wanted.host]))
        if wanted.node:
            mask &= hosts.only(hosts.rows_of_nodes([wanted.node]))
        if wanted.aggregates or wanted.forbidden_aggregates:
            mask &= hosts.by_aggregates(lambda aggregates: _are_allowed(wanted, aggregates))
        for providers in (request.providers, request.offered):
            if providers is not None:
                mask &= self._among(hosts, providers)
        return mask

    @staticmethod
    def _of_usable_cells(hosts: Candidates, wanted: Destination) -> numpy.ndarray:
        mask: numpy.ndarray = ~hosts.column(CELL_DISABLED)
        return mask | hosts.by_shared(CELL, lambda cell: cell == wanted.cell) if wanted.cell else mask

    @staticmethod
    def _among(hosts: Candidates, providers: Container[str]) -> numpy.ndarray:
        return numpy.array([uuid in providers for uuid in hosts.column(NODE_UUID).tolist()], dtype=bool)

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        wanted = request.destination if isinstance(request, NovaRequest) else Destination()
        if not self._of_usable_cells(hosts, wanted)[0]:
            return "is in a cell that is disabled"
        assert isinstance(request, NovaRequest)
        if request.offered is not None and not self._among(hosts, request.offered)[0]:
            return "is not among the allocation candidates of placement"
        if request.providers is not None and not self._among(hosts, request.providers)[0]:
            named = [*sorted(request.required_traits), *(f"not {name}" for name in sorted(request.forbidden_traits))]
            return f"has not the traits {', '.join(named)}"
        return "is not the host, or not in the cell or an aggregate, that the request names"


class RequestedZoneFilter(AvailabilityZoneFilter):
    """Hosts pass that are in the requested zone, forced ones as well: with nova, placement judges zones."""

    run_on_forced = True


def _are_allowed(wanted: Destination, aggregates: Sequence[Aggregate]) -> bool:
    known = {each.uuid for each in aggregates}
    return all(known & allowed for allowed in wanted.aggregates) and not known & wanted.forbidden_aggregates
