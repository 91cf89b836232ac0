# SPDX-License-Identifier: Apache-2.0
"""One attempt at one build on one host: claim, spawn, finish.

Called by :mod:`compute_agent.manager`. A failure gives everything back.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Annotated

import pydantic
from oslo_log import log as logging

from compute_agent.drivers.base import SpawnFailed
from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.notifications import AttemptEvents, Notifications
from compute_agent.node import claims
from compute_agent.node.host import Host, Undecided
from compute_agent.node.resource_tracker import ResourceTracker
from compute_agent.work import orders, reach
from compute_agent.work.spawned_attempts import SpawnedAttempts
from fleet import control_characters, errors, failpoints, states
from fleet.agent import time_limit
from fleet.agent.patience import Unanswered
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Attachment, Claim, FailedAttempt, Finish, HostLimits, Instance, fields
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Share of the conductor's time limit for a spawn, so that this host reports the timeout first.
SPAWN_SHARE = 0.9

_Seconds = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]


@dataclasses.dataclass(frozen=True)
class BuildOrder:
    """The content of ``build_and_run_instance``.

    ``deadline`` is by the conductor's clock and for the log only. ``claim_within_s`` counts from the order's arrival:
    afterwards the conductor has given the build to another host. ``spawn_within_s`` counts from the claim: afterwards
    the conductor takes the build from this host. None: not sent. ``volumes`` are those that the guest starts with.
    """

    instance: Instance
    attempt: fields.Positive
    node: fields.Name | None = None
    limits: HostLimits = dataclasses.field(default_factory=HostLimits)
    deadline: fields.Text | None = None
    claim_within_s: _Seconds | None = None
    spawn_within_s: _Seconds | None = None
    alternates: list[dict[str, object]] = dataclasses.field(default_factory=list)
    filter_properties: dict[str, object] = dataclasses.field(default_factory=dict)
    volumes: list[Attachment] = dataclasses.field(default_factory=list)

    @classmethod
    def from_wire(cls, data: JSONObject) -> BuildOrder:
        """:raises errors.InvalidInput: naming the field"""
        given = {key: value for key, value in data.items() if value is not None}
        return fields.parse(cls, given, "build")


class _Failed(Exception):
    """The attempt is over; ``final``: no other host is tried. Raised only to leave the claim's ``with``."""

    def __init__(self, step: str, cause: Exception, final: bool = False) -> None:
        super().__init__(step)
        self.step = step
        self.cause = cause
        self.final = final


class AgentStopping(Exception):
    """The reason of a build that is handed back before this host has begun it."""


class SpawnTimeout(Exception):
    """The driver did not finish a spawn in time."""


