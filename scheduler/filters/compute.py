# SPDX-License-Identifier: Apache-2.0
"""Only hosts whose service is enabled and alive."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Self

import numpy
from oslo_config import cfg

from fleet.objects import RequestSpec
from fleet.reasons import Reason
from scheduler.engine.candidates import Candidates
from scheduler.filters.base import ColumnFilter


def is_up(hosts: Candidates, service_down_time_s: float) -> numpy.ndarray:
    """Hosts heard from recently. A heartbeat too far in the future is a wrong clock, and no sign of life either."""
    silence = numpy.abs(hosts.column("last_seen_up") - hosts.now)
    return (silence <= service_down_time_s) & ~hosts.column("forced_down")


def steady_until(hosts: Candidates, service_down_time_s: float) -> float:
    """The moment at which time alone may change what :func:`is_up` says of any of them."""
    seen = hosts.column("last_seen_up")
    turns = numpy.concatenate((seen - service_down_time_s, seen + service_down_time_s))
    return float(turns.min(where=turns >= hosts.now, initial=numpy.inf))


class ComputeFilter(ColumnFilter):
    """Hosts pass that are not disabled, not forced down, and were heard from within ``service_down_time``."""

    run_filter_once_per_request = True
    reason = Reason.HOSTS_DOWN

    def __init__(self, service_down_time_s: float = 60) -> None:
        self._service_down_time_s = service_down_time_s

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.service_down_time)

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return is_up(hosts, self._service_down_time_s) & ~hosts.column("disabled")

    def recall_key(self, request: RequestSpec) -> Hashable:
        return ()

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        if hosts.column("forced_down")[0]:
            return "is forced down"
        if hosts.column("disabled")[0]:
            return "is disabled"
        last_seen_up = float(hosts.column("last_seen_up")[0])
        return f"was last heard from {hosts.now - last_seen_up:.0f} s ago" if last_seen_up else "was never heard from"
