# SPDX-License-Identifier: Apache-2.0
"""Places builds, and goes on after a failed attempt: the next alternate, the scheduler again, or ERROR.

Called by the modules beside it and those of :mod:`conductor_stub.operators`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any, cast

from oslo_log import log as logging

from conductor_stub.builds import choice, failures, retry_policy, waiting
from conductor_stub.builds.failures import Next
from conductor_stub.builds.machine import BuildMachine, TakenBuild, since_unshelved
from conductor_stub.steps import casting, faults, reach, request_spec
from conductor_stub.steps.attempt import Attempt, Failure, no_queue
from conductor_stub.steps.avoidance import Avoidance, HostNode
from conductor_stub.steps.group_commit import GroupCommit
from conductor_stub.steps.limits import StepContext, StepLimits
from conductor_stub.steps.placement import Batch, Kind, Placement
from fleet import errors, failpoints, states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.catalog import groups
from fleet.db.catalog.groups import PlacedMember
from fleet.db.engine.database import Connection, Database
from fleet.db.hosts import hosts
from fleet.db.instances import builds, history, instance_values, moves
from fleet.db.instances.waiting.kept_host import Kept
from fleet.db.tables.catalog import GroupRow
from fleet.db.tables.instances import FailedOrder, RequestedInstance
from fleet.db.volumes import attachments
from fleet.json_codec import JSONObject
from fleet.objects import Place, Selection, host_report
from fleet.objects.answers.instances import SchedulingRequest
from fleet.rpc.clients import ComputeAPI, ComputeTaskAPI, SchedulerAPI
from fleet.rpc.notifier import Notifier
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)


class BuildPlacement(Placement[RequestedInstance, errors.FleetError]):
    _machine: BuildMachine
    #: The host that builds leave to one that has waited longest for room. The room queue sets it.
    kept: Kept | None = None

    def __init__(
        self,
        database: Database,
        scheduler: SchedulerAPI,
        compute: ComputeAPI,
        tasks: ComputeTaskAPI,
        notifier: Notifier,
        limits: StepLimits,
        clock: Clock = utcnow,
        grouped: Callable[..., GroupCommit[Any, Any]] = GroupCommit,
    ) -> None:
        """:param grouped: makes a group commit; the simulation has its own, because it has no threads"""
        kind = Kind(
            noun="build",
            select=request_spec.naming_few(database, scheduler.select_destinations),
            cast=self._cast,
            split=self._split,
            about=self._about,
            request=self._request,
            send=self._send,
            ask_again_at=self._ask_again_at,
            give_up=self._give_up,
            explain=self._explain,
        )
        super().__init__(database, BuildMachine(), kind, limits, clock)
        self._choices: GroupCommit[choice.Choices, None] = grouped(lambda each: database.write(choice.write, each))
        self._scheduler = scheduler
        self._compute = compute
        self._tasks = tasks
        self._notifier = notifier

    def require_unshelving(self) -> None:
        """:raises errors.VersionPinned: an agent may start a guest without the disk that was kept"""
        self._compute.require_unshelving()

    def require_networks(self) -> None:
        """:raises errors.VersionPinned: an agent may start a guest without its networks"""
        self._compute.require_networks()

    def require_requested_node(self) -> None:
        """:raises errors.VersionPinned: a scheduler may choose another node"""
        self._scheduler.require_requested_node()

    def scheduling_request(self, rows: Sequence[RequestedInstance]) -> SchedulingRequest:
        """Return the scheduler's request for these instances of one request, at the first attempt."""
        # Rebuilds and unshelvings go on counting where the attempts before them have ended.
        spec, properties = self._request(Batch(rows, rows[0].earlier_attempts + 1))
        return {"request_spec": spec, "filter_properties": properties}

    def reschedule(
        self,
        context: RequestContext,
        attempt: Attempt,
        failure: Failure,
        alternates: Sequence[Place],
        unheard: bool = False,
    ) -> bool:
        """Release the claim of a failed attempt; then try the next alternate, call the scheduler again, or give up.

        ``context`` may be of an agent's start or comparison. The build goes on under its own request.

        :param unheard: the host has not reported that it has no guest
        :return: whether the attempt counts among those that ``scheduler_max_attempts`` bounds
        """
        context = context.about(instance_uuid=attempt.uuid, attempt=attempt.number, host=attempt.host)
        following = self._database.write(
            failures.fail_attempt, attempt, failure, alternates, self.step_context(context), unheard
        )
        if following is None:
            LOG.debug("A late message about a failed attempt: the build has moved on")
            return False
        context = context.under(following.row.request_id)
        if following.waits:
            reason = "it waits until the host reports, or is off, because its guest may write to its data"
            LOG.info(
                "Attempt %d on host %s is not given up: %s; %s", attempt.number, attempt.host, failure.message, reason
            )
            return False
        if following.error is None:
            metrics.RETRIES.labels(failure.step, failure.code).inc()
        LOG.info(
            "Attempt %d on host %s failed in step %s: %s", attempt.number, attempt.host, failure.step, failure.message
        )
        self._go_on(context, following)
        return following.counted

    def abort(self, context: RequestContext, attempt: Attempt, failure: Failure) -> None:
        """Set a build that cannot succeed on any host to ERROR at once."""
        context = context.about(instance_uuid=attempt.uuid, attempt=attempt.number, host=attempt.host)
        aborted = self._database.write(failures.abort_build, attempt, failure, self.step_context(context))
        if aborted is not None:
            context.under(aborted.request_id)
            metrics.BUILDS_ENDED.labels(states.ERROR, failure.code).inc()
            LOG.warning("Build aborted in step %s: %s", failure.step, failure.message)

    def _go_on(self, context: RequestContext, following: Next) -> None:
        row, attempt = following.row, following.attempt
        if following.error is not None:
            self._notify_error(context, [row], following.error)
        elif following.place is not None:
            failed = since_unshelved(row, self._database.read(history.failed_orders, [row.uuid]))
            avoided = Avoidance.of(failed, self._limits, self._clock())
            _spec, properties = self._request(Batch([row], attempt, avoided))
            self._cast_order(context, row, attempt, following.place, following.alternates, properties)
        elif not following.later:
            self.hand_out(context, [row.uuid], attempt)

    # How builds are requested and sent

    def _cast(self, context: RequestContext, uuids: Sequence[str], attempt: int) -> None:
        self._tasks.build_instances(context, list(uuids), attempt)

    def _split(self, rows: Sequence[RequestedInstance], attempt: int) -> list[Batch[RequestedInstance]]:
        """One batch of rows for each set of avoided hosts, and one for each unshelved instance.

        At the first attempt of a request that is a single one.
        """
        now = self._clock()
        alike: dict[tuple[str, frozenset[HostNode]], tuple[list[RequestedInstance], Avoidance]] = {}
        for row in rows:
            avoided = Avoidance.of(cast("TakenBuild", row).failed_orders, self._limits, now)
            # An unshelved instance has its own flavor, image, zone and disk, whatever its request was.
            own = row.uuid if row.shelved else ""
            alike.setdefault((own, avoided.places), ([], avoided))[0].append(row)
        return [Batch(together, attempt, avoided) for together, avoided in alike.values()]

    def _about(self, context: RequestContext, row: RequestedInstance, attempt: int) -> RequestContext:
        return context.about(instance_uuid=row.uuid, attempt=attempt)

    def _request(self, batch: Batch[RequestedInstance]) -> tuple[JSONObject, JSONObject]:
        row = batch.rows[0]
        instance_values.require_readable(row)
        spec = instance_values.spec_of(row)
        properties = request_spec.build_filter_properties(spec)
        allowed = request_spec.attempts_allowed(spec, self._limits.max_attempts)
        request_spec.populate_retry(properties, allowed, batch.attempt - row.earlier_attempts, batch.avoided.tried)
        request_spec.leave_alone(properties, [host for host, _node in batch.avoided.left_alone])
        if (kept := self._kept_from(batch)) is not None:
            request_spec.leave_alone(properties, [kept.host])
        request_spec.leave_alone(properties, list(self._lacking(row)))
        if row.shelved:
            request_spec.leave_alone(properties, self._without_disk(row))
            request_spec.leave_alone(properties, self._database.read(moves.vacated, row.uuid))
        if row.group_uuid:
            group, members = self._database.read(_group, row.group_uuid)
            if group is not None:
                request_spec.setup_instance_group(properties, group, members, batch.uuids)
        return _request_spec(batch.rows), properties

    def _lacking(self, row: RequestedInstance) -> dict[str, reach.Lacking]:
        """Hosts that do not reach the volumes of a build."""
        return self._database.read(reach.lacking, row.uuid) if _has_volumes(row) else {}

    def _without_disk(self, row: RequestedInstance) -> list[str]:
        """Hosts that do not reach the kept disk of a shelved instance."""
        shelf = str((row.shelved or {})["shelf"])
        return self._database.read(hosts.reporting_another, host_report.SHELF, shelf)

    def _kept_from(self, batch: Batch[RequestedInstance]) -> Kept | None:
        """The host that these builds leave alone for another one."""
        return self.kept if self.kept is not None and self.kept.uuid not in batch.uuids else None

    def _explain(self, batch: Batch[RequestedInstance], refusal: errors.NoValidHost) -> errors.NoValidHost:
        kept, lacking = self._kept_from(batch), self._lacking(batch.rows[0])
        # A build that is placed as soon as it is accepted has none.
        failed: Sequence[FailedOrder] = getattr(batch.rows[0], "failed_orders", ())
        tried = [each for each in failed if each.event != history.HAND_BACK]
        refusal = faults.beside(refusal, faults.attempts(tried))
        refusal = waiting.beside(refusal, kept.host) if kept else refusal
        return reach.beside(refusal, lacking) if lacking else refusal

    def _send(
        self,
        context: RequestContext,
        batch: Batch[RequestedInstance],
        selections: Sequence[Selection],
        properties: JSONObject,
    ) -> None:
        """The choice is written first: the host may claim as soon as it has the order."""
        places = [(_place(each), *each.alternates) for each in selections]
        self._choices.write({row.uuid: (batch.attempt, chosen) for row, chosen in zip(batch.rows, places, strict=True)})
        for row, (place, *alternates) in zip(batch.rows, places, strict=True):
            self._cast_order(context, row, batch.attempt, place, alternates, properties)

    def _cast_order(
        self,
        context: RequestContext,
        row: RequestedInstance,
        attempt: int,
        place: Place,
        alternates: Sequence[Place],
        properties: JSONObject,
    ) -> None:
        """Cast one build to its host. If the agent has no queue, the next alternate is tried and no attempt is spent."""
        context = context.about(instance_uuid=row.uuid, attempt=attempt, host=place.host)
        volumes = self._volumes(row)

        def cast() -> None:
            self._compute.build_and_run_instance(
                context,
                place.host,
                instance=instance_values.to_instance(row).to_wire(),
                node=place.nodename,
                limits=place.limits,
                attempt=attempt,
                deadline=row.deadline.isoformat() if row.deadline else None,
                claim_within_s=self._limits.placing_timeout_s,
                spawn_within_s=self._limits.spawn_timeout_s,
                alternates=[each.to_wire() for each in alternates],
                filter_properties=request_spec.populate_filter_properties(properties, place),
                **volumes,
            )

        failpoints.hit("conductor.cast.before")
        try:
            reached = casting.reaches(place.host, cast)
        except errors.VersionPinned as old:
            LOG.warning("Host %s gets no order, the sweeper will send it again: %s", place.host, old.message)
            return
        if not reached:
            here = Attempt(row.uuid, attempt, place.host, place.nodename)
            self.reschedule(context, here, no_queue(place.host), alternates)
        failpoints.hit("conductor.cast.after")

    def _volumes(self, row: RequestedInstance) -> JSONObject:
        """The part of an order that has the volumes of its instance."""
        if not _has_volumes(row):
            return {}
        rows = self._database.read(attachments.of_instances, [row.uuid])
        return {"volumes": [attachments.to_attachment(each).to_wire() for each in rows]}

    def _ask_again_at(self, batch: Batch[RequestedInstance], refusal: Exception) -> datetime.datetime | None:
        row = batch.rows[0]
        if waiting.waits(row, refusal, self._clock()) and batch.avoided.until is None:
            return None
        waits_since = self._database.read(retry_policy.waits_since, row.uuid)
        return retry_policy.ask_again_at(
            refusal, batch.avoided.until, waits_since, row.deadline, self._limits, self._clock()
        )

    def _give_up(self, context: RequestContext, batch: Batch[RequestedInstance], refusal: Exception) -> None:
        """End or queue the builds; but place as many as fit if the request allows that (``min_count``)."""
        rows = batch.rows
        ended = self._database.read(builds.failed_of_request, rows[0].reservation_id)
        fitting = retry_policy.fitting(refusal, len(rows), instance_values.spec_of(rows[0]), ended)
        uuids, ctx = batch.uuids[fitting:], self.step_context(context)
        if isinstance(refusal, errors.NoValidHost) and waiting.waits(rows[0], refusal, ctx.now):
            together = retry_policy.needed(len(uuids), instance_values.spec_of(rows[0]), ended) > 1
            self._queue(context, uuids, batch.attempt, refusal, together, ctx)
        else:
            failed = self._database.write(self._machine.refuse, uuids, batch.attempt, refusal, ctx)
            self._notify_error(context, failed, refusal)
        if fitting:
            LOG.info("There is room for %d of %d instances, as min_count allows", fitting, len(rows))
            self._place(context, Batch(rows[:fitting], batch.attempt, batch.avoided))

    def _queue(
        self,
        context: RequestContext,
        uuids: Sequence[str],
        attempt: int,
        refusal: errors.NoValidHost,
        together: bool,
        ctx: StepContext,
    ) -> None:
        """Let the builds wait for room. Write one line and send one notification for each that did not wait before."""
        new = self._database.write(self._machine.queue, uuids, attempt, refusal, together, ctx)
        _name, _code, message, details = faults.describe(refusal)
        for row in new:
            self.announce_queued(
                context.about(instance_uuid=row.uuid, attempt=row.attempt), details["reason_code"], message
            )
        if len(new) < len(uuids):
            LOG.info("%d builds still wait for room: %s: %s", len(uuids) - len(new), details["reason_code"], message)

    def announce_queued(self, context: RequestContext, code: str, message: str) -> None:
        """Write one line and send one notification. :param context: of the build"""
        LOG.info("Instance waits for room: %s: %s", code, message)
        about = {"instance_id": context.instance_uuid, "state": states.QUEUED, "method": "build_instances"}
        self._notifier.info(context, "compute_task.build_instances.queued", {**about, "reason": message})

    def _notify_error(self, context: RequestContext, rows: Sequence[RequestedInstance], error: Exception) -> None:
        """Write one line and send one notification for each build that has ended in ERROR."""
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


def _has_volumes(row: RequestedInstance) -> bool:
    """Return True if a build may begin with volumes: those of its request, or those that it was shelved with."""
    return bool(row.spec.get("block_device_mapping") or row.shelved)


def _place(selection: Selection) -> Place:
    return Place(selection.host, selection.nodename, selection.limits)


def _group(connection: Connection, uuid: str) -> tuple[GroupRow | None, Sequence[PlacedMember]]:
    return groups.of_row(connection, uuid), groups.members(connection, uuid)


def _request_spec(rows: Sequence[RequestedInstance]) -> JSONObject:
    return request_spec.build_request_spec([instance_values.to_instance(row) for row in rows])
