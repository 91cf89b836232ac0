# SPDX-License-Identifier: Apache-2.0
"""Decide requests of one domain with the configured filters and weighers, which are loaded again when options change.

The drivers that filter and weigh call it.
"""

from __future__ import annotations

import functools
import random
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

import prometheus_client
from oslo_config import cfg
from oslo_log import log as logging

from fleet import errors, failpoints
from fleet.context import RequestContext
from fleet.objects import Holding
from fleet.rpc import deferred
from fleet.telemetry import metrics
from scheduler.engine.decide import decide
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.table import Key
from scheduler.engine.names import Request
from scheduler.engine.pipeline import Pipeline, prepare
from scheduler.engine.prepared_request import PreparedRequest
from scheduler.engine.request_cache import RequestCache
from scheduler.engine.supervision.supervision import Supervision
from scheduler.loading.scheduler_options import SchedulerOptions
from scheduler.state import survey
from scheduler.state.host_manager import Decide, HostManager
from scheduler.state.survey import Objections

LOG = logging.getLogger(__name__)


class _Tools(NamedTuple):
    """The pipeline with its request cache, which is used under the host manager's lock only."""

    pipeline: Pipeline
    cache: RequestCache
    #: Per filter, the seconds that it has taken in all.
    seconds: Sequence[prometheus_client.Counter]

    @classmethod
    def of(cls, pipeline: Pipeline) -> Self:
        seconds = [metrics.FILTER_SECONDS.labels(type(each).__name__) for each in pipeline.filters]
        return cls(pipeline, RequestCache(), seconds)

    def count_seconds(self, supervision: Supervision) -> None:
        """Add the seconds that the filters took for one request to the metrics."""
        for each, seconds in zip(self.pipeline.filters, self.seconds, strict=True):
            took_s = supervision.took_s.get(type(each))
            if took_s:
                seconds.inc(took_s)


def on_change(conf: cfg.ConfigOpts, reload: Callable[[Mapping[object, object]], object]) -> None:
    """Call a method with the options that have changed, at SIGHUP, as long as its object is in use.

    The configuration keeps its hooks for ever, and may outlive a scheduler.
    """
    method = weakref.WeakMethod(reload)
    conf.register_mutate_hook(lambda _conf, changed: (alive := method()) and alive(changed))


class Decider:
    """Belongs to one driver; used by many threads.

    :param load: loads filters and weighers. :raises errors.ConfigError: on a name that leads nowhere
    """

    def __init__(self, conf: cfg.ConfigOpts, host_manager: HostManager, load: Callable[[], Pipeline]) -> None:
        self._host_manager = host_manager
        self._load = load
        self._tools = _Tools.of(load())
        self._options = SchedulerOptions(conf.scheduler_json_config_location)
        self._chance = random.Random()
        #: The nodes of the newest survey; used under the host manager's lock only.
        self._surveyed: Sequence[Key | None] = ()
        on_change(conf, self._reload)

    def _reload(self, changed: Mapping[object, object]) -> None:
        """Load filters and weighers with the new options. If that fails, the former ones stay in use."""
        if not changed:
            return
        try:
            self._tools = _Tools.of(self._load())
        except errors.FleetError as refusal:
            LOG.error("The former filters and weighers stay in use: %s", refusal.message)

    @property
    def pipeline(self) -> Pipeline:
        """The filters and weighers that decide now."""
        return self._tools.pipeline

    def select(self, context: RequestContext | None, request: Request, refresh: Callable[[], object]) -> Decision:
        """Decide, and book the picks if all are found.

        :param refresh: brings the host states up to date
        """
        tools = self._tools
        # Prepare while the database answers, unless a plugin that may be slow takes part: it runs after the refresh.
        prepared = self._prepare(tools, context, request) if tools.pipeline.is_quick else None
        refresh()
        failpoints.hit("scheduler.decide.before")
        if prepared is None:
            prepared = self._prepare(tools, context, request)
        made = self._host_manager.decide(self._decision(tools, prepared), request.instance_uuids)
        failpoints.hit("scheduler.decide.after")
        deferred.after_reply(functools.partial(tools.count_seconds, prepared.supervision))
        return made

    def look(
        self, context: RequestContext | None, request: Request, best: int = 0, as_if_gone: Holding | None = None
    ) -> Decision:
        """Decide without booking.

        :param best: number of hosts in the score table
        :param as_if_gone: as for :meth:`HostManager.consider`
        """
        tools = self._tools
        decision = self._decision(tools, self._prepare(tools, context, request), log=False, best=best)

        def work(hosts: Candidates, state: StateAge) -> Decision:
            return decision(hosts, state=state)

        return self._host_manager.consider(work, as_if_gone)

    def survey(
        self, context: RequestContext, request: Request, as_if_gone: Holding | None = None
    ) -> tuple[Decision, Objections]:
        """Decide without booking. Return what spoke against the hosts, too.

        :param as_if_gone: as for :meth:`HostManager.consider`
        """
        tools = self._tools
        prepared = self._prepare(tools, context, request), self._prepare(tools, context, request)

        def work(hosts: Candidates, state: StateAge) -> tuple[Decision, Objections]:
            made, objections = survey.survey(tools.pipeline, prepared, hosts, state, self._chance, self._surveyed)
            self._surveyed = objections.nodes
            return made, objections

        return self._host_manager.consider(work, as_if_gone)

    def prepare(self, context: RequestContext, request: Request) -> PreparedRequest:
        """Return a request that is ready to be judged."""
        return self._prepare(self._tools, context, request)

    def _prepare(self, tools: _Tools, context: RequestContext | None, request: Request) -> PreparedRequest:
        """Prepare a request before the lock is taken."""
        supervision = self._supervise(tools.pipeline, request)
        options = {} if tools.pipeline.columns_only else self._options.get()
        return prepare(tools.pipeline, request, context, options, supervision)

    def _supervise(self, pipeline: Pipeline, request: Request) -> Supervision:
        """Let filters prepare. A filter that fails here is left out of the rest of this request."""
        supervision = pipeline.watch.begin()
        for each in pipeline.preparing:
            supervision.ask("Filter", each, each.prepare, request, self._host_manager.node_names)
        return supervision

    def _decision(self, tools: _Tools, prepared: PreparedRequest, log: bool = True, best: int = 0) -> Decide:
        return functools.partial(
            decide, tools.pipeline, prepared, chance=self._chance, log=log, cache=tools.cache, best=best
        )
