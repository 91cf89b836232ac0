# SPDX-License-Identifier: Apache-2.0
"""The moves of a build that end an attempt, each one transaction: the next attempt, or ERROR with a fault."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from conductor_stub.builds import avoidance
from conductor_stub.builds.avoidance import Avoidance
from conductor_stub.steps import faults, request_spec
from conductor_stub.steps.limits import Limits, step_deadline
from fleet import errors, failpoints, states
from fleet.db import history, instances, services
from fleet.db.engine import Transaction
from fleet.objects import Place, Zone

#: In these a host has not tried the build, or not for long.
_UNTRIED_STEPS = (states.QUEUE_STEP, states.CAST_STEP, states.CLAIM_STEP)


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why an attempt failed: the step it was in, the error's name and message, and how long it had run."""

    step: str
    code: str
    message: str
    duration_s: float | None = None

    @property
    def counts(self) -> bool:
        """Whether it makes its host one that fails builds: a refused claim or a host that was too full does not."""
        return self.step == states.SPAWN_STEP


@dataclasses.dataclass(frozen=True)
class Next:
    """What follows an order that came to nothing, as ``attempt``: ``place`` now, or the scheduler again (``later``: when
    the sweeper finds it due), or (``error``) nothing."""

    row: sa.Row
    attempt: int
    place: Place | None = None
    alternates: tuple[Place, ...] = ()
    later: bool = False
    error: Exception | None = None
    #: Whether the attempt that ended is one of those that scheduler_max_attempts bounds.
    counted: bool = True


def end_in_error(
    tx: Transaction,
    row: sa.Row,
    error: Exception,
    host: str | None,
    request_id: str | None,
    now: datetime.datetime,
    failed: bool = False,
) -> None:
    """Whatever the locked ``row`` was doing is over: ERROR, with a fault, holding nothing.

    :param failed: whether its host has failed to build it
    """
    name, code, message, details = faults.describe(error)
    tried = faults.attempts(history.failed_attempts(tx, row.uuid))
    if tried:
        details["attempts"] = tried
    came_back = [each for each in history.vain(tx, [row.uuid]) if each.event == history.HAND_BACK]
    if came_back:
        details["untried"] = faults.attempts(came_back)
    ended = {"vm_state": states.ERROR, "task_state": None, "step_deadline": None}
    instances.leave_host(tx, row, ended, now, failed)
    history.add_fault(
        tx,
        row.uuid,
        error=name,
        code=code,
        message=message,
        details=details,
        host=host,
        request_id=request_id,
        now=now,
    )


@failpoints.commits("conductor.reschedule")
def fail_attempt(
    tx: Transaction,
    uuid: str,
    attempt: int,
    host: str,
    node: str | None,
    failure: Failure,
    alternates: Sequence[Place],
    limits: Limits,
    now: datetime.datetime,
) -> Next | None:
    """Give the claim back and take the next alternate, or the scheduler, or ERROR; None when the build has moved on.

    Whoever has found the attempt to be over, what follows is done under the request of the build.
    """
    row = instances.lock(tx, uuid)
    if not is_at(row, attempt, (states.PLACING, states.SPAWNING)) or row.host not in (None, host):
        return None
    if failure.step in _UNTRIED_STEPS:
        vain = history.vain(tx, [uuid])
        avoided = Avoidance.of(vain, limits, now)
        if failure.step == states.CLAIM_STEP and (host, node) in avoided.left_alone:
            return None
        if _is_untried(row, failure, vain, limits):
            return _take_back(tx, row, host, node, failure, alternates, avoided, limits, now)
        if failure.step != states.CLAIM_STEP:
            return None  # the order has a twin that did come through
    _record(tx, history.ATTEMPT, row, host, node, failure, now)
    tried = history.failed_attempts(tx, uuid)
    if attempt >= _allowed(row, limits) or not _may_retry(row, limits):
        error = _last_word(row, failure, tried, limits)
        end_in_error(tx, row, error, host, row.request_id, now, failure.counts)
        return Next(row, attempt, error=error)
    places = _usable(tx, alternates, Avoidance.of(history.vain(tx, [uuid]), limits, now), limits, now)
    instances.leave_host(tx, row, {"attempt": attempt + 1, **_onward(row, places, limits, now)}, now, failure.counts)
    return Next(row, attempt + 1, places[0], places[1:]) if places else Next(row, attempt + 1)


