# SPDX-License-Identifier: Apache-2.0
"""Pools on which this volume has failed before are dropped. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import numpy

from fleet.reasons import Reason
from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.pool_state import key_of
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.filters.base import ColumnFilter


class IgnoreAttemptedHostsFilter(ColumnFilter):
    """Pools pass that this request has not tried. Other pools of the same backend pass."""

    reason = Reason.RACE_LOST

    def mask(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray | None:
        if request.retry is None or not request.retry.tried:
            return None
        rows = [hosts.row_of(key_of(name)) for name in request.retry.tried]
        return ~hosts.only(row for row in rows if row is not None)

    def objection(self, hosts: Candidates, request: VolumeRequest) -> str:
        return "has been tried in vain"
