# SPDX-License-Identifier: Apache-2.0
"""The state machine of builds: instance rows in ``scheduling``, ``placing`` or ``spawning``.

See ``steps.machine``. Called by the modules beside it.

A build has one more status. If no host has room and the request waits, it goes from ``placing`` to ``queued``; when it is
woken, it goes to ``scheduling`` at the same attempt.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar, cast

from conductor_stub.builds import left_guest, waiting
from conductor_stub.steps import faults
from conductor_stub.steps.limits import StepContext, not_after
from conductor_stub.steps.machine import PlacedRow
from fleet import errors, failpoints, states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.instances import addresses, builds, history, instances
from fleet.db.instances.waiting import queued_builds
from fleet.db.tables.instances import EventRow, FailedOrder, RequestedInstance
from fleet.db.volumes import attachments
from fleet.json_codec import JSONObject

#: Key in the column ``shelved``: the columns that an unshelve changes, which a failed one gives back.
BEFORE = "before"

EventT = TypeVar("EventT", bound=EventRow)


class TakenBuild(RequestedInstance, Protocol):
    """A build that :meth:`BuildMachine.take` has taken, with its orders that failed."""

    failed_orders: list[FailedOrder]


@failpoints.commits_inherited(refuse="conductor.fail", postpone="conductor.postpone", time_out="conductor.time_out")
class BuildMachine(PlacedRow[RequestedInstance, errors.FleetError]):
    waiting, placing = states.SCHEDULING, states.PLACING

    def lock(self, tx: Transaction, uuids: Collection[str]) -> list[RequestedInstance]:
        return sorted(instances.lock_all(tx, uuids).values(), key=lambda row: row.launch_index)

    def status(self, row: RequestedInstance) -> str | None:
        under_way = row.vm_state == states.BUILDING and row.task_state in (*states.BUILD_STEPS, states.QUEUED)
        return row.task_state if under_way else None

    def enter(
        self, tx: Transaction, rows: Sequence[RequestedInstance], status: str, due: datetime.datetime, ctx: StepContext
    ) -> list[RequestedInstance]:
        entered = []
        for deadline in sorted({row.deadline for row in rows}, key=lambda each: each or ctx.now):
            alike = [row for row in rows if row.deadline == deadline]
            step_deadline = not_after(due, deadline)
            values = {"task_state": status, "step_deadline": step_deadline, **self._choice(status)}
            builds.set_columns(tx, [row.uuid for row in alike], {**values, "updated_at": ctx.now})
            entered += [instances.moved(row, values) for row in alike]
        # A scheduler that was called may have booked room for rows that now wait again: the change feed shows them.
        tx.touch(instances.INSTANCES, *(row.uuid for row in rows if row.task_state == self.placing != status))
        return sorted(entered, key=lambda row: row.launch_index)

    def _choice(self, status: str) -> JSONObject:
        """Columns of a row that enters a status, before a host is chosen: none may claim it."""
        return {"chosen": [] if status == self.placing else None} if status in self.unclaimed else {}

    def refused(self, tx: Transaction, row: RequestedInstance, error: Exception, ctx: StepContext) -> RequestedInstance:
        _add_refusal(tx, row, error, ctx)
        end_in_error(tx, row, error, None, ctx)
        return row

    def timed_out(self, tx: Transaction, row: RequestedInstance, ctx: StepContext) -> errors.FleetError:
        queued = queued_builds.find(tx, row.uuid) if row.task_state == states.QUEUED else None
        error = waiting.in_vain(row, queued) if queued else _late(row, ctx)
        guest_on = row.host if left_guest.may_write(tx, row, row.host) else None
        end_in_error(tx, row, error, row.host, ctx, guest_on=guest_on)
        if queued:
            queued_builds.leave(tx, [row.uuid])
        return error

    @failpoints.commits("conductor.take")
    def take(self, tx: Transaction, uuids: Collection[str], attempt: int, ctx: StepContext) -> list[RequestedInstance]:
        """Each row has its ``failed_orders``, from :func:`fleet.db.instances.history.failed_orders`."""
        rows = super().take(tx, uuids, attempt, ctx)
        failed = history.failed_orders(tx, [row.uuid for row in rows]) if rows else ()
        for row in rows:
            own = [event for event in failed if event.instance_uuid == row.uuid]
            cast("TakenBuild", row).failed_orders = since_unshelved(row, own)
        return rows

    @failpoints.commits("conductor.put_back")
    def put_back(
        self,
        tx: Transaction,
        uuids: Collection[str],
        attempt: int,
        due: datetime.datetime,
        ctx: StepContext,
        refusal: Exception | None = None,
    ) -> list[RequestedInstance]:
        rows = super().put_back(tx, uuids, attempt, due, ctx, refusal)
        for row in rows:
            # The first refusal is kept: the time that a build waits for silent hosts counts from it.
            if refusal is not None and history.first(tx, row.uuid, history.SCHEDULE) is None:
                _add_refusal(tx, row, refusal, ctx)
        return rows

    @failpoints.commits("conductor.queue")
    def queue(
        self,
        tx: Transaction,
        uuids: Collection[str],
        attempt: int,
        refusal: errors.NoValidHost,
        together: bool,
        ctx: StepContext,
    ) -> list[RequestedInstance]:
        """``placing → queued``: builds of one request wait for room. Return those that are queued for the first time.

        :param together: whether none of them may be placed without the others
        """
        rows = [row for row in self.lock(tx, uuids) if self.is_at(row, attempt, self.unclaimed)]
        until = waiting.wait_until(rows[0]) if rows else None
        if until is None:
            return []
        why = waiting.why(rows[0], refusal, together)
        times = {"recheck_s": ctx.limits.queue_recheck_interval_s, "patience_s": ctx.limits.queue_patience_s}
        new = queued_builds.enter(tx, rows, why, wait_until=until, **times, now=ctx.now)
        for row in rows:
            if row.uuid in new:
                _add_refusal(tx, row, refusal, ctx, history.QUEUE)
        return [row for row in rows if row.uuid in new]

    def wake(self, tx: Transaction, uuids: Collection[str], ctx: StepContext) -> list[RequestedInstance]:
        """``queued → scheduling``, with the time of a new build. Return the rows that are to be handed out."""
        rows = [row for row in self.lock(tx, uuids) if self.status(row) == states.QUEUED]
        if rows:
            deadline = max(
                ctx.now + seconds(ctx.limits.build_timeout_s),
                max((row.deadline for row in rows if row.deadline), default=ctx.now),
            )
            step = {"task_state": self.waiting, "chosen": None, "step_deadline": ctx.due(ctx.limits.retry_interval_s)}
            builds.set_columns(tx, [row.uuid for row in rows], {**step, "deadline": deadline, "updated_at": ctx.now})
        return rows


def since_unshelved(row: RequestedInstance, events: Sequence[EventT]) -> list[EventT]:
    """Return the attempts since the last unshelve. Hosts that failed before it may be tried again."""
    return [event for event in events if event.attempt > row.earlier_attempts]


def _late(row: RequestedInstance, ctx: StepContext) -> faults.BuildTimeout:
    place = f"host {row.host}" if row.host else "no host"
    assert row.deadline is not None, "a build that is late has a deadline"
    began = row.created_at if not row.shelved else row.deadline - seconds(ctx.limits.build_timeout_s)
    timeout_s = f"{(row.deadline - began).total_seconds():.0f}"
    return faults.BuildTimeout(timeout_s=timeout_s, step=str(row.task_state), place=place)


def _add_refusal(
    tx: Transaction, row: RequestedInstance, error: Exception, ctx: StepContext, event: str = history.SCHEDULE
) -> None:
    name, _code, message, _details = faults.describe(error)
    result = {"result": name, "message": message, "request_id": ctx.request_id}
    history.add_event(tx, row.uuid, event, now=ctx.now, attempt=row.attempt, **result)


def end_in_error(
    tx: Transaction,
    row: RequestedInstance,
    error: Exception,
    host: str | None,
    ctx: StepContext,
    failed: bool = False,
    guest_on: str | None = None,
) -> None:
    """Set the locked ``row`` to ERROR with a fault, and release what its host holds for it, its volumes and its
    addresses. One that is being unshelved is shelved again, with the fault.

    :param failed: whether the host has failed to build it
    :param guest_on: the host that may still have the guest, from ``left_guest.may_write``: it keeps its volumes
        and its addresses
    """
    details: JSONObject = {}
    if tried := since_unshelved(row, history.failed_attempts(tx, row.uuid)):
        details["attempts"] = faults.attempts(tried)
    if handed_back := [
        each for each in since_unshelved(row, history.failed_orders(tx, [row.uuid])) if each.event == history.HAND_BACK
    ]:
        details["untried"] = faults.attempts(handed_back)
    ended: JSONObject = {"vm_state": states.ERROR, "task_state": None, "step_deadline": None, "chosen": None}
    if guest_on is not None:
        ended.update(left_guest.noted(row, guest_on, ctx))
        details["guest_on"] = guest_on
    if row.shelved:
        # As it was: its disk, its volumes and its addresses stay.
        ended["vm_state"] = states.SHELVED_OFFLOADED
        ended.update(row.shelved.get(BEFORE, {}))
    else:
        if guest_on is not None:
            left = faults.GuestMayRun(host=guest_on)
            failure = {"error": type(left).__name__, "message": left.message, "details": {}}
            attachments.withhold(tx, row.uuid, failure, ctx.now)
        else:
            ended["interfaces"] = None
            if row.spec.get("block_device_mapping"):
                attachments.release(tx, row.uuid, ctx.now)
            if row.interfaces:
                addresses.release(tx, row.uuid)
    instances.leave_host(tx, row, ended, ctx.now, failed)
    faults.write(tx, row.uuid, error, host, ctx, **details)