class BuildRunner:
    """Runs builds on one host. The caller ensures that an instance has one build at a time."""

    def __init__(
        self,
        host: Host,
        calls: BuildCalls,
        notifications: Notifications,
        clock: Callable[[], float] = time.monotonic,
        within: time_limit.Within = time_limit.run_within,
    ) -> None:
        self._host = host
        self._calls = calls
        self._notifications = notifications
        self.clock = clock
        self._within = within
        self._spawned = SpawnedAttempts()

    def run(self, context: RequestContext, order: BuildOrder, arrived: float | None = None) -> None:
        """Run the attempt. It raises nothing that a build may meet; the ledger or its sweeper decides how the build
        continues.

        :param arrived: when the order arrived, by this object's clock
        """
        context = self._about(context, order)
        node = order.node
        started = self.clock()
        if arrived is not None and order.claim_within_s is not None and started - arrived > order.claim_within_s:
            LOG.info(
                "Dropping this build: it could begin only %.1f s after the order, which is too late", started - arrived
            )
            return
        if (order.instance.uuid, order.attempt) in self._spawned:
            LOG.info("Dropping a repeated order: this attempt was already spawned here")
            return
        LOG.debug("Starting instance on node %s (deadline %s)", order.node or "-", order.deadline or "-")
        events = self._notifications.of_attempt(context, self._host.name)
        try:
            tracker = self._tracker(order)
            node = tracker.node
            instance = self._attempt(context, order, tracker, events)
        except _Failed as failed:
            if self._hand_back(context, order, node, failed, self.clock() - started):
                events.error(order.instance, failed.cause)
        except (errors.StaleBuild, errors.NotFound) as stale:
            LOG.info("Dropping this build: %s", stale.message)
            events.end(order.instance, stale)
        except errors.StaleIncarnation as stale:
            self._host.superseded(stale.message)
        except errors.FleetError as refused:
            LOG.error("The conductor refused this build: %s", refused.message)
        except Unanswered as unanswered:
            LOG.warning("Giving up this build; the conductor will find it: %s", unanswered)
        else:
            tracker.build_ended(failed=False)
            took_s, held = self.clock() - started, claims.Resources.claimed_by(instance)
            LOG.info("Instance is active on node %s after %.2f s: %s", instance.node, took_s, held)
            events.end(instance)

    def decline(self, context: RequestContext, order: BuildOrder) -> None:
        """Hand back a build that has not begun, because the agent stops."""
        context = self._about(context, order)
        stopping = AgentStopping(f"The agent of {self._host.name} stopped before it began the build")
        LOG.info("Handing back a build that has not begun: the agent stops")
        record = failure_record(states.QUEUE_STEP, stopping, 0.0)
        self._tell(context, self._failed(order, order.node, record), False, order.alternates)

    def _about(self, context: RequestContext, order: BuildOrder) -> RequestContext:
        return context.about(instance_uuid=order.instance.uuid, attempt=order.attempt, host=self._host.name)

    def _tracker(self, order: BuildOrder) -> ResourceTracker:
        try:
            return self._host.tracker(order.node)
        except errors.NotFound as unknown:
            raise _Failed(states.CLAIM_STEP, unknown) from None

    def _attempt(
        self, context: RequestContext, order: BuildOrder, tracker: ResourceTracker, events: AttemptEvents
    ) -> Instance:
        failpoints.hit("agent.claim.before")
        with self._claim(order, tracker) as claim:
            failpoints.hit("agent.claim.after")
            instance = self._record(context, order, tracker, claim)
            failpoints.hit("agent.record.after")
            volumes = self._volumes(context, order)
            events.start(order.instance)
            power_state = self._spawn(context, order, instance, tracker, volumes)
            failpoints.hit("agent.spawn.after")
            active = self._finish(context, order, instance, power_state, tracker)
            failpoints.hit("agent.finish.after")
            return active

    def _claim(self, order: BuildOrder, tracker: ResourceTracker) -> claims.Claim:
        """Test and hold the resources on this host, which must reach the volumes."""
        try:
            reach.require_all(self._host, order.volumes)
        except errors.FleetError as unreachable:
            metrics.CLAIMS.labels("refused").inc()
            raise _Failed(states.CLAIM_STEP, unreachable) from None
        overhead = self._host.driver.estimate_instance_overhead(order.instance.flavor)
        try:
            claim = tracker.instance_claim(order.instance, order.limits, overhead.get("memory_mb", 0))
        except errors.ComputeResourcesUnavailable as full:
            metrics.CLAIMS.labels("refused").inc()
            LOG.debug("Claim refused on node %s: %s", tracker.node, full.reason)
            raise _Failed(states.CLAIM_STEP, full) from None
        metrics.CLAIMS.labels("held").inc()
        LOG.debug("Claim successful on node %s: %s", tracker.node, claim.resources)
        return claim

    def _record(
        self, context: RequestContext, order: BuildOrder, tracker: ResourceTracker, claim: claims.Claim
    ) -> Instance:
        """Record the claim in the ledger, which checks that this attempt is still wanted here."""
        try:
            here = (self._host.name, tracker.node, self._host.incarnation)
            step = Claim(order.instance.uuid, order.attempt, *here, claim.claimed(), order.limits)
            recorded = self._calls.claim_instance(context, step)
        except (errors.GroupAffinityViolation, errors.ComputeResourcesUnavailable) as refusal:
            raise _Failed(states.CLAIM_STEP, refusal) from None
        except errors.InvalidInput as wrong:
            raise _Failed(states.CLAIM_STEP, wrong, final=True) from None
        except Unanswered:
            # The ledger may have the claim, or get it later. The next comparison settles it.
            self._host.undecided[order.instance.uuid] = Undecided(order.attempt, tracker.node, order.alternates)
            claim.keep()
            raise
        self._host.undecided.pop(order.instance.uuid, None)
        try:
            orders.require_same(order.instance, recorded)
        except orders.OrderDiffers as differs:
            orders.unwanted(orders.BUILD, recorded.uuid, self._host.name, str(differs))
            raise _Failed(states.CLAIM_STEP, differs) from None
        return recorded

    def _volumes(self, context: RequestContext, order: BuildOrder) -> list[Attachment]:
        """Return the volumes of the instance, as the ledger has them. The order must name the same."""
        if not order.volumes:
            return []
        try:
            recorded = self._calls.find_attachments(context, self._host.name, order.instance.uuid)
        except Unanswered as silence:
            raise _Failed(states.SPAWN_STEP, silence) from None
        failpoints.hit("agent.volumes.after")
        if {each.uuid: each.connection for each in recorded} != {each.uuid: each.connection for each in order.volumes}:
            differs = orders.OrderDiffers("The order's volumes are not those of the row")
            orders.unwanted(orders.BUILD, order.instance.uuid, self._host.name, str(differs))
            raise _Failed(states.CLAIM_STEP, differs)
        return recorded

    def _spawn(
        self,
        context: RequestContext,
        order: BuildOrder,
        instance: Instance,
        tracker: ResourceTracker,
        volumes: list[Attachment],
    ) -> int:
        """Return the new guest's power state."""
        limit_s = order.spawn_within_s and order.spawn_within_s * SPAWN_SHARE
        driver = self._host.driver

        def spawn() -> int:
            driver.spawn(context, instance, instance.image, **(reach.given(self._host, volumes) if volumes else {}))
            return driver.get_info(instance.uuid).state

        self._spawned.add(instance.uuid, order.attempt)
        try:
            failpoints.hit("agent.spawn.before")
            with metrics.SPAWN_SECONDS.time():
                power_state = self._within(context, limit_s, spawn)
        except Exception as failed:
            metrics.SPAWNS.labels("failed").inc()
            failure: Exception = failed
            if isinstance(failed, time_limit.Overrun):
                failure = SpawnTimeout(f"The driver of {self._host.name} did not end the spawn: {failed}")
            elif not isinstance(failed, errors.FleetError | SpawnFailed):
                LOG.warning("Instance failed to spawn", exc_info=True)
            tracker.build_ended(failed=True)
            self._clean_up(context, instance.uuid, tracker, hangs=isinstance(failed, time_limit.Overrun))
            raise _Failed(states.SPAWN_STEP, failure, final=getattr(failure, "final", False)) from None
        metrics.SPAWNS.labels("done").inc()
        return power_state

    def _finish(
        self,
        context: RequestContext,
        order: BuildOrder,
        instance: Instance,
        power_state: int,
        tracker: ResourceTracker,
    ) -> Instance:
        try:
            here = (self._host.name, power_state, self._host.incarnation)
            return self._calls.finish_build(context, Finish(instance.uuid, order.attempt, *here))
        except errors.FleetError as refused:
            rebuilding = self._find_rebuilding(context, order) if isinstance(refused, errors.StaleBuild) else None
            if rebuilding is not None:
                return rebuilding
            # The row has changed: the guest that was spawned here has no owner. If another process that serves this
            # host now has built the instance again, that guest is not destroyed.
            if self._attempt_of(instance.uuid) in (None, order.attempt):
                self._clean_up(context, instance.uuid, tracker)
            raise

    def _find_rebuilding(self, context: RequestContext, order: BuildOrder) -> Instance | None:
        """Return the instance if the ledger has it here, and its rebuild waits for the end of this build.

        The ledger then has recorded the finish, and its answer was lost. :raises Unanswered:
        """
        found = self._calls.find_instance(context, self._host.name, order.instance.uuid)
        next_task = (states.REBUILD_DISK, order.attempt + 1)
        return found if found is not None and (found.task_state, found.attempt) == next_task else None

    def _attempt_of(self, instance_uuid: str) -> int | None:
        """Return the attempt that spawned the existing guest; None if there is no guest or the driver does not tell."""
        try:
            guest = self._host.driver.get_per_instance_usage().get(instance_uuid)
        except Exception as failure:
            LOG.warning("The driver cannot tell which attempt spawned the guest: %s", failure)
            return None
        return guest.get("attempt") if guest else None

    def _clean_up(
        self, context: RequestContext, instance_uuid: str, tracker: ResourceTracker, hangs: bool = False
    ) -> None:
        """Destroy the parts of a guest that exist. If that fails, it keeps its resources here, as an orphan.

        :param hangs: the driver may still be spawning: then only the result of its destroy counts
        :raises _Failed: the guest may exist, so no other host may have the instance
        """
        try:
            if hangs or instance_uuid in self._host.driver.list_instance_uuids():
                self._host.destroy(context, instance_uuid)
        except Exception as failure:
            LOG.exception("Cannot clean up after a failed build; the guest stays counted, as an orphan")
            tracker.orphan(instance_uuid)
            reason = f"clean-up on {self._host.name} failed ({type(failure).__name__}: {failure}), not rescheduling"
            abort = errors.BuildAbort(instance_uuid=instance_uuid, reason=reason)
            raise _Failed(states.SPAWN_STEP, abort, final=True) from None

    def _hand_back(
        self, context: RequestContext, order: BuildOrder, node: str | None, failed: _Failed, duration_s: float
    ) -> bool:
        """Report the failed attempt. The claim is already given back: the ledger must not give out the room before this
        host has it.

        :return: whether an attempt was spent; a refused claim that an alternate makes up for spends none
        """
        failure = failure_record(failed.step, failed.cause, duration_s)
        LOG.info("This attempt failed in step %s: %s", failed.step, failure["message"])
        counted = self._tell(context, self._failed(order, node, failure), failed.final, order.alternates)
        return counted or failed.step == states.SPAWN_STEP

    def _failed(self, order: BuildOrder, node: str | None, failure: JSONObject) -> FailedAttempt:
        return FailedAttempt(order.instance.uuid, order.attempt, self._host.name, node, failure)

    def _tell(self, context: RequestContext, failed: FailedAttempt, final: bool, alternates: list[JSONObject]) -> bool:
        """Report to the ledger that this attempt is over; return whether it counts."""
        counted = final
        failpoints.hit("agent.hand_back.before")
        try:
            if final:
                self._calls.abort_build(context, failed)
            else:
                counted = self._calls.reschedule(context, failed, alternates)
        except (errors.StaleBuild, errors.NotFound) as stale:
            LOG.info("The build has moved on: %s", stale.message)
        except Unanswered as unanswered:
            LOG.warning("The conductor will find this failed build: %s", unanswered)
        failpoints.hit("agent.hand_back.after")
        return counted


def failure_record(step: str, cause: Exception, duration_s: float) -> dict[str, object]:
    """Return the record of a failed attempt for the ledger: a sentence, never a traceback."""
    message = cause.message if isinstance(cause, errors.FleetError) else str(cause) or type(cause).__name__
    # The class of a remote error has a suffix in its name.
    code = type(cause).__name__.removesuffix("_Remote")
    shown = control_characters.lines(message)[:255]
    return {"step": step, "code": code, "message": shown, "duration_s": round(duration_s, 3)}
