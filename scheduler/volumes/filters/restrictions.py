# SPDX-License-Identifier: Apache-2.0
"""Filters that always run, before those of the configuration.

:mod:`scheduler.volumes.drivers.loading` puts them first.
"""

from __future__ import annotations

import numpy

from scheduler.compute.filters.compute import ComputeFilter
from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.pool_state import key_of
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.filters.base import ColumnFilter


class BackendUpFilter(ComputeFilter):
    """Pools pass whose backend is enabled, and has sent a heartbeat within ``service_down_time``."""


class WantedBackendFilter(ColumnFilter):
    """Pools pass that the request is restricted to: one pool, or all pools of one backend."""

    def mask(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray | None:
        if request.backend is None:
            return None
        host, pool = key_of(request.backend)
        if not pool:
            return hosts.only(hosts.rows_of_hosts([host]))
        row = hosts.row_of((host, pool))
        return hosts.only(() if row is None else [row])

    def objection(self, hosts: Candidates, request: VolumeRequest) -> str:
        return f"is not {request.backend}, which the request names"
