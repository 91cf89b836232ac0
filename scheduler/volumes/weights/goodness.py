# SPDX-License-Identifier: Apache-2.0
"""Pools rate themselves, by the equation that they report. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy
from oslo_config import cfg

from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.equation import EquationError
from scheduler.volumes.domain.pool_equations import PoolEquations
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.weights.base import ColumnWeigher

KEY = "goodness_function"
MOST = 100


class GoodnessWeigher(ColumnWeigher):
    """The value of ``goodness_function``, 0 to 100. A pool without one, or with an equation that fails, has 0."""

    #: Equations may read every property of the volume.
    cacheable = False

    def __init__(self, as_cinder: bool = False) -> None:
        super().__init__()
        self._as_cinder = as_cinder

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.volume.cinder_equations)

    def raw(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray:
        equations = PoolEquations(KEY, request, self._as_cinder)
        rated: numpy.ndarray = numpy.array(equations.each(hosts, _best, absent=0.0, failed=0.0), dtype=float)
        return rated


def _best(values: Sequence[object]) -> float:
    return max(map(_rating, values))


def _rating(value: object) -> float:
    """:raises EquationError: it is no number from 0 to 100"""
    if isinstance(value, bool):
        return float(MOST * value)
    if not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise EquationError(f"the result must be a number from 0 to {MOST}, got {value!r:.40}")
    return float(value)
