# SPDX-License-Identifier: Apache-2.0
"""The RPC surface that nova's conductor, API and compute services call: topic ``scheduler``, version 4.5.

:mod:`scheduler.nova.service` makes it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import oslo_messaging
from oslo_log import log as logging

from fleet import errors
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Selection, structure
from fleet.rpc.endpoint import require_size
from fleet.telemetry import rate_limited_log
from scheduler.compute.drivers.driver import Scheduler
from scheduler.compute.manager import SchedulerManager
from scheduler.nova import answer, decoder, traits, wanted
from scheduler.nova.errors import in_novas_form
from scheduler.nova.notifications import Notifications, silent
from scheduler.nova.placement import PlacementFailed
from scheduler.nova.placing import Placed, Placing
from scheduler.nova.rebuild import RebuildCheck
from scheduler.nova.request import Call, NovaRequest
from scheduler.nova.resource_request import MAIN
from scheduler.why.decision_log import Words, logged

LOG = logging.getLogger(__name__)
#: The newest version of nova's scheduler API. Its minor versions differ in arguments that are all optional here.
VERSION = "4.5"

Method = TypeVar("Method", bound=Callable[..., Any])


def refusing(method: Method) -> Method:
    """Return every ``FleetError`` of a method to nova as its NoValidHost, without a traceback."""

    @functools.wraps(method)
    def answered(self: object, context: object, /, **arguments: object) -> Any:
        try:
            return method(self, context, **arguments)
        except errors.FleetError as failure:
            refusal = in_novas_form(failure)
        expected = oslo_messaging.ExpectedException()
        expected.exc_info = (type(refusal), refusal, None)
        raise expected

    return answered  # type: ignore[return-value]


class NovaEndpoint:
    """Unknown arguments are ignored: a later minor version may have more."""

    target = oslo_messaging.Target(version=VERSION)

    def __init__(
        self, driver: Scheduler, placing: Placing, rebuild: RebuildCheck, notifications: Notifications | None = None
    ) -> None:
        self._notifications = notifications or silent()
        self._placing = placing
        self._rebuild = rebuild
        self._manager = SchedulerManager(driver, parse=self._asked)
        self._away = rate_limited_log.RateLimit()

    @refusing
    def select_destinations(self, context: RequestContext, /, **arguments: object) -> Sequence[Any]:
        """Return Selection objects, or dicts, for each instance. Raise NoValidHost for every kind of refusal."""
        require_size(arguments, "arguments")
        call = decoder.decode(arguments)
        self._notifications.started(context, arguments)
        placed = self._check(context, call) if call.rebuild_check else self._place(context, call)
        self._notifications.ended(context, arguments)
        return answer.selections(placed.found) if call.return_objects else answer.dicts(placed.found)

    def _place(self, context: RequestContext, call: Call) -> Placed:
        made: list[Placed] = []

        def select() -> Sequence[Selection]:
            try:
                made.append(self._placing.place(context, call))
            except PlacementFailed as away:
                if (left_out := self._away.due()) is not None:
                    line = "%s Requests are refused meanwhile (%d more such lines were left out)"
                    LOG.warning(line, away.message, left_out)
                raise
            return made[0].selections

        logged(Words.of(call.request), select)
        return made[0]

    def _check(self, context: RequestContext, call: Call) -> Placed:
        selections = logged(Words.of(call.request), lambda: self._rebuild.check(context, call.request))
        return self._placing.unclaimed(selections)

    # For the commands of an operator, in this project's own form.

    def _asked(self, request_spec: object, filter_properties: object) -> NovaRequest:
        request = traits.restored(NovaRequest.from_wire(request_spec, filter_properties))
        made = wanted.of_request(request.request_spec, request, False)
        main = dataclasses.replace(made.main, required=made.main.required | request.required_traits)
        made = dataclasses.replace(made, groups={**made.groups, MAIN: main})
        asked = dataclasses.replace(request, wanted=made, required_traits=made.required)
        return self._placing.prepared(asked)

    def explain(self, context: RequestContext, /, **arguments: Any) -> JSONObject:
        """Return the answer that a request would get, with the reasons."""
        found: JSONObject = self._manager.explain(context, **arguments)
        return found

    def capacity(self, context: RequestContext, /, **arguments: Any) -> JSONObject:
        """Return how many more instances of a shape fit."""
        found: JSONObject = self._manager.capacity(context, **arguments)
        return found

    # Casts are hints; the feed finds the same a moment later.

    def update_aggregates(self, context: RequestContext, /, aggregates: object = None, **_more: object) -> None:
        """Take note of aggregates that have changed."""
        self._manager.update_aggregates(context, aggregates=_opened(aggregates, "aggregates"))

    def delete_aggregate(self, context: RequestContext, /, aggregate: object = None, **_more: object) -> None:
        """Take note of a deleted aggregate."""
        self._manager.delete_aggregate(context, aggregate=_opened(aggregate, "aggregate"))

    def update_instance_info(
        self, context: RequestContext, /, host_name: object = None, instance_info: object = None, **_more: object
    ) -> None:
        """Take note of instances on a host."""
        known = _opened(instance_info, "instance_info")
        self._manager.update_instance_info(context, host_name=host_name, instance_info=known)

    def delete_instance_info(
        self, context: RequestContext, /, host_name: object = None, instance_uuid: object = None, **_more: object
    ) -> None:
        """Take note of an instance that has left a host."""
        self._manager.delete_instance_info(context, host_name=host_name, instance_uuid=instance_uuid)

    def sync_instance_info(
        self, context: RequestContext, /, host_name: object = None, instance_uuids: object = None, **_more: object
    ) -> None:
        """Compare the instances of a host with those that are known."""
        self._manager.sync_instance_info(context, host_name=host_name, instance_uuids=instance_uuids)


def _opened(data: object, field: str) -> object:
    """Return the contents of a cast without envelopes. What cannot be read stays, for the manager to log."""
    try:
        return structure.plain(data, field)
    except errors.InvalidInput:
        return data
