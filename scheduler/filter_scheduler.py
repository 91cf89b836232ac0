# SPDX-License-Identifier: Apache-2.0
"""The default driver: filters, then weighers, over host states as fresh as the database."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import prometheus_client
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import uuidutils

from fleet import errors, failpoints
from fleet.context import RequestContext
from fleet.objects import RequestSpec, Selection
from fleet.rpc import deferred
from fleet.telemetry import metrics
from scheduler import loading
from scheduler.driver import Notifier, Scheduler
from scheduler.engine.candidates import Candidates
from scheduler.engine.decide import decide
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.domain import Domain
from scheduler.engine.pipeline import Pipeline, prepare
from scheduler.engine.prepared_request import PreparedRequest
from scheduler.engine.request_cache import RequestCache
from scheduler.engine.supervision import Supervision
from scheduler.host_manager import HostManager
from scheduler.planning import capacity_count
from scheduler.scheduler_options import SchedulerOptions
from scheduler.state.host_manager import Decide
from scheduler.why.explain import explanation

LOG = logging.getLogger(__name__)


class _Tools(NamedTuple):
    """The pipeline with its request cache, which is used under the host manager's lock only."""

    pipeline: Pipeline
    cache: RequestCache
    #: Per filter, the seconds that it has taken in all.
    seconds: Sequence[prometheus_client.Counter]

    @classmethod
    def load(cls, conf: cfg.ConfigOpts, domain: Domain) -> Self:
        """:raises errors.ConfigError: on a name that leads nowhere"""
        pipeline = loading.load_pipeline(conf, domain)
        seconds = [metrics.FILTER_SECONDS.labels(type(each).__name__) for each in pipeline.filters]
        return cls(pipeline, RequestCache(), seconds)

    def count_seconds(self, supervision: Supervision) -> None:
        """Add the seconds that the filters took for one request to the metrics."""
        for each, seconds in zip(self.pipeline.filters, self.seconds, strict=True):
            took_s = supervision.took_s.get(type(each))
            if took_s:
                seconds.inc(took_s)


class FilterScheduler(Scheduler):
    """Places all instances of a request, or none."""

    def __init__(
        self,
        conf: cfg.ConfigOpts | None = None,
        host_manager: HostManager | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        super().__init__(conf, host_manager, notifier)
        self._tools = _Tools.load(self.conf, self.host_manager.domain)
        self._options = SchedulerOptions(self.conf.scheduler_json_config_location)
        self._chance = random.Random()
        # The configuration keeps its hooks for ever, and may outlive a scheduler.
        reload = weakref.WeakMethod(self._reload)
        self.conf.register_mutate_hook(lambda _conf, changed: (alive := reload()) and alive(changed))

    def _reload(self, changed: Mapping[Any, Any]) -> None:
        """Load filters and weighers with the new options. If that fails, the former ones stay in use."""
        if not changed:
            return
        try:
            self._tools = _Tools.load(self.conf, self.host_manager.domain)
        except errors.FleetError as refusal:
            LOG.error("The former filters and weighers stay in use: %s", refusal.message)

    def expecting(self) -> contextlib.AbstractContextManager[None]:
        return self.host_manager.expecting()

    def select_destinations(
        self, context: RequestContext, request: RequestSpec | Mapping[str, Any], filter_properties: Any = None
    ) -> Sequence[Any]:
        """Place a request. A subclass with nova's signature passes its dicts on, and gets dicts.

        :raises errors.InvalidInput: a dict cannot be read; the field is named
        """
        if isinstance(request, RequestSpec):
            return self._select(context, request)
        parsed = RequestSpec.from_wire(request, filter_properties)
        return [selection.to_wire() for selection in self._select(context, parsed)]

    def _select(self, context: RequestContext, request: RequestSpec) -> Sequence[Selection]:
        named, tools = _named(request), self._tools
        # While the database answers, if nobody is asked who may be slow.
        prepared = self._prepare(tools, context, named) if tools.pipeline.is_quick else None
        self._update_host_states()
        payload = {"request_spec": dict(request.request_spec)}
        self.notifier.info(context, "scheduler.select_destinations.start", payload)
        failpoints.hit("scheduler.decide.before")
        if prepared is None:
            prepared = self._prepare(tools, context, named)
        made = self.host_manager.decide(self._decision(tools, prepared), named.instance_uuids)
        failpoints.hit("scheduler.decide.after")
        deferred.after_reply(functools.partial(tools.count_seconds, prepared.supervision))
        if not made.complete:
            raise errors.NoValidHost(reason=made.reason, details=made.to_wire())
        ended = context, "scheduler.select_destinations.end", payload
        deferred.after_reply(functools.partial(self.notifier.info, *ended))
        return made.selections()

    def explain(self, context: RequestContext, request: RequestSpec, best: int) -> dict[str, Any]:
        self._update_host_states()
        named, tools = _named(request), self._tools
        decision = self._decision(tools, self._prepare(tools, context, named), log=False, best=best)

        def work(hosts: Candidates, state: StateAge) -> Decision:
            return decision(hosts, state=state)

        return explanation(self.host_manager.consider(work, named.holding))

    def capacity(self, context: RequestContext, request: RequestSpec, group_by: str | None) -> dict[str, Any]:
        self._update_host_states()
        tools = self._tools
        prepared = self._prepare(tools, context, request)
        zone = self.conf.default_availability_zone

        def work(hosts: Candidates, state: StateAge) -> tuple[capacity_count.Survey, StateAge]:
            return capacity_count.survey(prepared, hosts, group_by, zone), state

        survey, state = self.host_manager.consider(work)
        return {**survey.answer(), "state": state.to_wire()}

    def _update_host_states(self) -> None:
        self.host_manager.refresh()

    def _prepare(self, tools: _Tools, context: RequestContext, request: RequestSpec) -> PreparedRequest:
        """Prepare a request before the lock is taken."""
        supervision = self._supervise(tools.pipeline, request)
        options = {} if tools.pipeline.columns_only else self._options.get()
        return prepare(tools.pipeline, request, context, options, supervision)

    def _supervise(self, pipeline: Pipeline, request: RequestSpec) -> Supervision:
        """Let filters prepare. A filter that fails here is left out of the rest of this request."""
        supervision = pipeline.watch.begin()
        for each in pipeline.preparing:
            supervision.ask("Filter", each, each.prepare, request, self.host_manager.node_names)
        return supervision

    def _decision(self, tools: _Tools, prepared: PreparedRequest, log: bool = True, best: int = 0) -> Decide:
        return functools.partial(
            decide, tools.pipeline, prepared, chance=self._chance, log=log, cache=tools.cache, best=best
        )


def _named(request: RequestSpec) -> RequestSpec:
    """Give every instance a uuid, under which it is booked, if the caller gave none."""
    missing = request.num_instances - len(request.instance_uuids)
    if not missing:
        return request
    made_up = tuple(uuidutils.generate_uuid() for _ in range(missing))
    return dataclasses.replace(request, instance_uuids=request.instance_uuids + made_up)
