# SPDX-License-Identifier: Apache-2.0
"""Builders of pools and requests with defaults for all that a test is not about."""

from __future__ import annotations

import dataclasses
import datetime
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.engine.decide import decide
from scheduler.engine.decision import Decision
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.pipeline import Pipeline, prepare
from scheduler.state.host_cache import HostCache
from scheduler.volumes import filters, weights
from scheduler.volumes.domain.domain import POOLS
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.why import refusal
from tests import factories
from tests.factories import NOW, NOW_S, Service, uuid


@dataclasses.dataclass(frozen=True)
class Pool:
    """A row of ``storage_pools``: 500 GiB, 100 of them free; 400 are provisioned."""

    host: str = "m1@lvm"
    pool: str = "p1"
    id: int = 1
    availability_zone: str | None = None
    volume_backend_name: str | None = None
    total_capacity_gb: float | None = 500.0
    free_capacity_gb: float | None = 100.0
    allocated_capacity_gb: int = 400
    provisioned_capacity_gb: float = 400.0
    reserved_percentage: int = 0
    max_over_subscription_ratio: str | None = None
    thin_provisioning_support: bool = False
    thick_provisioning_support: bool = True
    total_volumes: int = 0
    report: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    updated_at: datetime.datetime | None = NOW
    deleted: bool = False

    @property
    def hypervisor_hostname(self) -> str:
        """The name under which the feed gives the pool."""
        return self.pool

    @property
    def capabilities(self) -> str:
        return json.dumps(dict(self.report))

    @property
    def name(self) -> str:
        return f"{self.host}#{self.pool}"


@dataclasses.dataclass(frozen=True)
class Volume:
    """A row of ``volumes``, as the feed has it."""

    uuid: str = uuid(1)
    host: str | None = "m1@lvm"
    pool: str | None = "p1"
    project_id: str | None = "project"
    status: str = "available"
    deleted: bool = False


def cache(
    pools: Sequence[Pool], volumes: Sequence[Volume] = (), services: Sequence[Service] | None = None
) -> HostCache:
    """A cache that has seen these pools; a live service for every backend, unless services are given."""
    made = HostCache(POOLS)
    made.apply(factories.changes(pools, services=services, instances=volumes))  # type: ignore[arg-type]
    return made


def candidates(*pools: Pool, **rest: Any) -> Candidates:
    return cache(pools, **rest).candidates(NOW_S)


def request(size: int = 1, type_: Mapping[str, Any] | None = None, **more: Any) -> VolumeRequest:
    """A new volume; ``more`` are keys of its properties, of the spec, or of the filter properties."""
    spec: dict[str, Any] = {"volume_id": uuid(1000), "volume_type": type_}
    properties: dict[str, Any] = {"size": size, "project_id": "project"}
    filter_properties: dict[str, Any] = {}
    for name, value in more.items():
        if name in ("resource_backend", "availability_zones", "operation"):
            spec[name] = value
        elif name in ("scheduler_hints", "retry", "new_size", "vol_exists_on", "ignore_hosts"):
            filter_properties[name] = value
        else:
            properties[name] = value
    return VolumeRequest.from_wire({**spec, "volume_properties": properties}, filter_properties)


def typed(**extra_specs: str | None) -> dict[str, Any]:
    """A volume type; in the names of extra specs two underscores stand for a colon."""
    return {"name": "fast", "extra_specs": {name.replace("__", ":"): value for name, value in extra_specs.items()}}


def passed(each: filters.ColumnFilter, pools: Candidates, asked: VolumeRequest) -> set[str]:
    """Names of the pools that a filter lets through."""
    mask = each.mask(pools, asked)
    kept = pools.present() if mask is None else pools.present() & mask
    return {"#".join(pools.key(row)) for row in pools.rows[kept].tolist()}


def pipeline(chosen: Sequence[Any] = (), weighers: Sequence[Any] | None = None, **options: Any) -> Pipeline:
    """The default filters and weighers, unless others are given."""
    every = chosen or [filters.CapacityFilter(), filters.CapabilitiesFilter()]
    rated = [weights.CapacityWeigher()] if weighers is None else weighers
    return Pipeline(POOLS, every, rated, refusal.explain, **options)


def decided(made: Pipeline, pools: Candidates, asked: VolumeRequest, seed: int = 1, **options: Any) -> Decision:
    return decide(made, prepare(made, asked), pools, random.Random(seed), **options)
