# SPDX-License-Identifier: Apache-2.0
"""Pools must be in an availability zone that the request allows. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from typing import Self

import numpy
from oslo_config import cfg

from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.request import MIGRATE, VolumeRequest
from scheduler.volumes.filters.base import ColumnFilter


class AvailabilityZoneFilter(ColumnFilter):
    """Pools pass whose backend is in one of the request's zones, or else in the zone of the volume."""

    run_filter_once_per_request = True

    def __init__(self, migrate_across_zones: bool = True) -> None:
        self._migrate_across_zones = migrate_across_zones

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.volume.migrate_across_zones)

    def mask(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray | None:
        zone = request.properties.availability_zone
        if self._migrate_across_zones and request.operation == MIGRATE:
            zone = None
        allowed = set(request.zones) or ({zone} if zone else set())
        return hosts.by_shared("availability_zone", allowed.__contains__) if allowed else None

    def objection(self, hosts: Candidates, request: VolumeRequest) -> str:
        (zone,) = (hosts.shared(row, "availability_zone") for row in hosts.rows.tolist())
        return f"is in zone {zone}" if zone else "is in no zone"
