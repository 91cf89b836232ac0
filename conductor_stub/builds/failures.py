# SPDX-License-Identifier: Apache-2.0
"""Ends an attempt of a build, each in one transaction: the next attempt follows, or ERROR with a fault.

Called by :mod:`conductor_stub.builds.placement`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from conductor_stub.builds import choice, left_guest
from conductor_stub.builds.machine import BuildMachine, end_in_error, since_unshelved
from conductor_stub.steps import avoidance, faults, request_spec
from conductor_stub.steps.attempt import Attempt, Failure, usable
from conductor_stub.steps.avoidance import Avoidance
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import errors, failpoints, states
from fleet.db.engine.database import Transaction
from fleet.db.instances import history, instance_values, instances
from fleet.db.tables.instances import EventRow, FailedOrder, RequestedInstance
from fleet.json_codec import JSONObject
from fleet.objects import Place, Zone

#: In these steps the host has not started to build.
_UNTRIED_STEPS = (states.QUEUE_STEP, states.CAST_STEP, states.CLAIM_STEP)
_ORDERED = (states.PLACING, states.SPAWNING)
_machine = BuildMachine()


@dataclasses.dataclass(frozen=True)
class Next:
    """The step after a failed attempt: an order to ``place``, the scheduler, or (``error``) nothing.

    :param attempt: number of the attempt that follows
    :param later: the scheduler is called when the sweeper finds the step overdue, not at once
    :param counted: whether ``scheduler_max_attempts`` bounds the attempt that failed
    :param waits: nothing follows before the host reports, or is off: it may have started the guest
    """

    row: RequestedInstance
    attempt: int
    place: Place | None = None
    alternates: tuple[Place, ...] = ()
    later: bool = False
    error: Exception | None = None
    counted: bool = True
    waits: bool = False


@failpoints.commits("conductor.reschedule")
def fail_attempt(
    tx: Transaction,
    attempt: Attempt,
    failure: Failure,
    alternates: Sequence[Place],
    ctx: StepContext,
    unheard: bool = False,
) -> Next | None:
    """Release the claim and take the next alternate, or the scheduler, or ERROR; None if the build has moved on.

    :param unheard: the host has not reported that it has no guest
    """
    row = _ordered(tx, attempt)
    if row is None:
        return None
    if unheard and left_guest.may_write(tx, row, attempt.host):
        due = {"step_deadline": ctx.due(ctx.limits.placing_timeout_s, row.deadline)}
        tx.update(instances.INSTANCES, row.uuid, due)
        return Next(row, attempt.number, counted=False, waits=True)
    if failure.step in _UNTRIED_STEPS:
        failed = since_unshelved(row, history.failed_orders(tx, [row.uuid]))
        avoided = Avoidance.of(failed, ctx.limits, ctx.now)
        if failure.step == states.CLAIM_STEP and (attempt.host, attempt.node) in avoided.left_alone:
            return None
        if _is_untried(row, failure, failed, ctx.limits):
            return _hand_back(tx, row, attempt, failure, alternates, avoided, ctx)
        if failure.step != states.CLAIM_STEP:
            # A second copy of the order has reached the host and was claimed.
            return None
    _add_event(tx, history.ATTEMPT, row, attempt, failure, ctx)
    if attempt.number >= _allowed(row, ctx.limits) or not _may_retry(row, ctx.limits):
        error = _retries_exceeded(row, since_unshelved(row, history.failed_attempts(tx, row.uuid)), ctx.limits)
        end_in_error(tx, row, error, attempt.host, _own_request(row, ctx), failure.counts)
        return Next(row, attempt.number, error=error)
    avoided = Avoidance.of(since_unshelved(row, history.failed_orders(tx, [row.uuid])), ctx.limits, ctx.now)
    places = usable(tx, choice.alternates(row, alternates), avoided.places, ctx)
    following = {"attempt": attempt.number + 1, **_step(row, places, ctx)}
    instances.leave_host(tx, row, following, ctx.now, failure.counts)
    return Next(row, attempt.number + 1, places[0] if places else None, places[1:])


@failpoints.commits("conductor.abort")
def abort_build(tx: Transaction, attempt: Attempt, failure: Failure, ctx: StepContext) -> RequestedInstance | None:
    """Set the build to ERROR without another attempt. Return its former row; None if the build has moved on."""
    row = _ordered(tx, attempt)
    if row is None:
        return None
    _add_event(tx, history.ATTEMPT, row, attempt, failure, ctx)
    aborted = errors.BuildAbort(instance_uuid=row.uuid, reason=failure.message)
    # The host may have failed to remove the guest.
    guest_on = attempt.host if left_guest.may_write(tx, row, attempt.host) else None
    end_in_error(tx, row, aborted, attempt.host, _own_request(row, ctx), failure.counts, guest_on)
    return row


def _ordered(tx: Transaction, attempt: Attempt) -> RequestedInstance | None:
    """The locked row, if the build is still at this attempt, and this host has it or was chosen for it."""
    row = instances.lock(tx, attempt.uuid)
    if not _machine.is_at(row, attempt.number, _ORDERED):
        return None
    mine = row.host == attempt.host if row.host else choice.is_chosen(row, attempt.host)
    return row if mine else None


def _own_request(row: RequestedInstance, ctx: StepContext) -> StepContext:
    """Return a context with the build's own request id. An agent or the sweeper reports the failure under another one."""
    return dataclasses.replace(ctx, request_id=row.request_id)


