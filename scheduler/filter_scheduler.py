# SPDX-License-Identifier: Apache-2.0
"""The default driver: filters, then weighers, over host states as fresh as the database."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Sequence

from oslo_config import cfg
from oslo_utils import uuidutils

from fleet import errors
from fleet.context import RequestContext
from fleet.objects import RequestSpec, Selection
from scheduler import decision, domain, loading
from scheduler.driver import Notifier, Scheduler
from scheduler.host_manager import HostManager


def load_pipeline(conf: cfg.ConfigOpts) -> decision.Pipeline:
    """The pipeline that the configuration describes. :raises errors.ConfigError: on a name that leads nowhere"""
    return decision.Pipeline(
        filters=loading.load_filters(conf),
        weighers=loading.load_weighers(conf),
        consumption=domain.consumption,
        host_subset_size=conf.scheduler_host_subset_size,
        shuffle_best_same_weighed_hosts=conf.shuffle_best_same_weighed_hosts,
        alternates=conf.scheduler_max_attempts - 1,
    )


class FilterScheduler(Scheduler):
    """All instances of a request are placed, or none."""

    def __init__(self, conf: cfg.ConfigOpts, host_manager: HostManager, notifier: Notifier) -> None:
        super().__init__(conf, host_manager, notifier)
        self._pipeline = load_pipeline(conf)
        self._chance = random.Random()

    def select_destinations(self, context: RequestContext, request: RequestSpec) -> Sequence[Selection]:
        payload = {"request_spec": dict(request.request_spec)}
        self.notifier.info(context, "scheduler.select_destinations.start", payload)
        self._update_host_states()
        made = self._decide(context, _named(request))
        if not made.complete:
            raise errors.NoValidHost(reason="There are not enough hosts available.", details=made.to_wire())
        self.notifier.info(context, "scheduler.select_destinations.end", payload)
        return made.selections()

    def _update_host_states(self) -> None:
        self.host_manager.refresh()

    def _decide(self, context: RequestContext, request: RequestSpec) -> decision.Decision:
        for each in self._pipeline.filters:
            each.prepare(request, self.host_manager.node_names)
        decide = functools.partial(
            decision.decide, self._pipeline, request=request, chance=self._chance, context=context
        )
        return self.host_manager.decide(decide, request.instance_uuids)


def _named(request: RequestSpec) -> RequestSpec:
    """Every instance needs a name to be booked under, also where the caller gave none."""
    missing = request.num_instances - len(request.instance_uuids)
    made_up = tuple(uuidutils.generate_uuid() for _ in range(missing))
    return dataclasses.replace(request, instance_uuids=request.instance_uuids + made_up)
