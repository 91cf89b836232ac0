# SPDX-License-Identifier: Apache-2.0
"""Pools decide for themselves, by the equation that they report. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from typing import Self

import numpy
from oslo_config import cfg

from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.pool_equations import PoolEquations
from scheduler.volumes.domain.pool_state import reported
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.filters.base import ColumnFilter

KEY = "filter_function"


class DriverFilter(ColumnFilter):
    """Pools pass whose ``filter_function`` is true, or that report none. An equation that fails lets no volume pass."""

    #: Equations may read every property of the volume.
    cacheable = False

    def __init__(self, as_cinder: bool = False) -> None:
        self._as_cinder = as_cinder

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.volume.cinder_equations)

    def mask(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray:
        equations = PoolEquations(KEY, request, self._as_cinder)
        answers: numpy.ndarray = numpy.array(equations.each(hosts, any, absent=True, failed=False), dtype=bool)
        return answers

    def objection(self, hosts: Candidates, request: VolumeRequest) -> str:
        return f"refuses by its {KEY}, {self._text(hosts)!s:.80}"

    def _text(self, hosts: Candidates) -> object:
        (row,) = hosts.rows.tolist()
        return reported(hosts, row, KEY)