def _is_untried(row: RequestedInstance, failure: Failure, failed: Sequence[FailedOrder], limits: StepLimits) -> bool:
    """Return True if the host has not tried the build, so that the attempt is not spent."""
    if row.task_state != states.PLACING:
        return False
    if failure.step != states.CLAIM_STEP:
        return True
    refused = avoidance.refused_claims(failed)
    return failure.code in avoidance.RACES and refused < limits.claim_refusals and _may_retry(row, limits)


def _hand_back(
    tx: Transaction,
    row: RequestedInstance,
    attempt: Attempt,
    failure: Failure,
    alternates: Sequence[Place],
    avoided: Avoidance,
    ctx: StepContext,
) -> Next:
    """Send an order that its host has not tried to the next alternate, or to the scheduler, at the same attempt.

    If the agent has no queue, many agents may have none: the scheduler is called after a while, when it may know.
    """
    _add_event(tx, history.HAND_BACK, row, attempt, failure, ctx)
    stopping = failure.step == states.QUEUE_STEP
    left_out = {*avoided.places, (attempt.host, attempt.node)}
    places = () if stopping else usable(tx, choice.alternates(row, alternates), left_out, ctx)
    instances.leave_host(tx, row, _step(row, places, ctx), ctx.now)
    if places:
        return Next(row, row.attempt, places[0], places[1:], counted=False)
    return Next(row, row.attempt, later=failure.step == states.CAST_STEP, counted=False)


def _step(row: RequestedInstance, places: Sequence[Place], ctx: StepContext) -> JSONObject:
    status, due = _machine.after_failure(row.deadline, places, ctx)
    return {"task_state": status, "step_deadline": due, **choice.following(places)}


def _add_event(
    tx: Transaction, event: str, row: RequestedInstance, attempt: Attempt, failure: Failure, ctx: StepContext
) -> None:
    """An event that :func:`fleet.db.instances.history.failed_orders` lists."""
    where = {"attempt": row.attempt, "host": attempt.host, "node": attempt.node, "request_id": row.request_id}
    history.add_event(tx, row.uuid, event, now=ctx.now, **where, **failure.event())


def _may_retry(row: RequestedInstance, limits: StepLimits) -> bool:
    most = _allowed(row, limits) - row.earlier_attempts
    return request_spec.may_retry(request_spec.build_filter_properties(instance_values.spec_of(row)), most)


def _allowed(row: RequestedInstance, limits: StepLimits) -> int:
    return request_spec.attempts_allowed(instance_values.spec_of(row), limits.max_attempts) + row.earlier_attempts


def _retries_exceeded(row: RequestedInstance, tried: Sequence[EventRow], limits: StepLimits) -> errors.FleetError:
    """The error that lists all attempts, and the reason if only one was allowed."""
    if _may_retry(row, limits):
        return faults.retries_exceeded(row.uuid, faults.attempts(tried))
    zone = Zone.parse(instance_values.spec_of(row).get("availability_zone") or "")
    forced = f"host {zone.host}" if zone.host else f"node {zone.node}"
    why = f"the request forces {forced}" if zone.forced else "one attempt is allowed"
    return faults.retries_exceeded(row.uuid, faults.attempts(tried), f"; no other host is tried, as {why}")
