# SPDX-License-Identifier: Apache-2.0
"""The default driver: filters, then weighers, over host states as fresh as the database.

The value ``filter_scheduler`` of ``scheduler_driver`` names it; :mod:`scheduler.compute.drivers.driver_loading` loads it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_utils import uuidutils

from fleet import errors
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec, Selection, request_parts
from fleet.reasons import Reason
from fleet.rpc import deferred
from scheduler.compute.drivers import capacity_count, judged_parts, kept_decisions, loading
from scheduler.compute.drivers.driver import Notifier, Scheduler
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.drivers.shadow import ShadowPipeline
from scheduler.compute.tolerance import requests
from scheduler.compute.tolerance.admission import Admission
from scheduler.compute.tolerance.fleet import Fleet
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.pipeline import Pipeline
from scheduler.state.booking import Booking
from scheduler.state.decider import Decider
from scheduler.state.survey import Objections
from scheduler.why.explain import explanation

_KEPT = "What is kept free for a loss that the fleet promises to survive counts as free: a build may get less."


class FilterScheduler(Scheduler):
    """Places all instances of a request, or none."""

    def __init__(
        self,
        conf: cfg.ConfigOpts | None = None,
        host_manager: HostManager | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        super().__init__(conf, host_manager, notifier)
        load = functools.partial(loading.load_pipeline, self.conf, self.host_manager.domain)
        self._decider = Decider(self.conf, self.host_manager, load)
        self._shadow = ShadowPipeline.from_conf(self.conf, self.host_manager)
        self._kept = kept_decisions.from_conf(self.conf)
        self.admission = Admission(
            Fleet(
                lambda: self.pipeline,
                self.host_manager.consider,
                lambda request: self._decider.select(None, request, lambda: None),
                lambda request: self._decider.look(None, request),
                self.host_manager.release,
            )
        )

    @property
    def pipeline(self) -> Pipeline:
        """The filters and weighers that decide now."""
        return self._decider.pipeline

    def select_destinations(
        self, context: RequestContext, request: RequestSpec | Mapping[str, object], filter_properties: object = None
    ) -> Sequence[Any]:
        """Place a request. A subclass with nova's signature passes its dicts on, and gets dicts.

        :raises errors.InvalidInput: a dict cannot be read; the field is named
        """
        if isinstance(request, RequestSpec):
            return self._select(context, request)
        parsed = RequestSpec.from_wire(request, filter_properties)
        return [selection.to_wire() for selection in self._select(context, parsed)]

    def _select(self, context: RequestContext, request: RequestSpec) -> Sequence[Selection]:
        payload = {"request_spec": dict(request.request_spec)}

        def refresh() -> None:
            self._update_host_states()
            self.notifier.info(context, "scheduler.select_destinations.start", payload)

        named = _named(request)
        made = self._decider.select(context, named, refresh)
        if made.complete:
            made = self.admission.settled(named, made)
        if self._kept is not None:
            self._kept.keep(context, named, made)
        if self._shadow is not None and self._shadow.takes(named):
            deferred.after_reply(functools.partial(self._shadow.look, context, named, made))
        if not made.complete:
            raise errors.NoValidHost(reason=made.reason, details=made.to_wire())
        ended = context, "scheduler.select_destinations.end", payload
        deferred.after_reply(functools.partial(self.notifier.info, *ended))
        return made.selections()

    def explain(self, context: RequestContext, request: RequestSpec, best: int) -> JSONObject:
        self._update_host_states()
        named = _named(request)
        made = self._decider.look(context, named, best, request.holding)
        found = explanation(made)
        refusal = self.admission.refusal(named, made) if made.complete else ""
        broken: tuple[str, ...] = ()
        if refusal and requests.is_balancing(request):
            code = Reason.TOLERANCE.value
            found |= {"picks": [], "reason": refusal, "reason_code": code, "summary": f"{code}: {refusal}"}
        elif refusal:
            broken = (
                f"A build also looks at what is promised, and warns, takes other hosts, or is refused: {refusal}",
            )
        return {**found, "remarks": [*found["remarks"], *broken, *self._unjudged(request)]}

    def decisions_of(self, request_id: str) -> Sequence[JSONObject]:
        if self._kept is None:
            reason = f"is not set on scheduler {self.conf.host}: its decisions are not kept"
            raise errors.ConfigError(option="[decisions] file", reason=reason)
        return self._kept.of(request_id)

    def capacity(self, context: RequestContext, request: RequestSpec, group_by: str | None) -> JSONObject:
        self._update_host_states()
        prepared = self._decider.prepare(context, request)
        zone = self.conf.default_availability_zone

        def work(hosts: Candidates, state: StateAge) -> tuple[capacity_count.Survey, StateAge]:
            return capacity_count.survey(prepared, hosts, group_by, zone), state

        survey, state = self.host_manager.consider(work)
        answer = survey.answer()
        kept = (_KEPT,) if self.admission.binds else ()
        remarks = [*answer["remarks"], *kept, *self._unjudged(request)]
        return {**answer, "remarks": remarks, "state": state.to_wire()}

    def survey(self, context: RequestContext, request: RequestSpec) -> tuple[Decision, Objections]:
        self._update_host_states()
        return self._decider.survey(context, _named(request))

    def describe_filters(self) -> JSONObject:
        return {**judged_parts.describe(self._decider.pipeline), "promises": self.admission.report.answer()}

    def note_bookings(self, booked: Sequence[Booking]) -> None:
        self.admission.adopt(booked)

    def _unjudged(self, request: RequestSpec) -> Sequence[str]:
        return request_parts.remarks(request, judged_parts.judged(self._decider.pipeline))

    def _update_host_states(self) -> None:
        self.host_manager.refresh()


def _named(request: RequestSpec) -> RequestSpec:
    """Give every instance a uuid, under which it is booked, if the caller gave none."""
    missing = request.num_instances - len(request.instance_uuids)
    if not missing:
        return request
    made_up = tuple(uuidutils.generate_uuid() for _ in range(missing))
    return dataclasses.replace(request, instance_uuids=request.instance_uuids + made_up)
