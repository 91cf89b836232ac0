# SPDX-License-Identifier: Apache-2.0
"""Prefers pools with few gibibytes of volumes on them, or many. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

from scheduler.volumes.weights.base import ColumnWeigher


class AllocatedCapacityWeigher(ColumnWeigher):
    """GiB that volumes of this service hold: with the negative default of its multiplier, spreads volumes."""

    option = "allocated_capacity_weight_multiplier"
    column = "allocated_capacity_gb"
