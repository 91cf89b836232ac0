# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts that are not busy building. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

from scheduler.compute.weights.base import ColumnWeigher


class IoOpsWeigher(ColumnWeigher):
    """Builds and other heavy operations under way: by default (multiplier -1) the quiet host wins."""

    minval = 0
    outranks_share = False
    option = "io_ops_weight_multiplier"
    column = "num_io_ops"
