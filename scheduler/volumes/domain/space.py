# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of :mod:`fleet.pool_capacity` over columns.

The ledger's claim uses the same rules, so a pool that passes here is refused there only if another scheduler was faster.
"""

from __future__ import annotations

import numpy

from fleet.pool_capacity import DEFAULT_RATIO
from scheduler.engine.hosts.candidates import Candidates


def room(pools: Candidates, thin_request: bool) -> numpy.ndarray:
    """Return the GiB that a new volume may have; infinite where nothing is limited."""
    if not thin_request:
        return pools.column("thick_room_gb")
    thin = pools.column("thin_room_gb")
    if pools.uniform("automatic") == 0:
        return thin
    followed = pools.column("automatic") & pools.column("thin") & pools.column("sized")
    automatic = _rounded(ceiling(pools, thin_request) - pools.column("provisioned_capacity_gb"))
    return numpy.where(followed, automatic, thin)


def ceiling(pools: Candidates, thin_request: bool) -> numpy.ndarray:
    """Return the GiB that all volumes of each pool may have together; 0 for pools that report no numbers."""
    total = numpy.where(pools.column("sized"), pools.column("total_capacity_gb"), 0.0)
    thick = total - numpy.floor(total * pools.column("reserved_percentage") / 100)
    found: numpy.ndarray = thick * ratios(pools) if thin_request else thick
    return found


def ratios(pools: Candidates) -> numpy.ndarray:
    """Return the over-subscription ratio that applies to thin volumes; 1 for pools that have none."""
    total, free = pools.column("total_capacity_gb"), pools.column("free_capacity_gb")
    provisioned = pools.column("provisioned_capacity_gb")
    counted = pools.column("thin") & pools.column("sized")
    used = numpy.where(counted, total, 0) - numpy.where(counted, free, 0)
    followed = (provisioned != 0) & (used > 0)
    automatic = numpy.where(followed, 1 + provisioned / (numpy.where(followed, used, 0) + 1), DEFAULT_RATIO)
    return numpy.where(counted, numpy.where(pools.column("automatic"), automatic, pools.column("ratio")), 1.0)


def _rounded(amounts: numpy.ndarray) -> numpy.ndarray:
    """Round to two decimals as :func:`round` does. numpy's own rounding differs for numbers such as 49.995."""
    found: numpy.ndarray = numpy.round(amounts, 2)
    halves = numpy.flatnonzero(numpy.abs(amounts * 100 % 1 - 0.5) < 1e-6)
    found[halves] = [round(amount, 2) for amount in amounts[halves].tolist()]
    return found
