# SPDX-License-Identifier: Apache-2.0
"""Finds what was lost: a build whose step is overdue is handed out again, tried elsewhere, or ended with a fault.

Every conductor sweeps. Each act is a compare-and-set on the row, so two sweepers (or a sweeper and a slow worker that
was only thought lost) cannot both win.
"""

from __future__ import annotations

import datetime
import itertools

import sqlalchemy as sa
from oslo_log import log as logging

from conductor_stub.builds import failures
from conductor_stub.builds.failures import Failure
from conductor_stub.builds.placement import Builder
from conductor_stub.builds.termination import Termination
from conductor_stub.steps import faults
from conductor_stub.steps.limits import Limits, step_deadline
from fleet import failpoints, states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext, new_context
from fleet.db import instances, services
from fleet.db.engine import Database, Transaction
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

INSTANCES = instances.INSTANCES
#: Rows looked at in one sweep; the rest waits for the next.
BATCH = 500


class Sweeper:
    """The service calls ``end_overdue`` and ``retry_lost`` every ``sweep_interval`` seconds, each in its own thread.

    A message cannot be sent while the broker is away, and the sender may be held up for as long: deadlines are kept by
    the database alone.
    """

    def __init__(
        self, database: Database, builder: Builder, termination: Termination, limits: Limits, clock: Clock = utcnow
    ) -> None:
        self._database = database
        self._builder = builder
        self._termination = termination
        self._limits = limits
        self._clock = clock

    def sweep(self) -> int:
        """Act on every overdue step; returns how many there were."""
        return self.end_overdue() + self.retry_lost()

    def end_overdue(self) -> int:
        """End the builds whose time is over; returns how many there were."""
        now = self._clock()
        overdue = self._database.read(_past_deadline, now)
        self._database.read(_count, now)
        for row in overdue:
            self._time_out(row, now)
        return len(overdue)

    def retry_lost(self) -> int:
        """Hand out again, try elsewhere or ask again where a step took too long; returns how many there were."""
        now = self._clock()
        overdue, stranded = self._database.read(_due, now, self._limits.service_down_time_s)
        waiting = [row for row in overdue if self._sweep_one(row, now)]
        self._hand_out(waiting, now)
        metrics.SWEEPER_ACTIONS.labels("give up the host").inc(len(stranded))
        for row in stranded:
            self._give_up_host(row, f"host {row.host} stopped sending heartbeats")
        return len(overdue) + len(stranded)

    def _sweep_one(self, row: sa.Row, now: datetime.datetime) -> bool:
        """Whether the build waits for a worker and is to be handed out; anything else is done here."""
        if row.task_state == states.DELETING:
            self._terminate_again(row, now)
        elif row.task_state == states.SPAWNING:
            self._give_up_host(row, f"host {row.host} did not finish spawning in {self._limits.spawn_timeout_s:.0f} s")
        else:
            return True
        return False

    def _hand_out(self, rows: list[sa.Row], now: datetime.datetime) -> None:
        """Builds of one request go together, as they came."""

        def request(row: sa.Row) -> tuple[str, int]:
            return row.reservation_id, row.attempt

        for (reservation_id, attempt), group in itertools.groupby(sorted(rows, key=request), request):
            retry_at = step_deadline(now, self._limits.retry_interval_s)
            mine = [row for row in group if self._database.write(_postpone, row, retry_at, now)]
            metrics.SWEEPER_ACTIONS.labels("hand out again").inc(len(mine))
            if not mine:
                continue
            context = self._context(mine[0])
            LOG.warning(
                "%d builds of %s are overdue in step %s: handing them out again",
                len(mine),
                reservation_id,
                mine[0].task_state,
            )
            self._builder.hand_out(context, [row.uuid for row in mine], attempt)

    def _give_up_host(self, row: sa.Row, reason: str) -> None:
        failure = Failure(step=row.task_state, code=faults.AttemptLost.__name__, message=reason)
        self._builder.reschedule(self._context(row), row.uuid, row.attempt, row.host, row.node, failure, ())

    def _time_out(self, row: sa.Row, now: datetime.datetime) -> None:
        context = self._context(row)
        place = f"host {row.host}" if row.host else "no host"
        error = faults.BuildTimeout(timeout_s=f"{self._limits.build_timeout_s:.0f}", step=row.task_state, place=place)
        if self._database.write(_end_overdue, row.uuid, error, context.request_id, now):
            metrics.SWEEPER_ACTIONS.labels("end overdue").inc()
            metrics.BUILDS_ENDED.labels(states.ERROR, error.reason_code.value).inc()
            LOG.warning("Setting instance to ERROR state: %s: %s", error.reason_code.value, error)

    def _terminate_again(self, row: sa.Row, now: datetime.datetime) -> None:
        retry_at = step_deadline(now, self._limits.retry_interval_s)
        if self._database.write(_postpone_deletion, row, retry_at, now):
            metrics.SWEEPER_ACTIONS.labels("ask again to delete").inc()
            self._termination.send(self._context(row), row.uuid)

    def _context(self, row: sa.Row) -> RequestContext:
        """The request that asked for the build: its lines go on under its id."""
        context = new_context(project_id=row.project_id, user_id=row.user_id).under(row.request_id)
        return context.about(instance_uuid=row.uuid, attempt=row.attempt, host=row.host)


