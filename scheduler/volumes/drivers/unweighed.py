# SPDX-License-Identifier: Apache-2.0
"""Code of drivers without filters and weighers: one pick among the pools that are up, booked like any other.

Called by :mod:`scheduler.volumes.drivers.chance` and :mod:`scheduler.volumes.drivers.simple`.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

import numpy

from fleet.context import RequestContext
from fleet.objects import Place, Selection
from fleet.reasons import Reason
from scheduler.engine.decision import Decision, Pick, StateAge
from scheduler.engine.filtering import Tally
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.table import Key
from scheduler.state.liveness import is_up
from scheduler.volumes.domain.domain import consumption
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.drivers.driver import Scheduler, selected
from scheduler.why.refusal import Refusal


class Found(NamedTuple):
    """The pool that was found, or why there is none."""

    key: Key | None = None
    refusal: Refusal | None = None

    @classmethod
    def none(cls, code: Reason, sentence: str) -> Found:
        return cls(None, Refusal(code, sentence))


class Unweighed(Scheduler):
    """A driver that chooses in a way of its own: define :meth:`choose`."""

    @abc.abstractmethod
    def choose(self, pools: Candidates, request: VolumeRequest, context: RequestContext) -> Found:
        """Return a pool. Called under the lock of the cache, so it must be quick."""

    def select_backend(self, context: RequestContext, request: VolumeRequest) -> Selection:
        self.host_manager.refresh()

        def decide(hosts: Candidates, /, *, state: StateAge) -> Decision:
            return self._decision(hosts, state, request, context)

        (selection,) = selected(self.host_manager.decide(decide, request.instance_uuids))
        return selection

    def look(self, context: RequestContext, request: VolumeRequest, best: int = 0) -> Decision:
        self.host_manager.refresh()
        return self.host_manager.consider(lambda pools, state: self._decision(pools, state, request, context))

    def up(self, pools: Candidates) -> numpy.ndarray:
        """Return a mask of the pools whose backend is enabled and alive."""
        alive: numpy.ndarray = is_up(pools, self.conf.service_down_time)
        up: numpy.ndarray = alive & ~pools.column("disabled") & pools.present()
        return up

    def _decision(
        self, pools: Candidates, state: StateAge, request: VolumeRequest, context: RequestContext
    ) -> Decision:
        found = self.choose(pools, request, context)
        considered = int(numpy.count_nonzero(pools.present()))
        alternates: list[Place] = []
        picks = [Pick(request.volume_id, found.key, {}, 0.0, alternates)] if found.key else []
        return Decision(
            1,
            considered,
            picks,
            Tally([], considered, []),
            consumption(request),
            request,
            found.refusal,
            state=state,
        )
