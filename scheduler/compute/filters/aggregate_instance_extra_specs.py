# SPDX-License-Identifier: Apache-2.0
"""The metadata of the host's aggregates must meet the flavor's extra specs.

:mod:`scheduler.engine.filtering` calls it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from fleet.objects import Aggregate, RequestSpec, request_parts
from scheduler.compute.domain import aggregate_metadata
from scheduler.compute.filters import extra_specs_ops
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates

SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(ColumnFilter):
    """Hosts pass whose aggregates' metadata meets every extra spec without scope, or with the scope of that name."""

    judges = (request_parts.EXTRA_SPECS[""], request_parts.EXTRA_SPECS[SCOPE])
    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        tests = _tests(request)
        if not tests:
            return None

        def meets(aggregates: Sequence[Aggregate]) -> bool:
            metadata = aggregate_metadata.all_values(aggregates)
            return all(any(map(test, metadata.get(key, ()))) for key, test in tests)

        return hosts.by_aggregates(meets)


def _tests(request: RequestSpec) -> list[tuple[str, extra_specs_ops.Test]]:
    found = []
    for key, wanted in request.flavor.extra_specs.items():
        scope, colon, name = key.partition(":")
        if not colon or scope == SCOPE:
            found.append((name if colon else key, extra_specs_ops.of_request(key, wanted)))
    return found
