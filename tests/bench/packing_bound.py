# SPDX-License-Identifier: Apache-2.0
"""The core-hours that could be placed at all: a linear program over time.

Its fleet is one host with the cores and memory of all hosts, it knows every request beforehand, and it may place a part of
an instance. So no scheduler can place more.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence

import numpy
from scipy import optimize, sparse

from fleet.objects.whatif import Demand


def core_hours(demands: Sequence[Demand], cores: float, memory_mb: float) -> float:
    """Return the most core-hours until the last request, on a fleet with this many cores and so much memory."""
    last_s = max(demand.at_s for demand in demands)
    groups: collections.Counter[tuple[float, float, int, int]] = collections.Counter()
    for demand in demands:
        flavor = demand.request_spec["instance_type"]
        for life_s in demand.lifetimes_s:
            end_s = math.inf if life_s is None else demand.at_s + life_s
            groups[demand.at_s, min(end_s, last_s), flavor["vcpus"], flavor["memory_mb"]] += 1
    starts, ends, vcpus, sizes = (numpy.array(each, dtype=float) for each in zip(*groups, strict=True))
    # What is used only grows when a request arrives. What ends at the same moment has left by then.
    moments = numpy.unique(starts)
    used = (starts <= moments[:, None]) & ((ends > moments[:, None]) | (ends == last_s))
    limits = sparse.vstack([sparse.csr_array(used * vcpus), sparse.csr_array(used * sizes)])
    found = optimize.linprog(
        -vcpus * (ends - starts),
        A_ub=limits,
        b_ub=[cores] * len(moments) + [memory_mb] * len(moments),
        bounds=[(0, count) for count in groups.values()],
    )
    assert found.success, found.message
    return float(-found.fun / 3600)
