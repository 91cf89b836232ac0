# SPDX-License-Identifier: Apache-2.0
"""The base class of scheduler drivers, which ``scheduler_driver`` names.

The drivers beside it inherit from it, and :mod:`scheduler.compute.manager` calls them by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oslo_config import cfg

from fleet import errors
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec, Selection
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine.decision import Decision
from scheduler.state.booking import Booking
from scheduler.state.survey import Objections


class Notifier(Protocol):
    """oslo.messaging's, as far as drivers use it."""

    def info(self, context: object, event_type: str, payload: JSONObject) -> None: ...


class Scheduler:
    """Base of all drivers; one object serves all requests, in many threads.

    A driver of your own overrides :meth:`select_destinations`; ``request.request_spec`` and
    ``request.filter_properties`` are the dicts as they were sent. Nova's forms work too: a constructor without
    arguments, which finds ``conf``, ``host_manager`` and ``notifier`` set, and ``select_destinations(context,
    request_spec, filter_properties)`` over dicts (:mod:`scheduler.compute.drivers.dict_driver`).
    """

    conf: cfg.ConfigOpts
    host_manager: HostManager
    notifier: Notifier

    def __init__(
        self,
        conf: cfg.ConfigOpts | None = None,
        host_manager: HostManager | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        """Take what the service hands over. An argument that is left out leaves the attribute as it is."""
        if conf is not None:
            self.conf = conf
        if host_manager is not None:
            self.host_manager = host_manager
        if notifier is not None:
            self.notifier = notifier

    def select_destinations(self, context: RequestContext, request: RequestSpec) -> Sequence[Selection]:
        """Return one host for each instance, in their order. :raises errors.NoValidHost: if not all find one"""
        raise NotImplementedError

    def explain(self, context: RequestContext, request: RequestSpec, best: int) -> JSONObject:
        """Return what the scheduler would decide, and why, as in ``docs/explain.md``. Nothing is booked.

        :param best: how many hosts the score table has
        :raises errors.NotSupported: by default
        """
        raise errors.NotSupported(what="explain", driver=type(self).__name__)

    def decisions_of(self, request_id: str) -> Sequence[JSONObject]:
        """Return what is kept of the decisions of a request (``[decisions]``). :raises errors.NotSupported: by default"""
        raise errors.NotSupported(what="explain --request", driver=type(self).__name__)

    def capacity(self, context: RequestContext, request: RequestSpec, group_by: str | None) -> JSONObject:
        """Return how many more instances of the request's shape fit. :raises errors.NotSupported: by default"""
        raise errors.NotSupported(what="capacity", driver=type(self).__name__)

    def survey(self, context: RequestContext, request: RequestSpec) -> tuple[Decision, Objections]:
        """Return what would be decided, and what speaks against the hosts. Nothing is booked.

        :raises errors.NotSupported: by default
        """
        raise errors.NotSupported(what="survey", driver=type(self).__name__)

    def describe_filters(self) -> JSONObject:
        """Return which parts of a request are judged: :func:`scheduler.compute.drivers.judged_parts.describe`.

        :raises errors.NotSupported: by default
        """
        raise errors.NotSupported(what="describe_filters", driver=type(self).__name__)

    def hosts_up(self, context: object = None, topic: str = "compute") -> list[str]:
        """Return the names of the hosts whose compute service is enabled and alive, sorted."""
        return self.host_manager.hosts_up()[0]

    def run_periodic_tasks(self, context: object = None) -> None:
        """Called at start and every ``scheduler_driver_task_period`` seconds. By default nothing happens."""

    def note_bookings(self, booked: Sequence[Booking]) -> None:
        """Called with what another scheduler has booked, after it was counted; by default nothing happens."""

    def refresh(self) -> None:
        """Called when a message says that something has changed; by default the host states are brought up to date."""
        self.host_manager.refresh()
