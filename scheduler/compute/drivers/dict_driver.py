# SPDX-License-Identifier: Apache-2.0
"""Drivers with nova's signature, ``select_destinations(context, request_spec, filter_properties)``.

:mod:`scheduler.compute.drivers.driver_loading` wraps drivers of others in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet import errors
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec, Selection, fields
from scheduler.compute.domain.consumption import consumption
from scheduler.compute.drivers.driver import Scheduler
from scheduler.engine.decision import Decision, Pick
from scheduler.engine.filtering import Tally


class DictDriver(Scheduler):
    """Calls such a driver, and books what it has picked.

    The driver gets the dicts as they were sent. It returns a dict with ``host``, ``nodename`` and ``limits`` for each
    instance, in their order, or raises :class:`errors.NoValidHost`.
    """

    def __init__(self, driver: Scheduler) -> None:
        super().__init__(driver.conf, driver.host_manager, driver.notifier)
        self.driver = driver

    def select_destinations(self, context: RequestContext, request: RequestSpec) -> Sequence[Selection]:
        """:raises errors.PluginFailed: the driver's answer cannot be used"""
        self.host_manager.release(request.instance_uuids)
        asked = self.driver.select_destinations
        answer = asked(context, dict(request.request_spec), dict(request.filter_properties))  # type: ignore[call-arg,arg-type]
        picked = self._checked(answer, request)
        # A booking needs the name of each instance and the node of each host.
        named = len(request.instance_uuids) == len(picked) and all(request.instance_uuids)
        if named and all(each.nodename for each in picked):
            self._book(picked, request)
        return picked

    def explain(self, context: RequestContext, request: RequestSpec, best: int) -> JSONObject:
        return self.driver.explain(context, request, best)

    def capacity(self, context: RequestContext, request: RequestSpec, group_by: str | None) -> JSONObject:
        return self.driver.capacity(context, request, group_by)

    def describe_filters(self) -> JSONObject:
        return self.driver.describe_filters()

    def run_periodic_tasks(self, context: object = None) -> None:
        self.driver.run_periodic_tasks(context)

    def refresh(self) -> None:
        self.driver.refresh()

    def _checked(self, answer: object, request: RequestSpec) -> list[Selection]:
        if not isinstance(answer, Sequence) or isinstance(answer, str) or len(answer) != request.num_instances:
            raise self._wrong(f"answered {answer!r:.80}, where a list of {request.num_instances} dict(s) is wanted")
        return [self._selection(each, f"answer.{number}") for number, each in enumerate(answer)]

    def _selection(self, each: object, field: str) -> Selection:
        if isinstance(each, Selection):
            return each
        if not isinstance(each, Mapping):
            raise self._wrong(f"answered {each!r:.80} as {field}, where a dict is wanted")
        known = {name: each[name] for name in ("host", "nodename", "limits") if name in each}
        try:
            return fields.parse(Selection, {"nodename": None, **known}, field)
        except errors.InvalidInput as wrong:
            raise self._wrong(f"gave an answer that cannot be used: {wrong.message}") from None

    def _wrong(self, problem: str) -> errors.PluginFailed:
        return errors.PluginFailed(kind="Driver", plugin=type(self.driver).__name__, problem=problem)

    def _book(self, picked: Sequence[Selection], request: RequestSpec) -> None:
        picks = [
            Pick(uuid, (each.host, str(each.nodename)), each.limits or {}, 0.0, each.alternates)
            for uuid, each in zip(request.instance_uuids, picked, strict=True)
        ]
        made = Decision(
            request.num_instances,
            len(picks),
            picks,
            Tally([], len(picks), []),
            consumption(request),
            request,
        )
        self.host_manager.decide(lambda _hosts, /, *, state: made, request.instance_uuids)
