# SPDX-License-Identifier: Apache-2.0
"""Prefers pools with few volumes, or many. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

from scheduler.volumes.weights.base import ColumnWeigher


class VolumeNumberWeigher(ColumnWeigher):
    """Number of volumes: with the negative default of its multiplier, spreads volumes."""

    option = "volume_number_multiplier"
    column = "total_volumes"
