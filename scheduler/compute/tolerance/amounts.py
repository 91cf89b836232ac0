# SPDX-License-Identifier: Apache-2.0
"""vcpus, memory and disk: what hosts have free, and what an instance takes.

Called by the modules beside it, and by the planning of moves and losses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy

from fleet import capacity
from fleet.objects import RequestSpec, request_parts
from scheduler.compute.filters import CoreFilter, DiskFilter, RamFilter
from scheduler.compute.filters.base import ColumnFilter
from scheduler.compute.tolerance.kept import Amount
from scheduler.engine import pipeline
from scheduler.engine.hosts.candidates import Candidates
from scheduler.planning.survival.room import UNLIMITED

#: The filters that limit vcpus, memory and disk by the numbers of the host; those with ratios of aggregates are of
#: these classes, too.
_LIMITING: tuple[type[CoreFilter | RamFilter | DiskFilter], ...] = (CoreFilter, RamFilter, DiskFilter)


def free(asked: pipeline.Pipeline, hosts: Candidates) -> numpy.ndarray:
    """Return the free amounts that the configured filters judge: vcpus, memory and disk in MB, UNLIMITED if none does."""
    found = numpy.full((len(hosts), len(_LIMITING)), UNLIMITED, dtype=numpy.int64)
    for number, kind in enumerate(_LIMITING):
        for each in asked.filters:
            if isinstance(each, kind):
                usable = numpy.floor(numpy.minimum(each.usable(hosts), UNLIMITED)).astype(numpy.int64)
                numpy.minimum(found[:, number], usable, out=found[:, number])
    return found


def without_amounts(asked: pipeline.Pipeline) -> pipeline.Pipeline:
    """Return the pipeline with filters that ask only whether an empty host would have the vcpus, memory and disk."""
    filters: list[Any] = [_Ever(each) if isinstance(each, _LIMITING) else each for each in asked.filters]
    return dataclasses.replace(asked, filters=filters)


class _Ever(ColumnFilter):
    judges = (request_parts.VCPUS, request_parts.MEMORY, request_parts.DISK)

    def __init__(self, whole: CoreFilter | RamFilter | DiskFilter) -> None:
        self._whole = whole

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return self._whole.ever(hosts, request)


def demand_of(request: RequestSpec) -> Amount:
    """Return the demand of one instance: vcpus, memory and disk in MB."""
    disk_mb = capacity.claimed_disk_gb(request.root_gb, request.ephemeral_gb) * capacity.MB_PER_GB
    return int(request.vcpus), int(request.memory_mb), int(disk_mb)


def demand_of_amounts(numbers: Mapping[str, float]) -> Amount:
    """Return the demand in the columns that a booking changes; see :func:`demand_of`."""
    used, ram_mb, disk_mb = (numbers.get(name, 0) for name in ("vcpus_used", "free_ram_mb", "free_disk_mb"))
    return int(used), -int(ram_mb), -int(disk_mb)


def plus(one: Amount, other: Amount) -> Amount:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def times(number: int, one: Amount) -> Amount:
    return number * one[0], number * one[1], number * one[2]


def minus(one: Amount, other: Amount) -> Amount:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2]
