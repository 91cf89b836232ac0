# SPDX-License-Identifier: Apache-2.0
"""What follows when the scheduler has no host for a build: ERROR, or another question in a while."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import oslo_messaging
import sqlalchemy as sa

from conductor_stub.builds import failures
from conductor_stub.steps import faults
from conductor_stub.steps.limits import Limits
from fleet import errors, failpoints, states
from fleet.clock import seconds
from fleet.db import history, instances
from fleet.db.engine import Transaction
from fleet.objects import BuildRequest
from fleet.reasons import Reason

_INSTANCES = instances.INSTANCES
#: The scheduler gave no answer, or none yet: the build or move is tried again until its deadline.
NOT_NOW = (
    oslo_messaging.MessagingException,
    errors.DatabaseError,
    errors.StaleState,
    errors.RequestExpired,
    errors.NotTrusted,
    errors.ForeignLedger,
)


def ask_again_at(
    refusal: Exception,
    avoided_until: datetime.datetime | None,
    waits_since: datetime.datetime | None,
    deadline: datetime.datetime | None,
    limits: Limits,
    now: datetime.datetime,
) -> datetime.datetime | None:
    """When the scheduler is to be asked again, or None: its refusal is the last word.

    It is not while no host is known at all: a fleet without hosts is about to get some, or its scheduler has read nothing.
    Nor while a host is avoided only for a while, nor while hosts are silent that may be heard of again.

    :param waits_since: when it first said so of silent hosts
    :param deadline: of the build; its last moments are left for saying what was really in the way
    """
    if not isinstance(refusal, errors.NoValidHost):
        return None
    retry = seconds(limits.retry_interval_s)
    again = avoided_until
    if again is None and knows_no_host(refusal):
        again = now + retry
    elif again is None and refusal.reason_code is Reason.HOSTS_DOWN and refusal.details.get("silent"):
        waits_until = (waits_since or now) + seconds(limits.hosts_down_retry_time_s)
        again = now + retry if now + retry <= waits_until else None
    if again is None or (deadline is not None and again + 2 * retry > deadline):
        return None
    return again


def given_up(connection: sa.Connection, reservation_id: str) -> int:
    """How many builds of the request have ended in ERROR."""
    ended = sa.and_(_INSTANCES.c.reservation_id == reservation_id, _INSTANCES.c.vm_state == states.ERROR)
    number: int = connection.execute(sa.select(sa.func.count()).select_from(_INSTANCES).where(ended)).scalar_one()
    return number


def fitting(refusal: Exception, wanted: int, spec: Mapping[str, Any], ended: int) -> int:
    """How many of ``wanted`` builds, refused together, may be placed without the others; 0 for none.

    :param spec: of their request. Its builds that are neither among them nor ``ended`` in ERROR are taken to succeed
    """
    request = BuildRequest.from_wire(spec)
    needed = max(request.fewest - (request.num_instances - wanted - ended), 1)
    placed = refusal.details.get("placed", 0) if isinstance(refusal, errors.NoValidHost) else 0
    return placed if needed <= placed < wanted else 0


def knows_no_host(refusal: Exception) -> bool:
    """Whether the scheduler knows of no host, whatever is asked for."""
    if not isinstance(refusal, errors.NoValidHost) or refusal.reason_code is not Reason.HOSTS_DOWN:
        return False
    return refusal.details.get("considered") == 0


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
        if failures.is_at(row, attempt, states.UNCLAIMED_STEPS):
            _note_refusal(tx, uuid, attempt, error, request_id, now)
            failures.end_in_error(tx, row, error, None, request_id, now)
            failed.append(uuid)
    return failed


@failpoints.commits("conductor.put_back")
def put_back(
    tx: Transaction,
    uuids: Sequence[str],
    attempt: int,
    refusal: errors.NoValidHost | None,
    retry_at: datetime.datetime,
    request_id: str | None,
    now: datetime.datetime,
) -> None:
    """``placing → scheduling``: the sweeper hands the builds out again at ``retry_at``.

    Schedulers are told: one whose answer comes too late, or has not come through, has booked room for nobody.

    :param refusal: what is waited out; noted once for each build
    """
    for uuid in uuids:
        values = {"task_state": states.SCHEDULING, "step_deadline": retry_at}
        if not instances.move(tx, uuid, attempt=attempt, steps=(states.PLACING,), values=values, now=now):
            continue
        tx.touch(instances.INSTANCES, uuid)
        if refusal is not None and history.first(tx, uuid, history.SCHEDULE) is None:
            _note_refusal(tx, uuid, attempt, refusal, request_id, now)


def waits_since(connection: sa.Connection, uuid: str) -> datetime.datetime | None:
    """When the scheduler's refusal was first not the build's end."""
    noted = history.first(connection, uuid, history.SCHEDULE)
    return noted and noted.created_at


def _note_refusal(
    tx: Transaction, uuid: str, attempt: int, refusal: Exception, request_id: str | None, now: datetime.datetime
) -> None:
    name, _code, message, _details = faults.describe(refusal)
    history.add_event(
        tx, uuid, history.SCHEDULE, now=now, attempt=attempt, result=name, message=message, request_id=request_id
    )
