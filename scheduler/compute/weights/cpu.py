# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts with many free virtual CPUs, or few. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

import numpy

from fleet import capacity
from fleet.objects import RequestSpec
from scheduler.compute.weights.base import ColumnWeigher
from scheduler.engine.hosts.candidates import Candidates


class CPUWeigher(ColumnWeigher):
    """Free vcpus, overcommit included: spreads instances; with a negative multiplier, stacks them."""

    minval = 0
    outranks_share = False
    option = "cpu_weight_multiplier"

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return capacity.usable(hosts.column("vcpu_limit"), hosts.column("vcpus_used"))
