# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of :mod:`fleet.pool_capacity` over columns.

The ledger's claim uses the same rules, so a pool that passes here is refused there only if somebody else was faster.
"""

from __future__ import annotations

import math

import numpy

from fleet.pool_capacity import DEFAULT_RATIO
from scheduler.engine.candidates import Candidates


def ceiling(pools: Candidates, thin_request: bool) -> numpy.ndarray:
    """Return the GiB that all volumes of each pool may have together, for this kind of request."""
    thick = pools.column("thick_ceiling_gb")
    if not thin_request or pools.uniform("thin") == 0:
        return thick
    thin = pools.column("thin_ceiling_gb")
    if pools.uniform("automatic") != 0:
        thin = numpy.where(pools.column("automatic"), thick * ratios(pools), thin)
    return thin if pools.uniform("thin") == 1 else numpy.where(pools.column("thin"), thin, thick)


def virtual_free(pools: Candidates, thin_request: bool) -> numpy.ndarray:
    """Return the GiB that new volumes may have; infinite where nothing is limited. The result is not rounded."""
    free = ceiling(pools, thin_request) - pools.column("provisioned_capacity_gb")
    if not thin_request or pools.uniform("thin") == 0:
        free = numpy.minimum(free, pools.column("free_capacity_gb"))
    elif pools.uniform("thin") != 1:
        free = numpy.where(pools.column("thin"), free, numpy.minimum(free, pools.column("free_capacity_gb")))
    return free if pools.uniform("limited") == 1 else numpy.where(pools.column("limited"), free, math.inf)


def ratios(pools: Candidates) -> numpy.ndarray:
    """Return the over-subscription ratio that applies to thin volumes; 1 for pools that have none."""
    total, free = pools.column("total_capacity_gb"), pools.column("free_capacity_gb")
    provisioned = pools.column("provisioned_capacity_gb")
    counted = pools.column("thin") & numpy.isfinite(total) & numpy.isfinite(free)
    held = numpy.where(counted, total, 0) - numpy.where(counted, free, 0) + 1
    followed = (provisioned != 0) & (held != 0)
    automatic = numpy.where(followed, 1 + provisioned / numpy.where(followed, held, 1), DEFAULT_RATIO)
    return numpy.where(counted, numpy.where(pools.column("automatic"), automatic, pools.column("ratio")), 1.0)


def least_room(requested_gb: float) -> float:
    """Return the smallest number that counts as room for a request: capacities are rounded to two decimals."""
    least = requested_gb - 0.005
    while round(least, 2) < requested_gb:
        least = math.nextafter(least, math.inf)
    return least