def _count(connection: sa.Connection, now: datetime.datetime) -> None:
    """Show how many builds there are in each step, and how long the oldest has been under way."""
    found = {row.task_state: row for row in connection.execute(_UNDER_WAY)}
    for step in states.BUILD_STEPS:
        metrics.BACKLOG.labels(step).set(found[step].number if step in found else 0)
    oldest = min((row.oldest for row in found.values()), default=now)
    metrics.OLDEST_BUILD.set(max((now - oldest).total_seconds(), 0.0))


def _past_deadline(connection: sa.Connection, now: datetime.datetime) -> list[sa.Row]:
    return list(connection.execute(_TIME_IS_OVER, {"now": now}).all())


def _due(connection: sa.Connection, now: datetime.datetime, down_time_s: float) -> tuple[list[sa.Row], list[sa.Row]]:
    """Steps that took too long, and builds that a host is spawning which has not been heard of in time."""
    rows = connection.execute(_LOOKED_AT, {"now": now}).all()
    overdue = [row for row in rows if row.step_deadline <= now]
    spawning = [row for row in rows if row.step_deadline > now]
    by_host = {each: services.get(connection, each, services.COMPUTE) for each in {row.host for row in spawning}}
    down = {name for name, service in by_host.items() if not service or not services.is_up(service, now, down_time_s)}
    return overdue, [row for row in spawning if row.host in down]


_UNDER_WAY = (
    sa.select(
        INSTANCES.c.task_state, sa.func.count().label("number"), sa.func.min(INSTANCES.c.created_at).label("oldest")
    )
    .where(
        sa.not_(INSTANCES.c.deleted),
        INSTANCES.c.vm_state == states.BUILDING,
        INSTANCES.c.task_state.in_(states.BUILD_STEPS),
    )
    .group_by(INSTANCES.c.task_state)
)
_NOW = sa.bindparam("now")
_TIME_IS_OVER = instances.live(
    INSTANCES.c.vm_state == states.BUILDING,
    INSTANCES.c.task_state.in_(states.BUILD_STEPS),
    INSTANCES.c.deadline <= _NOW,
).limit(BATCH)
#: Builds that still have time, and terminations; the most urgent first.
_LOOKED_AT = (
    instances.live(
        sa.or_(INSTANCES.c.step_deadline <= _NOW, INSTANCES.c.task_state == states.SPAWNING),
        sa.or_(INSTANCES.c.task_state == states.DELETING, INSTANCES.c.deadline.is_(None), INSTANCES.c.deadline > _NOW),
        INSTANCES.c.step_deadline.is_not(None),
    )
    .order_by(None)
    .order_by(INSTANCES.c.step_deadline, INSTANCES.c.created_at, INSTANCES.c.launch_index)
    .limit(2 * BATCH)
)


@failpoints.commits("conductor.postpone")
def _postpone(tx: Transaction, row: sa.Row, retry_at: datetime.datetime, now: datetime.datetime) -> bool:
    """Back to ``scheduling``, due again at ``retry_at``; False when somebody else has acted on the step."""
    moved = tx.execute(
        INSTANCES.update()
        .where(
            INSTANCES.c.uuid == row.uuid,
            INSTANCES.c.vm_state == states.BUILDING,
            INSTANCES.c.task_state == row.task_state,
            INSTANCES.c.attempt == row.attempt,
            INSTANCES.c.step_deadline == row.step_deadline,
        )
        .values(task_state=states.SCHEDULING, step_deadline=min(retry_at, row.deadline), updated_at=now)
    )
    if moved.rowcount == 1 and row.task_state == states.PLACING:
        # A scheduler that was asked before may have booked room for it: schedulers are told that it waits again.
        tx.touch(INSTANCES, row.uuid)
    return moved.rowcount == 1


def _postpone_deletion(tx: Transaction, row: sa.Row, retry_at: datetime.datetime, now: datetime.datetime) -> bool:
    moved = tx.execute(
        INSTANCES.update()
        .where(
            INSTANCES.c.uuid == row.uuid,
            INSTANCES.c.task_state == states.DELETING,
            INSTANCES.c.step_deadline == row.step_deadline,
        )
        .values(step_deadline=retry_at, updated_at=now)
    )
    return moved.rowcount == 1


@failpoints.commits("conductor.time_out")
def _end_overdue(tx: Transaction, uuid: str, error: Exception, request_id: str | None, now: datetime.datetime) -> bool:
    row = instances.lock(tx, uuid)
    over = row.vm_state == states.BUILDING and row.task_state in states.BUILD_STEPS and row.deadline <= now
    if over:
        failures.end_in_error(tx, row, error, row.host, request_id, now)
    return over
