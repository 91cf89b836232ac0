# SPDX-License-Identifier: Apache-2.0
"""The base class of scheduler drivers for volumes, which ``[volume] scheduler_driver`` names.

The drivers beside it inherit from it, and :mod:`scheduler.volumes.manager` calls them by it.
"""

from __future__ import annotations

from oslo_config import cfg

from fleet import errors
from fleet.context import RequestContext
from fleet.objects import Selection
from scheduler.engine.decision import Decision
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.drivers.host_manager import HostManager


class Scheduler:
    """Base of all drivers; one object serves all requests, in many threads."""

    def __init__(self, conf: cfg.ConfigOpts, host_manager: HostManager) -> None:
        self.conf = conf
        self.host_manager = host_manager

    def select_backend(self, context: RequestContext, request: VolumeRequest) -> Selection:
        """Return a pool for a volume, and book it. :raises errors.NoValidHost:"""
        raise NotImplementedError

    def select_backends(self, context: RequestContext, request: VolumeRequest) -> list[Selection]:
        """Return a pool for each volume of a request, and book them. By default they are placed one after the other.

        :raises errors.NoValidHost: there is none for all of them
        """
        return [self.select_backend(context, request.of(uuid)) for uuid in request.instance_uuids]

    def look(self, context: RequestContext, request: VolumeRequest, best: int = 0) -> Decision:
        """Return the decision that :meth:`select_backend` would make, with the scores of the ``best`` pools.

        Nothing is booked. :raises errors.NotSupported: by default
        """
        raise errors.NotSupported(what="explain", driver=type(self).__name__)

    def capacity(self, context: RequestContext, request: VolumeRequest, by_zone: bool) -> dict[str, object]:
        """Return how many more volumes of the request's size and type fit. :raises errors.NotSupported: by default"""
        raise errors.NotSupported(what="capacity", driver=type(self).__name__)


def selected(made: Decision) -> list[Selection]:
    """Return the picks of a decision. :raises errors.NoValidHost: there are not enough"""
    if not made.complete:
        raise errors.NoValidHost(reason=made.reason, details=made.to_wire())
    return made.selections()
