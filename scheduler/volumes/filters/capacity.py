# SPDX-License-Identifier: Apache-2.0
"""Enough space, over-subscribed as the pool allows. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import dataclasses

import numpy

from fleet.json_codec import JSONObject
from fleet.reasons import Reason
from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain import space
from scheduler.volumes.domain.columns import NO_ROOM
from scheduler.volumes.domain.pool_state import key_of
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.filters.base import ColumnFilter
from scheduler.why.shortfall import Shortfall, described, plain


class CapacityFilter(ColumnFilter):
    """Pools pass with room for the volume, or for what it grows by. The pool that has the volume already passes:
    the claim decides whether it may become thick there.
    """

    reason = Reason.CAPACITY

    def mask(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray | None:
        requested = request.requested_gb
        if requested <= 0:
            return None
        mask: numpy.ndarray = space.room(hosts, request.thin) >= requested
        if request.thin and hosts.uniform("automatic") != 0:
            # Below 1 if a pool reports more free space than it has in all: as in the claim, it takes no thin volume.
            mask &= space.ratios(hosts) >= 1
        row = hosts.row_of(key_of(request.exists_on)) if request.exists_on and request.new_size_gb is None else None
        return mask if row is None else mask | hosts.only([row])

    def shortfall(self, hosts: Candidates, request: VolumeRequest) -> Shortfall:
        sized, room = hosts.column("sized"), space.room(hosts, request.thin)
        free = numpy.where(room > NO_ROOM / 2, room, 0.0)
        limit = numpy.where(numpy.isinf(room), numpy.inf, numpy.round(space.ceiling(hosts, request.thin), 2))
        ratios = space.ratios(hosts) if request.thin else numpy.ones(len(hosts))
        return SpaceShortfall(
            "space",
            "GiB",
            request.requested_gb,
            limit,
            # A pool of infinite capacity has nothing that could be used up.
            numpy.subtract(limit, free, out=numpy.zeros(len(hosts)), where=sized & numpy.isfinite(limit)),
            limit,
            free=free,
            total=hosts.column("total_capacity_gb"),
            reserved_percentage=hosts.column("reserved_percentage"),
            ratios=ratios,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpaceShortfall(Shortfall):
    """Space of pools, with the numbers that an operator compares with the storage."""

    free: numpy.ndarray
    total: numpy.ndarray
    reserved_percentage: numpy.ndarray
    ratios: numpy.ndarray

    def describe(self, position: int) -> list[JSONObject]:
        free, total, lacks = (float(array[position]) for array in (self.free, self.total, self.lacks()))
        of = plain(total) if numpy.isfinite(total) else "unknown"
        text = (
            f"lacks {plain(lacks)} GiB: free {plain(free)} of {of}, "
            f"reserved {plain(float(self.reserved_percentage[position]))} %, "
            f"over-subscription {float(self.ratios[position]):.1f}"
        )
        limit, used, never = float(self.limit[position]), float(self.used[position]), bool(self.never()[position])
        if never and numpy.isfinite(limit):
            text += f"; even empty it has {plain(limit)}"
        return [described(text, self.resource, self.unit, limit, used, self.asked, lacks, never)]
