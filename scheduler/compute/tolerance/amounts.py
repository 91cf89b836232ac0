# SPDX-License-Identifier: Apache-2.0
"""vcpus, memory and disk: what hosts have free, and what an instance takes.

Called by the modules beside it, and by the planning of moves and losses.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy

from fleet import capacity
from fleet.objects import RequestSpec
from scheduler.compute.filters import CoreFilter, DiskFilter, RamFilter
from scheduler.compute.tolerance.kept import Amount
from scheduler.engine import pipeline
from scheduler.engine.hosts.candidates import Candidates
from scheduler.planning.survival.room import UNLIMITED

#: The filters that limit vcpus, memory and disk by the numbers of the host alone.
_LIMITING = (CoreFilter, RamFilter, DiskFilter)


def limited(asked: pipeline.Pipeline) -> list[bool]:
    """Return whether a configured filter judges vcpus, memory and disk."""
    configured = {type(each) for each in asked.filters}
    return [filter_ in configured for filter_ in _LIMITING]


def free(asked: pipeline.Pipeline, hosts: Candidates) -> numpy.ndarray:
    """Return the free amounts that the configured filters judge."""
    columns = (
        capacity.usable(hosts.column("vcpu_limit"), hosts.column("vcpus_used")),
        hosts.column("free_ram_mb") + hosts.column("ram_headroom_mb"),
        hosts.column("free_disk_mb") + hosts.column("disk_headroom_mb"),
    )
    amounts = [
        numpy.floor(column).astype(numpy.int64) if judged else numpy.full(len(hosts), UNLIMITED)
        for column, judged in zip(columns, limited(asked), strict=True)
    ]
    return numpy.stack(amounts, axis=1)


def demand_of(request: RequestSpec) -> Amount:
    """Return the demand of one instance: vcpus, memory and disk in MB."""
    disk_mb = capacity.claimed_disk_gb(request.root_gb, request.ephemeral_gb) * capacity.MB_PER_GB
    return int(request.vcpus), int(request.memory_mb), int(disk_mb)


def demand_of_amounts(numbers: Mapping[str, float]) -> Amount:
    """Return the demand in the columns that a booking changes; see :func:`demand_of`."""
    used, ram_mb, disk_mb = (numbers.get(name, 0) for name in ("vcpus_used", "free_ram_mb", "free_disk_mb"))
    return int(used), -int(ram_mb), -int(disk_mb)
