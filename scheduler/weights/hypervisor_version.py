# SPDX-License-Identifier: Apache-2.0
"""Prefers hosts with a newer hypervisor."""

from __future__ import annotations

from collections.abc import Hashable

import numpy

from fleet.objects import RequestSpec
from scheduler.candidates import Candidates
from scheduler.weights.base import ColumnWeigher


class HypervisorVersionWeigher(ColumnWeigher):
    """The hypervisor's version as nova's base-1000 integer, 0 if unknown: newer hosts fill first."""

    option = "hypervisor_version_weight_multiplier"

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return hosts.column("hypervisor_version")

    def recall_key(self, request: RequestSpec) -> Hashable:
        return ()
