# SPDX-License-Identifier: Apache-2.0
"""Avoids hosts on which builds have failed. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

import numpy

from scheduler.compute.weights.base import ColumnWeigher
from scheduler.engine.hosts.candidates import Candidates


class BuildFailureWeigher(ColumnWeigher):
    """The number of builds that failed on the host since the last success. The option sets their weight against it."""

    option = "build_failure_weight_multiplier"
    column = "failed_builds"

    def multiplier(self, hosts: Candidates) -> float | numpy.ndarray:
        return -super().multiplier(hosts)