@failpoints.commits("conductor.abort")
def abort_build(
    tx: Transaction,
    uuid: str,
    attempt: int,
    host: str,
    node: str | None,
    failure: Failure,
    now: datetime.datetime,
) -> sa.Row | None:
    """End the build in ERROR without another attempt: its row until now, if it was still this host's to end."""
    row = instances.lock(tx, uuid)
    if not is_at(row, attempt, (states.PLACING, states.SPAWNING)) or row.host not in (None, host):
        return None
    _record(tx, history.ATTEMPT, row, host, node, failure, now)
    aborted = errors.BuildAbort(instance_uuid=uuid, reason=failure.message)
    end_in_error(tx, row, aborted, host, row.request_id, now, failure.counts)
    return row


def _is_untried(row: sa.Row, failure: Failure, vain: Sequence[sa.Row], limits: Limits) -> bool:
    """Whether its host has not tried the build, so that no attempt is spent."""
    if row.task_state != states.PLACING:
        return False
    if failure.step != states.CLAIM_STEP:
        return True
    races = avoidance.refused_claims(vain)
    return failure.code in avoidance.RACES and races < limits.claim_refusals and _may_retry(row, limits)


def _take_back(
    tx: Transaction,
    row: sa.Row,
    host: str,
    node: str | None,
    failure: Failure,
    alternates: Sequence[Place],
    avoided: Avoidance,
    limits: Limits,
    now: datetime.datetime,
) -> Next:
    """An order that its host has not tried: to the next alternate, or to the scheduler, at the same attempt.

    Whoever has no queue may be one of many: the scheduler is asked again only after a while, when it may know.
    """
    _record(tx, history.HAND_BACK, row, host, node, failure, now)
    stopping = failure.step == states.QUEUE_STEP
    left = [place for place in alternates if (place.host, place.nodename) != (host, node)]
    places = () if stopping else _usable(tx, left, avoided, limits, now)
    instances.leave_host(tx, row, _onward(row, places, limits, now), now)
    if places:
        return Next(row, row.attempt, places[0], places[1:], counted=False)
    return Next(row, row.attempt, later=failure.step == states.CAST_STEP, counted=False)


def _onward(row: sa.Row, places: Sequence[Place], limits: Limits, now: datetime.datetime) -> dict[str, Any]:
    """The step of a build that goes on: to the first of ``places``, or to the scheduler."""
    step, allowed_s = (
        (states.PLACING, limits.placing_timeout_s) if places else (states.SCHEDULING, limits.retry_interval_s)
    )
    return {"task_state": step, "step_deadline": step_deadline(now, allowed_s, row.deadline)}


def _record(
    tx: Transaction,
    event: str,
    row: sa.Row,
    host: str,
    node: str | None,
    failure: Failure,
    now: datetime.datetime,
) -> None:
    """What ``history.vain`` lists later."""
    history.add_event(
        tx,
        row.uuid,
        event,
        now=now,
        attempt=row.attempt,
        host=host,
        node=node,
        result=failure.code,
        message=failure.message,
        step=failure.step,
        duration_s=failure.duration_s,
        request_id=row.request_id,
    )


def is_at(row: sa.Row, attempt: int, steps: Sequence[str]) -> bool:
    """Whether the build is still in one of ``steps`` of ``attempt``."""
    return row.vm_state == states.BUILDING and row.task_state in steps and row.attempt == attempt


def _may_retry(row: sa.Row, limits: Limits) -> bool:
    return request_spec.may_retry(request_spec.build_filter_properties(instances.spec_of(row)), _allowed(row, limits))


def _allowed(row: sa.Row, limits: Limits) -> int:
    return request_spec.attempts_allowed(instances.spec_of(row), limits.max_attempts)


def _last_word(row: sa.Row, failure: Failure, tried: Sequence[sa.Row], limits: Limits) -> errors.FleetError:
    """The list of all attempts, and why there was only one if only one was allowed."""
    if _may_retry(row, limits):
        return faults.retries_exceeded(row.uuid, faults.attempts(tried))
    asked = Zone.parse(instances.spec_of(row).get("availability_zone") or "")
    forced = f"host {asked.host}" if asked.host else f"node {asked.node}"
    why = f"the request forces {forced}" if asked.forced else "one attempt is allowed"
    return faults.retries_exceeded(row.uuid, faults.attempts(tried), f"; no other host is tried, as {why}")


def _usable(
    tx: Transaction, alternates: Sequence[Place], avoided: Avoidance, limits: Limits, now: datetime.datetime
) -> tuple[Place, ...]:
    """Those not to be avoided whose agent is up and enabled: it is a while since the scheduler chose them."""
    left = [place for place in alternates if (place.host, place.nodename) not in avoided.places]
    takes = services.taking_builds(tx, {place.host for place in left}, now, limits.service_down_time_s)
    return tuple(place for place in left if place.host in takes)
