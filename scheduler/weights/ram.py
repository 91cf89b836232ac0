# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts with much free memory, or little."""

from __future__ import annotations

from collections.abc import Hashable

import numpy

from fleet.objects import RequestSpec
from scheduler.candidates import Candidates
from scheduler.weights.base import ColumnWeigher


class RAMWeigher(ColumnWeigher):
    """Free memory: spreads instances; with a negative multiplier, stacks them."""

    minval = 0
    option = "ram_weight_multiplier"

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return hosts.column("free_ram_mb")

    def recall_key(self, request: RequestSpec) -> Hashable:
        return ()
