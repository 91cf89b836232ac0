# SPDX-License-Identifier: Apache-2.0
"""Notifies all schedulers of a changed aggregate at once.

Called by :mod:`conductor_stub.operators.catalog` and :mod:`conductor_stub.operators.wiring`. A scheduler that misses
it reads the change feed.
"""

from __future__ import annotations

import oslo_messaging
from oslo_log import log as logging

from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.db.feed import feed
from fleet.objects import Aggregate
from fleet.objects.answers.hosts import AggregateView
from fleet.rpc.clients import SchedulerAPI

LOG = logging.getLogger(__name__)


class Announcements:
    """Call its methods after the change is committed."""

    def __init__(self, database: Database, scheduler: SchedulerAPI) -> None:
        self._database = database
        self._scheduler = scheduler

    def aggregate_changed(self, context: RequestContext, aggregate: Aggregate) -> AggregateView:
        """Return the aggregate as it goes over the wire."""
        # A scheduler that has read this generation from the feed has this change, or a newer one, already.
        generation = self._database.read(feed.generation)
        try:
            self._scheduler.update_aggregates(context, [{**aggregate.to_wire(), "generation": generation}])
        except oslo_messaging.MessagingException as lost:
            LOG.warning(
                "Could not notify the schedulers of aggregate %s (%s); they will read the change", aggregate.name, lost
            )
        return aggregate.to_wire()

    def aggregate_deleted(self, context: RequestContext, aggregate: Aggregate) -> None:
        try:
            self._scheduler.delete_aggregate(context, aggregate.to_wire())
        except oslo_messaging.MessagingException as lost:
            LOG.warning(
                "Could not notify the schedulers that aggregate %s is deleted (%s); they will read the change",
                aggregate.name,
                lost,
            )
