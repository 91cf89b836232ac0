# SPDX-License-Identifier: Apache-2.0
"""Hosts must be in the requested availability zone. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy
from oslo_config import cfg

from fleet.objects import Aggregate, RequestSpec, request_parts
from scheduler.compute.domain import aggregate_metadata
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates


class AvailabilityZoneFilter(ColumnFilter):
    """Hosts pass whose aggregates name the zone. A host without a zone is in ``default_availability_zone``."""

    judges = (request_parts.ZONE,)
    run_filter_once_per_request = True

    def __init__(self, default_zone: str = "nova") -> None:
        self._default_zone = default_zone

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.default_availability_zone)

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        wanted = request.instance.availability_zone
        if not wanted:
            return None

        return hosts.by_aggregates(lambda aggregates: wanted in self._zones(aggregates))

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        (zones,) = (self._zones(hosts.state(row).aggregates) for row in hosts.rows.tolist())
        return f"is in zone {', '.join(sorted(zones))}"

    def _zones(self, aggregates: Sequence[Aggregate]) -> set[str]:
        return aggregate_metadata.split_values(aggregates, "availability_zone") or {self._default_zone}
