# SPDX-License-Identifier: Apache-2.0
"""Avoids hosts on which builds have failed. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

import numpy

from scheduler.compute.weights.base import ColumnWeigher
from scheduler.engine.hosts.candidates import Candidates


class BuildFailureWeigher(ColumnWeigher):
    """Builds that failed there since the last success; they count against a host, by as much as the option says."""

    option = "build_failure_weight_multiplier"
    column = "failed_builds"

    def multiplier(self, hosts: Candidates) -> float | numpy.ndarray:
        return -super().multiplier(hosts)
