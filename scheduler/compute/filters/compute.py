# SPDX-License-Identifier: Apache-2.0
"""The service of the host must be enabled and alive. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from typing import Self

import numpy
from oslo_config import cfg

from fleet.objects import RequestSpec
from fleet.reasons import Reason
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates
from scheduler.state.liveness import is_up


class ComputeFilter(ColumnFilter):
    """Hosts pass that are not disabled, not forced down, and sent a heartbeat within ``service_down_time``."""

    run_filter_once_per_request = True
    reason = Reason.HOSTS_DOWN

    def __init__(self, service_down_time_s: float = 60) -> None:
        self._service_down_time_s = service_down_time_s

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.service_down_time)

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return is_up(hosts, self._service_down_time_s) & ~hosts.column("disabled")

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        if hosts.column("forced_down")[0]:
            return "is forced down"
        if hosts.column("disabled")[0]:
            return "is disabled"
        last_seen_up = float(hosts.column("last_seen_up")[0])
        return f"was last heard from {hosts.now - last_seen_up:.0f} s ago" if last_seen_up else "was never heard from"
