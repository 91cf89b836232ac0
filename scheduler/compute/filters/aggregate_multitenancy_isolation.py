# SPDX-License-Identifier: Apache-2.0
"""Hosts reserved for tenants. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from fleet.objects import Aggregate, RequestSpec
from scheduler.compute.domain import aggregate_metadata
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates

#: Every key that begins so counts: one value holds 255 characters only.
PREFIX = "filter_tenant_id"


class AggregateMultiTenancyIsolation(ColumnFilter):
    """Hosts pass whose aggregates name the tenant, or name no tenant."""

    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        def welcome(aggregates: Sequence[Aggregate]) -> bool:
            metadata = aggregate_metadata.all_values(aggregates)
            tenants = [values for key, values in metadata.items() if key.startswith(PREFIX)]
            return not tenants or any(request.instance.project_id in values for values in tenants)

        return hosts.by_aggregates(welcome)
