# SPDX-License-Identifier: Apache-2.0
"""Limits the number of instances on a host. :mod:`scheduler.engine.filtering` calls it."""

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


class NumInstancesFilter(ColumnFilter):
    """Hosts pass with fewer instances than ``max_instances_per_host``."""

    reason = Reason.CAPACITY

    def __init__(self, max_instances_per_host: int = 50) -> None:
        self._most = max_instances_per_host

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.max_instances_per_host)

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return hosts.column("num_instances") < self._limit(hosts)

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> Shortfall:
        most = numpy.full(len(hosts), self._limit(hosts), dtype=float)
        return Shortfall("instances", "", 1, most, hosts.column("num_instances"), most)

    def _limit(self, hosts: Candidates) -> float | numpy.ndarray:
        return self._most


class AggregateNumInstancesFilter(NumInstancesFilter):
    """NumInstancesFilter with the number that aggregates set, if any (``max_instances_per_host``, the smallest)."""

    def _limit(self, hosts: Candidates) -> float | numpy.ndarray:
        return aggregate_overrides.number(hosts, "max_instances_per_host", self._most, int)
