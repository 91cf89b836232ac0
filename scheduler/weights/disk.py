# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts with much free disk, or little."""

from __future__ import annotations

from collections.abc import Hashable

import numpy

from fleet.objects import RequestSpec
from scheduler.candidates import Candidates
from scheduler.weights.base import ColumnWeigher


class DiskWeigher(ColumnWeigher):
    """Free disk: spreads instances; with a negative multiplier, stacks them."""

    minval = 0
    option = "disk_weight_multiplier"

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return hosts.column("free_disk_mb")

    def recall_key(self, request: RequestSpec) -> Hashable:
        return ()
