# SPDX-License-Identifier: Apache-2.0
"""The cell of a server is preferred for its move, where nova allows other cells.

:mod:`scheduler.nova.domain` adds its weigher.
"""

from __future__ import annotations

from typing import Self

import numpy
from oslo_config import cfg

from fleet.objects import RequestSpec
from scheduler.compute.weights.base import ColumnWeigher
from scheduler.engine.hosts.candidates import Candidates
from scheduler.nova.domain_columns import CELL
from scheduler.nova.request import NovaRequest


class CrossCellWeigher(ColumnWeigher):
    """1 for hosts in the cell that the request prefers, -1 for others. Other requests are left as they are."""

    cacheable = True
    option = "cross_cell_move_weight_multiplier"

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf.nova[cls.option] if "nova" in conf and cls.option in conf.nova else 0.0)

    def applies(self, request: RequestSpec) -> bool:
        return isinstance(request, NovaRequest) and bool(request.destination.cell) and request.destination.other_cells

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        assert isinstance(request, NovaRequest)
        return hosts.by_shared(CELL, lambda cell: 1.0 if cell == request.destination.cell else -1.0, float)
