# SPDX-License-Identifier: Apache-2.0
"""No objection to any host. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from fleet.objects import RequestSpec
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates


class AllHostsFilter(ColumnFilter):
    """Every host passes."""

    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> None:
        return None
