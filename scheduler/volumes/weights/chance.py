# SPDX-License-Identifier: Apache-2.0
"""Prefers pools at random. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

import numpy

from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.weights.base import ColumnWeigher


class ChanceWeigher(ColumnWeigher):
    """A random number from 0 to 1. Alone, it makes each pool that passes the filters equally likely."""

    cacheable = False

    def __init__(self, multiplier: float = 1.0, chance: numpy.random.Generator | None = None) -> None:
        super().__init__(multiplier)
        self._chance = chance or numpy.random.default_rng()

    def raw(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray:
        return self._chance.random(len(hosts))
