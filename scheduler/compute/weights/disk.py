# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts with much free disk, or little. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

from scheduler.compute.weights.base import ColumnWeigher


class DiskWeigher(ColumnWeigher):
    """Free disk: spreads instances; with a negative multiplier, stacks them."""

    minval = 0
    outranks_share = False
    option = "disk_weight_multiplier"
    column = "free_disk_mb"
