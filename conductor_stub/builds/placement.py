# SPDX-License-Identifier: Apache-2.0
"""Places builds: asks the scheduler once, casts to the chosen host, and walks on when a host says no."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import oslo_messaging
import sqlalchemy as sa
from oslo_log import log as logging

from conductor_stub.builds import avoidance, failures, refusals
from conductor_stub.builds.avoidance import Avoidance
from conductor_stub.builds.failures import Failure, Next
from conductor_stub.steps import faults, request_spec
from conductor_stub.steps.limits import Limits, step_deadline
from fleet import errors, failpoints, states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db import groups, history, instances
from fleet.db.engine import Database
from fleet.objects import Place, Selection
from fleet.rpc.clients import ComputeAPI, ComputeTaskAPI, SchedulerAPI
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)


class Builder:
    """Moves builds from ``scheduling`` to a host's queue. Holds no state: the rows do."""

    def __init__(
        self,
        database: Database,
        scheduler: SchedulerAPI,
        compute: ComputeAPI,
        tasks: ComputeTaskAPI,
        notifier: oslo_messaging.Notifier,
        limits: Limits,
        clock: Clock = utcnow,
    ) -> None:
        self._database = database
        self._scheduler = scheduler
        self._compute = compute
        self._tasks = tasks
        self._notifier = notifier
        self._limits = limits
        self._clock = clock

    def build_instances(self, context: RequestContext, uuids: Sequence[str], attempt: int) -> None:
        """Take up those of ``uuids`` that still wait at ``attempt``, and place them together."""
        now = self._clock()
        deadline = step_deadline(now, self._limits.placing_timeout_s)
        rows, vain = self._database.write(instances.take, uuids, attempt, deadline, now)
        if not rows:
            LOG.debug("Nothing left to place of %d builds at attempt %d", len(uuids), attempt)
            return
        for alike, avoided in self._alike(rows, vain):
            self._place(context, alike, attempt, avoided)

    def _alike(self, rows: Sequence[sa.Row], events: Sequence[sa.Row]) -> list[tuple[list[sa.Row], Avoidance]]:
        """Those that may be asked for together, since they avoid the same hosts; at first all.

        :param events: what was in vain for any of them
        """
        vain: dict[str, list[sa.Row]] = collections.defaultdict(list)
        for event in events:
            vain[event.instance_uuid].append(event)
        now = self._clock()
        alike: dict[frozenset[avoidance.Place], tuple[list[sa.Row], Avoidance]] = {}
        for row in rows:
            avoided = Avoidance.of(vain[row.uuid], self._limits, now)
            alike.setdefault(avoided.places, ([], avoided))[0].append(row)
        return list(alike.values())

    def _place(self, context: RequestContext, rows: Sequence[Any], attempt: int, avoided: Avoidance) -> None:
        context = _context_of(context, rows[0], attempt)
        properties = self._filter_properties(rows, attempt, avoided)
        answer = self._ask(context, rows, properties)
        if isinstance(answer, refusals.NOT_NOW):
            self._put_back(context, rows, attempt, answer)
        elif isinstance(answer, Exception):
            self._refuse(context, rows, attempt, answer, avoided)
        else:
            for row, selection in zip(rows, answer, strict=True):
                place = Place(selection.host, selection.nodename, selection.limits)
                self._send(context, row, attempt, place, tuple(selection.alternates), properties)

    def _ask(
        self, context: RequestContext, rows: Sequence[sa.Row], properties: dict[str, Any]
    ) -> list[Selection] | Exception:
        """The scheduler's answer. What went wrong is returned: it is dealt with after, not during, its handling."""
        try:
            return self._select(context, rows, properties)
        except (errors.FleetError, oslo_messaging.MessagingException) as refusal:
            return refusal
        except Exception as bug:
            LOG.exception("Placing %d instances failed", len(rows))
            return bug

    def reschedule(
        self,
        context: RequestContext,
        uuid: str,
        attempt: int,
        host: str,
        node: str | None,
        failure: Failure,
        alternates: Sequence[Place],
    ) -> bool:
        """An attempt failed: give its claim back and try the next alternate, or ask the scheduler, or give up.

        ``context`` may be of an agent's start or comparison; the build goes on under its own request.

        :return: whether it counts among the attempts that ``scheduler_max_attempts`` bounds
        """
        context = context.about(instance_uuid=uuid, attempt=attempt, host=host)
        now = self._clock()
        following = self._database.write(
            failures.fail_attempt,
            uuid,
            attempt,
            host,
            node,
            failure,
            alternates,
            self._limits,
            now,
        )
        if following is None:
            LOG.debug("A late word about a failed attempt: the build has moved on")
            return False
        context = context.under(following.row.request_id)
        if following.error is None:
            metrics.RETRIES.labels(failure.step, failure.code).inc()
        LOG.info("Attempt %d on host %s failed in step %s: %s", attempt, host, failure.step, failure.message)
        self._follow(context, following, following.attempt)
        return following.counted

    def abort(
        self, context: RequestContext, uuid: str, attempt: int, host: str, node: str | None, failure: Failure
    ) -> None:
        """The build cannot succeed anywhere: ERROR at once."""
        context = context.about(instance_uuid=uuid, attempt=attempt, host=host)
        aborted = self._database.write(failures.abort_build, uuid, attempt, host, node, failure, self._clock())
        if aborted is not None:
            context.under(aborted.request_id)
            metrics.BUILDS_ENDED.labels(states.ERROR, failure.code).inc()
            LOG.warning("Build aborted in step %s: %s", failure.step, failure.message)

    def _follow(self, context: RequestContext, following: Next, attempt: int) -> None:
        row = following.row
        if following.error is not None:
            self._notify_error(context, [row], following.error)
        elif following.place is not None:
            ((_rows, avoided),) = self._alike([row], self._database.read(history.vain, [row.uuid]))
            properties = self._filter_properties([row], attempt, avoided)
            self._send(context, row, attempt, following.place, following.alternates, properties)
        elif not following.later:
            self.hand_out(context, [row.uuid], attempt)

    def hand_out(self, context: RequestContext, uuids: Sequence[str], attempt: int) -> None:
        """Offer waiting builds to any conductor. A message that cannot be sent is left to the sweeper."""

        def cast() -> None:
            try:
                self._tasks.build_instances(context, list(uuids), attempt)
            except oslo_messaging.MessagingException as lost:
                LOG.warning("Could not hand out %d builds (%s); the sweeper will", len(uuids), lost)

        self._passed_on(cast)

    def keep(
        self, context: RequestContext, rows: Sequence[Any], attempt: int, begin: Callable[[Callable[[], None]], None]
    ) -> None:
        """Have this process itself place builds of one request that were written as ``placing``.

        :param rows: of :func:`fleet.db.instances.accepted`
        :param begin: has it done by a thread
        """
        self._passed_on(lambda: begin(lambda: self._place(context, rows, attempt, Avoidance())))

    @staticmethod
    def _passed_on(pass_on: Callable[[], None]) -> None:
        failpoints.hit("conductor.hand_out.before")
        pass_on()
        failpoints.hit("conductor.hand_out.after")

    def scheduling_request(self, rows: Sequence[Any]) -> dict[str, Any]:
        """What the scheduler would be asked for these instances of one request, as if none had been tried."""
        return {"request_spec": _request_spec(rows), "filter_properties": self._filter_properties(rows, 1, Avoidance())}

    def _filter_properties(self, rows: Sequence[sa.Row], attempt: int, avoided: Avoidance) -> dict[str, Any]:
        row = rows[0]
        spec = instances.spec_of(row)
        properties = request_spec.build_filter_properties(spec)
        allowed = request_spec.attempts_allowed(spec, self._limits.max_attempts)
        request_spec.populate_retry(properties, allowed, attempt, avoided.tried)
        request_spec.leave_alone(properties, [host for host, _node in avoided.left_alone])
        if row.group_uuid:
            group, members = self._database.read(_group, row.group_uuid)
            request_spec.setup_instance_group(properties, group, members, [each.uuid for each in rows])
        return properties

    def _select(self, context: RequestContext, rows: Sequence[sa.Row], properties: dict[str, Any]) -> list[Selection]:
        failpoints.hit("conductor.select.before")
        answer = self._scheduler.select_destinations(context, _request_spec(rows), properties)
        failpoints.hit("conductor.select.after")
        return [Selection.from_wire(each) for each in answer]

    def _send(
        self,
        context: RequestContext,
        row: sa.Row,
        attempt: int,
        place: Place,
        alternates: Sequence[Place],
        properties: dict[str, Any],
    ) -> None:
        """Cast one build to its host. That an agent has no queue is known at once, and spends no attempt."""
        context = context.about(instance_uuid=row.uuid, attempt=attempt, host=place.host)
        failpoints.hit("conductor.cast.before")
        try:
            self._compute.build_and_run_instance(
                context,
                place.host,
                instance=instances.to_instance(row).to_wire(),
                node=place.nodename,
                limits=place.limits,
                attempt=attempt,
                deadline=row.deadline.isoformat() if row.deadline else None,
                claim_within_s=self._limits.placing_timeout_s,
                spawn_within_s=self._limits.spawn_timeout_s,
                alternates=[each.to_wire() for each in alternates],
                filter_properties=request_spec.populate_filter_properties(properties, place),
            )
        except oslo_messaging.MessageUndeliverable:
            down = errors.ServiceDown(binary="fleet-compute", host=place.host, reason="it has no queue on the broker")
            failure = Failure(step=states.CAST_STEP, code="ServiceDown", message=down.message)
            self.reschedule(context, row.uuid, attempt, place.host, place.nodename, failure, alternates)
        except oslo_messaging.MessagingException as lost:
            LOG.warning("Could not cast to host %s (%s); the sweeper will try again", place.host, lost)
        failpoints.hit("conductor.cast.after")

    def _fail(self, context: RequestContext, rows: Sequence[sa.Row], attempt: int, error: Exception) -> None:
        uuids = [row.uuid for row in rows]
        failed = self._database.write(refusals.fail_builds, uuids, attempt, error, context.request_id, self._clock())
        self._notify_error(context, [row for row in rows if row.uuid in failed], error)

    def _refuse(
        self, context: RequestContext, rows: Sequence[sa.Row], attempt: int, refusal: Exception, avoided: Avoidance
    ) -> None:
        """The scheduler has found no host: that is the end of the builds, unless it may find one in a while."""
        now, row = self._clock(), rows[0]
        waits_since = self._database.read(refusals.waits_since, row.uuid)
        again = refusals.ask_again_at(refusal, avoided.until, waits_since, row.deadline, self._limits, now)
        if again is None:
            ended = self._database.read(refusals.given_up, row.reservation_id)
            fitting = refusals.fitting(refusal, len(rows), instances.spec_of(row), ended)
            self._fail(context, rows[fitting:], attempt, refusal)
            if fitting:
                LOG.info("There is room for %d of %d instances, as min_count allows", fitting, len(rows))
                self._place(context, rows[:fitting], attempt, avoided)
            return
        LOG.info("No host now, the scheduler is asked again in %.0f s: %s", (again - now).total_seconds(), refusal)
        uuids = [row.uuid for row in rows]
        self._database.write(refusals.put_back, uuids, attempt, refusal, again, context.request_id, now)

    def _put_back(self, context: RequestContext, rows: Sequence[sa.Row], attempt: int, lost: Exception) -> None:
        """The scheduler did not answer; its answer may still come, and then finds the build moved on."""
        LOG.warning(
            "The scheduler cannot answer now (%s); %d builds will be tried again", type(lost).__name__, len(rows)
        )
        now = self._clock()
        retry_at = step_deadline(now, self._limits.retry_interval_s)
        uuids = [row.uuid for row in rows]
        self._database.write(refusals.put_back, uuids, attempt, None, retry_at, context.request_id, now)

    def _notify_error(self, context: RequestContext, rows: Sequence[sa.Row], error: Exception) -> None:
        """One line and one notification for every build that has ended in ERROR."""
        name, _code, message, details = faults.describe(error)
        for row in rows:
            spec = _request_spec([row])
            context = context.about(instance_uuid=row.uuid, attempt=row.attempt)
            metrics.BUILDS_ENDED.labels(states.ERROR, details["reason_code"]).inc()
            metrics.BUILD_SECONDS.observe((self._clock() - row.created_at).total_seconds())
            LOG.warning("Setting instance to ERROR state: %s: %s: %s", details["reason_code"], name, message)
            payload = {
                "instance_id": row.uuid,
                "state": "error",
                "method": "build_instances",
                "reason": message,
                "request_spec": spec,
                "instance_properties": {**spec["instance_properties"], "uuid": row.uuid},
            }
            self._notifier.error(context, "compute_task.build_instances", payload)


def _group(connection: sa.Connection, uuid: str) -> tuple[Any, Sequence[sa.Row]]:
    return groups.find(connection, uuid), groups.members(connection, uuid)


def _request_spec(rows: Sequence[sa.Row]) -> dict[str, Any]:
    return request_spec.build_request_spec([instances.to_instance(row) for row in rows])


def _context_of(context: RequestContext, row: sa.Row, attempt: int) -> RequestContext:
    """The log context of a placement: the first instance stands for the request."""
    return context.about(instance_uuid=row.uuid, attempt=attempt)
