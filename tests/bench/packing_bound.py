# SPDX-License-Identifier: Apache-2.0
"""Bounds of what can be placed, and of how many hosts can be empty. No scheduler does better.

The core-hours are a linear program over time. Its fleet has one host for each shape of hosts, with the cores and memory of
all hosts of this shape; it knows every request beforehand, and may place a part of an instance. One host for all shapes
would be a looser bound: memory of one shape would serve the cores of another.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence

import numpy
from scipy import optimize, sparse

from fleet.objects.whatif import Demand

#: Cores and memory in MB of all hosts of one shape.
Shape = tuple[float, float]


def core_hours(demands: Sequence[Demand], shapes: Sequence[Shape]) -> float:
    """Return the most core-hours until the last request."""
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
    of_shape = sparse.vstack([sparse.csr_array(used * vcpus), sparse.csr_array(used * sizes)])
    # What each shape takes of a group; all shapes together take no more than there is.
    limits = sparse.vstack(
        [sparse.block_diag([of_shape] * len(shapes)), sparse.hstack([sparse.eye_array(len(starts))] * len(shapes))]
    )
    amounts = [amount for cores, memory_mb in shapes for amount in (cores, memory_mb) for _moment in moments]
    found = optimize.linprog(
        numpy.tile(-vcpus * (ends - starts), len(shapes)), A_ub=limits, b_ub=[*amounts, *groups.values()]
    )
    assert found.success, found.message
    return float(-found.fun / 3600)


def empty_hosts(demands: Sequence[Demand], hosts: Sequence[tuple[int, int]]) -> float:
    """Return the most hosts that can be empty on average until the last request, if every instance is placed.

    :param hosts: cores and memory in MB of each. What is used needs at least as many hosts as have so much together
    """
    changes: list[tuple[float, int, int]] = []
    for demand in demands:
        flavor = demand.request_spec["instance_type"]
        for life_s in demand.lifetimes_s:
            changes.append((demand.at_s, flavor["vcpus"], flavor["memory_mb"]))
            if life_s is not None:
                changes.append((demand.at_s + life_s, -flavor["vcpus"], -flavor["memory_mb"]))
    changes.sort()
    times = numpy.array([each[0] for each in changes])
    most = [numpy.cumsum(sorted((each[kind] for each in hosts), reverse=True)) for kind in (0, 1)]
    used = [numpy.cumsum([each[kind + 1] for each in changes]) for kind in (0, 1)]
    needed = numpy.maximum(*(numpy.searchsorted(most[kind], used[kind]) + (used[kind] > 0) for kind in (0, 1)))
    last_s = max(demand.at_s for demand in demands)
    lasts = numpy.diff(numpy.append(numpy.minimum(times, last_s), last_s))
    total = float(lasts.sum())
    return len(hosts) - float((needed * lasts).sum()) / total if total else float(len(hosts))
