# SPDX-License-Identifier: Apache-2.0
"""Limits the builds and other heavy operations on a host. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from typing import Self

import numpy
from oslo_config import cfg

from fleet.objects import RequestSpec
from fleet.reasons import Reason
from scheduler.compute.domain import aggregate_overrides
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates
from scheduler.why.shortfall import Shortfall


class IoOpsFilter(ColumnFilter):
    """Hosts pass with fewer operations under way than ``max_io_ops_per_host``."""

    reason = Reason.CAPACITY

    def __init__(self, max_io_ops_per_host: int = 8) -> None:
        self._most = max_io_ops_per_host

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.max_io_ops_per_host)

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return hosts.column("num_io_ops") < self._limit(hosts)

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> Shortfall:
        most = numpy.full(len(hosts), self._limit(hosts), dtype=float)
        return Shortfall("operations under way", "", 1, most, hosts.column("num_io_ops"), most)

    def _limit(self, hosts: Candidates) -> float | numpy.ndarray:
        return self._most


class AggregateIoOpsFilter(IoOpsFilter):
    """IoOpsFilter with the number that the host's aggregates set, if any (``max_io_ops_per_host``, the smallest)."""

    def _limit(self, hosts: Candidates) -> float | numpy.ndarray:
        return aggregate_overrides.number(hosts, "max_io_ops_per_host", self._most, int)
