# SPDX-License-Identifier: Apache-2.0
"""Prefers pools with much free space, or little. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

import numpy

from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain import space
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.weights.base import ColumnWeigher

#: How far a pool without a known size lies behind the others, where small pools are preferred: this often their span, or
#: this many GiB if they are equal.
_SPANS, _GB = 100, 10_000


class CapacityWeigher(ColumnWeigher):
    """Free space: spreads volumes; with a negative multiplier, stacks them. Pools of infinite or unknown size come last."""

    option = "capacity_weight_multiplier"

    def __init__(self, multiplier: float = 1.0) -> None:
        super().__init__(multiplier)
        # What pools of unknown size get then depends on all others.
        self.depends_on_picks = multiplier <= 0

    def raw(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray:
        free = space.room(hosts, request.thin)
        if hosts.uniform("sized") == 1:
            return free
        sized = hosts.column("sized")
        return numpy.where(sized, free, -1.0 if self._multiplier > 0 else _behind(free[sized]))


def _behind(known: numpy.ndarray) -> float:
    """Return a weight that comes last for a negative multiplier."""
    if not len(known):
        return 0.0
    most, span = float(known.max()), float(known.max() - known.min())
    return most + (_SPANS * span or _GB)
