# SPDX-License-Identifier: Apache-2.0
"""The moves of a build that end an attempt, each one transaction: the next attempt, or ERROR with a fault."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

import sqlalchemy as sa

from conductor_stub import faults, request_spec
from conductor_stub.limits import Limits, step_deadline
from fleet import errors, failpoints, states
from fleet.db import history, instances, services
from fleet.db.engine import Transaction
from fleet.objects import Place


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
    """What follows a failed attempt, as ``attempt``: ``place`` now, or the scheduler again, or (``error``) nothing."""

    row: sa.Row
    attempt: int
    place: Place | None = None
    alternates: tuple[Place, ...] = ()
    error: Exception | None = None


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


@failpoints.commits("conductor.fail")
def fail_builds(
    tx: Transaction,
    uuids: Sequence[str],
    attempt: int,
    error: Exception,
    request_id: str | None,
    now: datetime.datetime,
) -> list[str]:
    """No host for these builds: returns those that were still waiting for one, now in ERROR."""
    failed = []
    for uuid in uuids:
        row = instances.lock(tx, uuid)
        if _is_at(row, attempt, states.UNCLAIMED_STEPS):
            name, _code, message, _details = faults.describe(error)
            history.add_event(
                tx, uuid, "schedule", now=now, attempt=attempt, result=name, message=message, request_id=request_id
            )
            end_in_error(tx, row, error, None, request_id, now)
            failed.append(uuid)
    return failed


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
    request_id: str | None,
    now: datetime.datetime,
) -> Next | None:
    """Give the claim back and take the next alternate, or the scheduler, or ERROR; None when the build has moved on."""
    row = instances.lock(tx, uuid)
    if not _is_at(row, attempt, (states.PLACING, states.SPAWNING)) or row.host not in (None, host):
        return None
    if failure.step == states.QUEUE_STEP:
        return _take_back(tx, row, host, failure, limits, request_id, now)
    _record(tx, uuid, attempt, host, node, failure, request_id, now)
    tried = history.failed_attempts(tx, uuid)
    if attempt >= limits.max_attempts or not _may_retry(row, limits):
        error = _last_word(row, failure, tried, limits)
        end_in_error(tx, row, error, host, request_id, now, failure.counts)
        return Next(row, attempt, error=error)
    places = _usable(tx, alternates, tried, limits, now)
    step, allowed_s = (
        (states.PLACING, limits.placing_timeout_s) if places else (states.SCHEDULING, limits.retry_interval_s)
    )
    values = {
        "task_state": step,
        "attempt": attempt + 1,
        "step_deadline": step_deadline(now, allowed_s, row.deadline),
    }
    instances.leave_host(tx, row, values, now, failure.counts)
    return Next(row, attempt + 1, places[0], places[1:]) if places else Next(row, attempt + 1)


@failpoints.commits("conductor.abort")
def abort_build(
    tx: Transaction,
    uuid: str,
    attempt: int,
    host: str,
    node: str | None,
    failure: Failure,
    request_id: str | None,
    now: datetime.datetime,
) -> bool:
    """End the build in ERROR without another attempt; whether it was still this host's to end."""
    row = instances.lock(tx, uuid)
    if not _is_at(row, attempt, (states.PLACING, states.SPAWNING)) or row.host not in (None, host):
        return False
    _record(tx, uuid, attempt, host, node, failure, request_id, now)
    aborted = errors.BuildAbort(instance_uuid=uuid, reason=failure.message)
    end_in_error(tx, row, aborted, host, request_id, now, failure.counts)
    return True


def _take_back(
    tx: Transaction,
    row: sa.Row,
    host: str,
    failure: Failure,
    limits: Limits,
    request_id: str | None,
    now: datetime.datetime,
) -> Next | None:
    """A stopping agent has not begun it: nothing was tried, and no attempt is spent; the scheduler chooses anew."""
    values = {
        "task_state": states.SCHEDULING,
        "step_deadline": step_deadline(now, limits.retry_interval_s, row.deadline),
    }
    if not instances.move(tx, row.uuid, attempt=row.attempt, steps=(states.PLACING,), values=values, now=now):
        return None
    history.add_event(
        tx,
        row.uuid,
        "hand-back",
        now=now,
        attempt=row.attempt,
        host=host,
        result=failure.code,
        message=failure.message,
        step=failure.step,
        request_id=request_id,
    )
    return Next(row, row.attempt)


def _record(
    tx: Transaction,
    uuid: str,
    attempt: int,
    host: str,
    node: str | None,
    failure: Failure,
    request_id: str | None,
    now: datetime.datetime,
) -> None:
    """What ``failed_attempts`` lists later."""
    history.add_event(
        tx,
        uuid,
        history.ATTEMPT,
        now=now,
        attempt=attempt,
        host=host,
        node=node,
        result=failure.code,
        message=failure.message,
        step=failure.step,
        duration_s=failure.duration_s,
        request_id=request_id,
    )


@failpoints.commits("conductor.put_back")
def put_back(
    tx: Transaction, uuids: Sequence[str], attempt: int, retry_at: datetime.datetime, now: datetime.datetime
) -> None:
    """``placing → scheduling``: the sweeper hands the builds out again at ``retry_at``."""
    for uuid in uuids:
        values = {"task_state": states.SCHEDULING, "step_deadline": retry_at}
        instances.move(tx, uuid, attempt=attempt, steps=(states.PLACING,), values=values, now=now)


def _is_at(row: sa.Row, attempt: int, steps: Sequence[str]) -> bool:
    return row.vm_state == states.BUILDING and row.task_state in steps and row.attempt == attempt


def _may_retry(row: sa.Row, limits: Limits) -> bool:
    return request_spec.may_retry(request_spec.build_filter_properties(row.spec), limits.max_attempts)


def _last_word(row: sa.Row, failure: Failure, tried: Sequence[sa.Row], limits: Limits) -> errors.FleetError:
    """The failure itself where there was to be one attempt only; otherwise the list of them all."""
    if _may_retry(row, limits):
        return faults.retries_exceeded(row.uuid, faults.attempts(tried))
    reason = f"{failure.message} (step {failure.step}; the host was forced or scheduler_max_attempts is 1)"
    return errors.BuildAbort(instance_uuid=row.uuid, reason=reason)


def _usable(
    tx: Transaction, alternates: Sequence[Place], tried: Sequence[sa.Row], limits: Limits, now: datetime.datetime
) -> tuple[Place, ...]:
    """Those not tried yet whose agent is up and enabled: it is a while since the scheduler chose them."""
    used = {(row.host, row.node) for row in tried}
    left = [place for place in alternates if (place.host, place.nodename) not in used]
    takes = services.taking_builds(tx, {place.host for place in left}, now, limits.service_down_time_s)
    return tuple(place for place in left if place.host in takes)
