# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts with much free memory, or little. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

from scheduler.compute.weights.base import ColumnWeigher


class RAMWeigher(ColumnWeigher):
    """Free memory: spreads instances; with a negative multiplier, stacks them."""

    minval = 0
    outranks_share = False
    option = "ram_weight_multiplier"
    column = "free_ram_mb"
