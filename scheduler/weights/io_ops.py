# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts that are not busy building."""

from __future__ import annotations

from collections.abc import Hashable

import numpy

from fleet.objects import RequestSpec
from scheduler.candidates import Candidates
from scheduler.weights.base import ColumnWeigher


class IoOpsWeigher(ColumnWeigher):
    """Builds and other heavy operations under way: by default (multiplier -1) the quiet host wins."""

    minval = 0
    option = "io_ops_weight_multiplier"

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return hosts.column("num_io_ops")

    def recall_key(self, request: RequestSpec) -> Hashable:
        return ()
