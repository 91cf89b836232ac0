# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts with many instances, or few. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

from scheduler.compute.weights.base import ColumnWeigher


class NumInstancesWeigher(ColumnWeigher):
    """The number of instances: off by default; positive packs them, negative spreads them."""

    outranks_share = False
    option = "num_instances_weight_multiplier"
    column = "num_instances"
