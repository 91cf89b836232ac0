# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts with a newer hypervisor. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

from scheduler.compute.weights.base import ColumnWeigher


class HypervisorVersionWeigher(ColumnWeigher):
    """The hypervisor's version as nova's base-1000 integer, 0 if unknown: newer hosts fill first."""

    option = "hypervisor_version_weight_multiplier"
    column = "hypervisor_version"
