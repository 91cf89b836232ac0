# SPDX-License-Identifier: Apache-2.0
"""The check of a rebuild: may an instance stay on its host with a new image? Nothing is booked or claimed.

Called by :mod:`scheduler.nova.endpoint` and :mod:`scheduler.nova.service`.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from oslo_config import cfg

from fleet import errors
from fleet.context import RequestContext
from fleet.objects import Selection
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine.decide import decide
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.pipeline import prepare
from scheduler.nova.destination import RequestedDestinationFilter
from scheduler.nova.domain import NOVA_MACHINES
from scheduler.nova.request import Destination, NovaRequest


class RebuildCheck:
    """Runs the filters with ``RUN_ON_REBUILD`` on the one host. The instance has its room already."""

    def __init__(self, conf: cfg.ConfigOpts, host_manager: HostManager) -> None:
        pipeline = loading.load_pipeline(conf, NOVA_MACHINES)
        judging = [
            each for each in pipeline.filters if each.RUN_ON_REBUILD or isinstance(each, RequestedDestinationFilter)
        ]
        self._pipeline = dataclasses.replace(pipeline, filters=judging, weighers=[], alternates=0)
        self._host_manager = host_manager
        self._chance = random.Random()

    def check(self, context: RequestContext, request: NovaRequest) -> Sequence[Selection]:
        """:raises errors.NoValidHost: a filter drops the host, or it is not known"""
        place = Destination(_only(request.force_hosts), _only(request.force_nodes), request.destination.cell)
        asked = dataclasses.replace(request, force_hosts=(), force_nodes=(), ignore_hosts=(), destination=place)
        self._host_manager.refresh()
        prepared = prepare(self._pipeline, asked, context)

        def work(hosts: Candidates, state: StateAge) -> Decision:
            return decide(self._pipeline, prepared, hosts, self._chance, state=state)

        made = self._host_manager.consider(work)
        if not made.complete:
            raise errors.NoValidHost(reason=made.reason, details=made.to_wire())
        return made.selections()


def _only(names: Sequence[str]) -> str | None:
    return names[0] if names else None
