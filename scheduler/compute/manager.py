# SPDX-License-Identifier: Apache-2.0
"""The scheduler's RPC surface (``docs/wire-contract.md``): checks requests, and logs decisions.

Called by the messages of conductors, agents and other schedulers; :mod:`scheduler.compute.service` makes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from oslo_log import log as logging

from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec, Selection, fields
from fleet.objects.whatif import Demand
from fleet.rpc.endpoint import MAX_MADE_BYTES, endpoint, require_size, served
from fleet.telemetry import rate_limited_log
from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.compute.drivers.driver import Scheduler
from scheduler.state import hints
from scheduler.why import decision_log

LOG = logging.getLogger(__name__)


#: (hosts, requests by uuid) -> answer of ``plan_loss``.
Plan = Callable[[Sequence[str], Mapping[str, Demand]], JSONObject]


def _demand(sent: object) -> tuple[str, Demand]:
    """:raises errors.InvalidInput: it is no request of an instance"""
    parts = sent if isinstance(sent, dict) else {}
    name = fields.parse(fields.Uuid, parts.get("uuid"), "requests.uuid")
    RequestSpec.from_wire(parts.get("request_spec"), parts.get("filter_properties"))
    return name, Demand(parts["request_spec"], parts.get("filter_properties") or {}, [None], name=name)


class SchedulerManager:
    """Endpoint of topic ``scheduler``. The fanout casts are hints: they count until the feed corrects them."""

    target = served("scheduler")
    #: Calls that another scheduler may answer if this one is killed: what they book is booked here only.
    REPEATABLE = frozenset({"select_destinations", "explain", "capacity", "describe_filters"})

    def __init__(
        self,
        driver: Scheduler,
        clock: Clock = utcnow,
        parse: Callable[[object, object], RequestSpec] = RequestSpec.from_wire,
        hear: Callable[[object], bool] = lambda _sender: True,
        plan: Plan | None = None,
    ) -> None:
        """:param parse: makes a request of ``request_spec`` and ``filter_properties``
        :param hear: notes which process has sent its bookings; False: it is this one
        :param plan: proves what becomes of the guests of lost hosts; None: this scheduler does not
        """
        self._plan = plan
        self._driver = driver
        self._hear = hear
        self._clock = clock
        self._parse = parse
        self._misread, self._blind = rate_limited_log.RateLimit(), rate_limited_log.RateLimit()

    @endpoint
    def select_destinations(
        self, context: RequestContext, request_spec: object, filter_properties: object = None
    ) -> list[dict[str, object]]:
        """:raises errors.InvalidInput: naming the field; :raises errors.NoValidHost: with the filters' counts;
        :raises errors.RequestExpired: the caller no longer waits for the answer; nothing is booked
        """
        require_size([request_spec, filter_properties], "request_spec", MAX_MADE_BYTES)
        request = self._parse(request_spec, filter_properties)

        def select() -> Sequence[Selection]:
            self._require_caller(request)
            return self._driver.select_destinations(context, request)

        return [selection.to_wire() for selection in decision_log.logged(decision_log.Words.of(request), select)]

    def _require_caller(self, request: RequestSpec) -> None:
        if request.begin_by is None:
            return
        late_s = (self._clock() - request.begin_by).total_seconds()
        if late_s > 0:
            raise errors.RequestExpired(late_s=f"{late_s:.1f}")

    @endpoint
    def explain(
        self,
        context: RequestContext,
        request_spec: object,
        filter_properties: object = None,
        best: fields.InstanceCount = 10,
    ) -> dict[str, object]:
        """Return the answer that ``select_destinations`` would give, with the reasons. Nothing is booked."""
        require_size([request_spec, filter_properties], "request_spec", MAX_MADE_BYTES)
        return self._driver.explain(context, self._parse(request_spec, filter_properties), best)

    @endpoint
    def capacity(
        self,
        context: RequestContext,
        request_spec: object,
        filter_properties: object = None,
        group_by: Literal["zone", "aggregate"] | None = None,
    ) -> dict[str, object]:
        """Return how many more instances of the request's shape fit."""
        require_size([request_spec, filter_properties], "request_spec", MAX_MADE_BYTES)
        return self._driver.capacity(context, self._parse(request_spec, filter_properties), group_by)

    @endpoint
    def describe_filters(self, context: RequestContext) -> dict[str, object]:
        """Return which parts of a request the filters judge, and which default filters are left out.

        :raises errors.NotSupported: the driver does not know it
        """
        return self._driver.describe_filters()

    @endpoint
    def plan_loss(self, context: RequestContext, hosts: list[fields.Name], requests: list[object]) -> dict[str, object]:
        """Return the plan for the guests of hosts that are lost together: ``verdict``, ``why``, and ``plan``.

        :param requests: of their guests, and of the other members of the groups of these, as ``requests_of`` returns them
        :raises errors.InvalidInput: errors.NotSupported:
        """
        require_size([hosts, requests], "requests", MAX_MADE_BYTES)
        if self._plan is None:
            raise errors.NotSupported(what="plan_loss", driver=type(self._driver).__name__)
        return self._plan(hosts, {name: demand for name, demand in map(_demand, requests)})

    @endpoint
    def decisions_of(self, context: RequestContext, request_id: fields.Name) -> list[JSONObject]:
        """Return the decisions of a request that the schedulers of this machine have kept, the oldest first.

        :raises errors.ConfigError: they keep none; errors.NotSupported: the driver does not
        """
        return list(self._driver.decisions_of(request_id))

    # Casts: there is no reply, so a message that cannot be parsed is logged as a warning for the operator.

    @endpoint
    def update_aggregates(self, context: RequestContext, aggregates: object = None) -> None:
        self._hint_aggregates(lambda: hints.aggregates(aggregates))

    @endpoint
    def delete_aggregate(self, context: RequestContext, aggregate: object = None) -> None:
        self._hint_aggregates(lambda: [hints.deleted_aggregate(aggregate)])

    @endpoint
    def update_instance_info(
        self, context: RequestContext, instance_info: object = None, host_name: object = None
    ) -> None:
        def apply() -> None:
            placed = hints.instances(host_name, instance_info, TrackedInstance)
            self._driver.host_manager.hint(lambda cache: cache.hint_instances(placed))

        # As often as instances come and go: the cache itself sees to it that a late one does no harm.
        self._take(apply, read=False)

    @endpoint
    def delete_instance_info(
        self, context: RequestContext, host_name: object = None, instance_uuid: object = None
    ) -> None:
        def apply() -> None:
            gone = dict.fromkeys(hints.uuids(instance_uuid, "instance_uuid"), hints.host(host_name))
            self._driver.host_manager.hint(lambda cache: cache.hint_instances(gone=gone))

        self._take(apply, read=False)

    @endpoint
    def note_bookings(self, context: RequestContext, sender: object = None, bookings: object = None) -> None:
        """Count the bookings of another scheduler until the feed shows them."""

        def apply() -> None:
            columns = self._driver.host_manager.domain.layout.columns
            told = functools.partial(hints.bookings, bookings, columns, TrackedInstance)
            self._driver.note_bookings(self._driver.host_manager.hint_bookings(told))

        if self._hear(sender):
            self._take(apply, read=False)

    @endpoint
    def sync_instance_info(
        self, context: RequestContext, host_name: object = None, instance_uuids: object = None
    ) -> None:
        def compare() -> None:
            host, theirs = hints.host(host_name), set(hints.uuids(instance_uuids, "instance_uuids"))

            def known() -> set[str]:
                return self._driver.host_manager.hint(lambda cache: cache.confirmed_on(host))

            if theirs == known():  # as it is most of the time: of every host, every two minutes
                return
            self._refresh()
            ours = known()
            if ours != theirs:
                LOG.info(
                    "Host %s reports %d instances, and %d are known; they are compared", host, len(theirs), len(ours)
                )
                self._compare(host)

        self._take(compare, read=False)

    def _compare(self, host: str) -> None:
        """Compare one host with the database, which is right."""
        try:
            self._driver.host_manager.compare_host(host)
        except Exception as failure:
            # Whatever the database or its driver raises: the next full comparison repairs it.
            if (left_out := self._blind.due()) is not None:
                LOG.warning(
                    "Host %s cannot be compared with the database now: %s (%d more such lines were left out)",
                    host, type(failure).__name__, left_out,
                )  # fmt: skip

    def _hint_aggregates(self, parse: Callable[[], list[hints.AggregateHint]]) -> None:
        known = self._driver.host_manager.readings

        def apply() -> None:
            changed = parse()
            newer = self._driver.host_manager.readings > known
            self._driver.host_manager.hint(lambda cache: cache.hint_aggregates(changed, newer))

        self._take(apply)

    def _take(self, apply: Callable[[], None], read: bool = True) -> None:
        """Apply the contents of a cast.

        :param read: read the feed before, which may know it already
        """
        if read:
            self._refresh()
        try:
            apply()
        except errors.InvalidInput as bad:
            left_out = self._misread.due()
            if left_out is not None:
                said = "A cast is not understood, and ignored: %s (%d more since the last such line)"
                LOG.warning(said, bad.message, left_out)
            if not read:
                self._refresh()

    def _refresh(self) -> None:
        try:
            self._driver.refresh()
        except errors.StaleState as lost:
            LOG.warning("%s Only the cast counts.", lost.message)
