# SPDX-License-Identifier: Apache-2.0
"""The check of a rebuild: may an instance stay on its host with a new image? Nothing is booked or claimed.

Called by :mod:`scheduler.nova.endpoint` and :mod:`scheduler.nova.service`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from oslo_config import cfg

from fleet import errors
from fleet.context import RequestContext
from fleet.objects import Selection
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine.pipeline import Pipeline
from scheduler.nova.destination import RequestedDestinationFilter
from scheduler.nova.domain import NOVA_MACHINES
from scheduler.nova.request import Destination, NovaRequest
from scheduler.state.decider import Decider


class RebuildCheck:
    """Runs the filters with ``RUN_ON_REBUILD`` on the one host. The instance has its room already."""

    def __init__(self, conf: cfg.ConfigOpts, host_manager: HostManager) -> None:
        self._host_manager = host_manager
        self._decider = Decider(conf, host_manager, functools.partial(_load, conf))

    def check(self, context: RequestContext, request: NovaRequest) -> Sequence[Selection]:
        """:raises errors.NoValidHost: a filter drops the host, or it is not known"""
        place = Destination(_only(request.force_hosts), _only(request.force_nodes), request.destination.cell)
        asked = dataclasses.replace(request, force_hosts=(), force_nodes=(), ignore_hosts=(), destination=place)
        self._host_manager.refresh()
        made = self._decider.look(context, asked)
        if not made.complete:
            raise errors.NoValidHost(reason=made.reason, details=made.to_wire())
        return made.selections()


def _load(conf: cfg.ConfigOpts) -> Pipeline:
    """Return the filters of the configuration that judge a rebuild. :raises errors.FleetError:"""
    pipeline = loading.load_pipeline(conf, NOVA_MACHINES)
    judging = [each for each in pipeline.filters if each.RUN_ON_REBUILD or isinstance(each, RequestedDestinationFilter)]
    return dataclasses.replace(pipeline, filters=judging, weighers=[], alternates=0)


def _only(names: Sequence[str]) -> str | None:
    return names[0] if names else None
