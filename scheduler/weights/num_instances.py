# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts with many instances, or few."""

from __future__ import annotations

from collections.abc import Hashable

import numpy

from fleet.objects import RequestSpec
from scheduler.candidates import Candidates
from scheduler.weights.base import ColumnWeigher


class NumInstancesWeigher(ColumnWeigher):
    """The number of instances: off by default; positive packs them, negative spreads them."""

    option = "num_instances_weight_multiplier"

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return hosts.column("num_instances")

    def recall_key(self, request: RequestSpec) -> Hashable:
        return ()
