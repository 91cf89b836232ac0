# SPDX-License-Identifier: Apache-2.0
"""Hosts reserved for flavors. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from fleet.objects import Aggregate, RequestSpec
from scheduler.compute.domain import aggregate_metadata
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates


class TypeAffinityFilter(ColumnFilter):
    """Hosts pass that have no instance of another flavor. An empty host passes."""

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        wanted = request.flavor.id
        # Picks of this request are of the same flavor, and not looked at.
        mixed = [
            host
            for host, instances in hosts.instances_by_host().items()
            if any(instance.is_of_other_type(wanted) for instance in instances.values())
        ]
        return ~hosts.only(hosts.rows_of_hosts(mixed))


class AggregateTypeAffinityFilter(ColumnFilter):
    """Hosts pass whose aggregates name the flavor (``instance_type``, separated by commas), or no flavor."""

    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        def welcome(aggregates: Sequence[Aggregate]) -> bool:
            names = aggregate_metadata.split_values(aggregates, "instance_type")
            return not names or request.flavor.name in names

        return hosts.by_aggregates(welcome)
