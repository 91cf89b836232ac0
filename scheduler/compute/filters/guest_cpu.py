# SPDX-License-Identifier: Apache-2.0
"""The processor that a guest sees which moves while it runs. Called by :mod:`scheduler.compute.filters`."""

from __future__ import annotations

import numpy

from fleet.objects import RequestSpec, request_parts
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates


class GuestCpuFilter(ColumnFilter):
    """Hosts pass that have all processor features of a guest that moves while it runs. Other requests are not judged."""

    judges = (request_parts.GUEST_CPU,)
    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        guest = request.guest_cpu
        if guest is None:
            return None
        return hosts.by_shared("capabilities", lambda there: not guest.missing_in(there.cpu_info))

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        assert request.guest_cpu is not None, "a request without a running guest passes"
        (there,) = (hosts.shared(row, "capabilities") for row in hosts.rows.tolist())
        return f"{request.guest_cpu.lacks(there.cpu_info)} of the processor that the running guest sees"
