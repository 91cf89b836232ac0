# SPDX-License-Identifier: Apache-2.0
"""Bridges of the networks that the instance is plugged into. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import numpy

from fleet.objects import RequestSpec, request_parts
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates


class BridgeFilter(ColumnFilter):
    """Hosts pass that report the bridges of all networks of the instance, or that report no bridges at all."""

    judges = (request_parts.NETWORKS,)
    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        wanted = frozenset(request.instance.bridges or ())
        if not wanted:
            return None
        return hosts.by_shared("bridges", lambda there: not there or wanted <= there)

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        (there,) = (hosts.shared(row, "bridges") for row in hosts.rows.tolist())
        missing = ", ".join(sorted({*(request.instance.bridges or ())} - there))
        return f"has no bridge {missing}; it has {', '.join(sorted(there - {''})) or 'none'}"
