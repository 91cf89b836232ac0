# SPDX-License-Identifier: Apache-2.0
"""Hosts on which this build has failed before are dropped. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import numpy

from fleet.objects import RequestSpec
from fleet.reasons import Reason
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates


class RetryFilter(ColumnFilter):
    """Hosts pass that this build has not tried. The exact host and node counts, not all nodes of the host."""

    reason = Reason.RACE_LOST

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        if request.retry is None or not request.retry.hosts:
            return None
        tried = [row for key in request.retry.hosts if (row := hosts.row_of((key[0], key[1]))) is not None]
        return ~hosts.only(tried)

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        return "has been tried in vain"
