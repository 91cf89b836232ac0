# SPDX-License-Identifier: Apache-2.0
"""The default driver for volumes: filters, then weighers, over pools as fresh as the database.

The value ``filter_scheduler`` names it; :mod:`scheduler.volumes.drivers.loading` loads it.
"""

from __future__ import annotations

import functools

import numpy
from oslo_config import cfg

from fleet.context import RequestContext
from fleet.objects import Selection
from scheduler.compute.drivers import capacity_count
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.state.decider import Decider
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.drivers import loading
from scheduler.volumes.drivers.driver import Scheduler, selected
from scheduler.volumes.drivers.host_manager import HostManager


class FilterScheduler(Scheduler):
    """Picks the pool with the highest weight among those that pass."""

    def __init__(self, conf: cfg.ConfigOpts, host_manager: HostManager) -> None:
        super().__init__(conf, host_manager)
        self._decider = Decider(conf, host_manager, functools.partial(loading.load_pipeline, conf))

    def select_backend(self, context: RequestContext, request: VolumeRequest) -> Selection:
        (selection,) = self._selected(context, request)
        return selection

    def select_backends(self, context: RequestContext, request: VolumeRequest) -> list[Selection]:
        if type(self).select_backend is not FilterScheduler.select_backend:
            # A subclass that decides on one volume decides on each of them.
            return super().select_backends(context, request)
        return self._selected(context, request)

    def _selected(self, context: RequestContext, request: VolumeRequest) -> list[Selection]:
        return selected(self._decider.select(context, request, self.host_manager.refresh))

    def look(self, context: RequestContext, request: VolumeRequest, best: int = 0) -> Decision:
        self.host_manager.refresh()
        return self._decider.look(context, request, best)

    def capacity(self, context: RequestContext, request: VolumeRequest, by_zone: bool) -> dict[str, object]:
        self.host_manager.refresh()
        prepared = self._decider.prepare(context, request)

        def work(pools: Candidates, state: StateAge) -> tuple[capacity_count.Survey, StateAge]:
            return capacity_count.survey(prepared, pools, divide=_by_zone if by_zone else None), state

        survey, state = self.host_manager.consider(work)
        return {**survey.answer(), "state": state.to_wire()}


def _by_zone(pools: Candidates) -> dict[str, numpy.ndarray]:
    """Return the positions of the pools of each zone."""
    zones: list[str] = []

    def number(zone: str) -> int:
        zones.append(zone or capacity_count.NONE)
        return len(zones) - 1

    numbers = pools.by_shared("availability_zone", number, dtype=int)
    return {zones[each]: numpy.flatnonzero(numbers == each) for each in numpy.unique(numbers).tolist()}
