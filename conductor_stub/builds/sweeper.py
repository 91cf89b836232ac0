# SPDX-License-Identifier: Apache-2.0
"""Acts on builds and deletions whose step is overdue: hand out again, try another host, repeat, or end with a fault.

Called by :mod:`conductor_stub.builds.wiring`.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence

from oslo_log import log as logging

from conductor_stub.builds import left_guest
from conductor_stub.builds.machine import BuildMachine
from conductor_stub.builds.placement import BuildPlacement
from conductor_stub.builds.termination import Termination
from conductor_stub.steps import faults
from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.sweeper import PlacedSweeper
from fleet import errors, states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext, new_context
from fleet.db.engine.database import Connection, Database
from fleet.db.instances import builds, instances
from fleet.db.tables.instances import RequestedInstance
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Rows that one sweep reads; the others wait for the next sweep.
BATCH = 500


class BuildSweeper(PlacedSweeper[RequestedInstance, errors.FleetError]):
    """The service calls ``end_overdue`` and ``retry_lost`` every ``sweep_interval`` seconds, each in its own thread.

    While the broker is away no message can be sent, and the sender may block for as long. Deadlines are kept by the
    database alone, so they need a thread of their own.
    """

    _placement: BuildPlacement

    def __init__(
        self,
        database: Database,
        placement: BuildPlacement,
        termination: Termination,
        limits: StepLimits,
        clock: Clock = utcnow,
    ) -> None:
        super().__init__(database, BuildMachine(), placement, limits, clock)
        self._termination = termination

    def sweep(self) -> int:
        return self.end_overdue() + self.retry_lost()

    def end_overdue(self) -> int:
        """End the builds whose deadline has passed; return how many there were."""
        now = self._clock()
        overdue = self._database.read(builds.past_deadline, now, BATCH)
        self._database.read(_count, now)
        for row in overdue:
            with self._apart(row):
                self._end(row)
        return len(overdue)

    def retry_lost(self) -> int:
        """Act on steps that took too long, and on builds that a silent host spawns; return how many there were."""
        down_time_s = self._limits.service_down_time_s
        overdue, stranded = self._database.read(builds.overdue, self._clock(), down_time_s, 2 * BATCH)
        left = self._database.read(builds.left_guests, self._clock(), BATCH)
        waiting = []
        for row in overdue:
            with self._apart(row):
                if row.task_state == states.DELETING:
                    self._terminate_again(row)
                elif row.task_state == states.SPAWNING:
                    timeout_s = self._limits.spawn_timeout_s
                    self._give_up_host(row, f"host {row.host} did not finish spawning in {timeout_s:.0f} s")
                else:
                    waiting.append(row)
        self._hand_out(waiting)
        for row in stranded:
            with self._apart(row):
                gone = self._give_up_host(row, f"host {row.host} stopped sending heartbeats")
                metrics.SWEEPER_ACTIONS.labels("give up the host").inc(gone)
        for given_up in left:
            with self._apart(given_up):
                self._remove_guest(given_up)
        return len(overdue) + len(stranded) + len(left)

    def _hand_out(self, rows: Sequence[RequestedInstance]) -> None:
        """Hand out builds of one request together, as they came. An unshelved instance differs from them by now."""

        def request(row: RequestedInstance) -> tuple[str, int]:
            return row.uuid if row.shelved else row.reservation_id, row.attempt

        for _request, group in itertools.groupby(sorted(rows, key=request), request):
            those = list(group)
            with self._apart(those[0]):
                metrics.SWEEPER_ACTIONS.labels("hand out again").inc(self._hand_out_again(those))

    def _give_up_host(self, row: RequestedInstance, reason: str) -> bool:
        """Return False if the build has moved on, or waits for its host."""
        assert row.task_state is not None, "the build is in a step"
        host, node = instances.place_of(row)
        failure = Failure(step=row.task_state, code=faults.AttemptLost.__name__, message=reason)
        return self._placement.reschedule(
            self._context(row), Attempt(row.uuid, row.attempt, host, node), failure, (), unheard=True
        )

    def _remove_guest(self, row: RequestedInstance) -> None:
        context = self._context(row)
        host = self._database.write(left_guest.overdue, row, self._step_context(row))
        if host is not None:
            metrics.SWEEPER_ACTIONS.labels("ask to remove a guest").inc()
            self._termination.remove_guest(context.about(instance_uuid=row.uuid, host=host), row.uuid, host)

    def _ended(self, context: RequestContext, row: RequestedInstance, result: errors.FleetError) -> None:
        """:param result: the fault"""
        metrics.SWEEPER_ACTIONS.labels("end overdue").inc()
        metrics.BUILDS_ENDED.labels(states.ERROR, result.reason_code.value).inc()
        LOG.warning("Setting instance to ERROR state: %s: %s", result.reason_code.value, result)

    def _terminate_again(self, row: RequestedInstance) -> None:
        now = self._clock()
        due = self._step_context(row).due(self._limits.retry_interval_s)
        if self._database.write(builds.postpone_deletion, row, due, now):
            metrics.SWEEPER_ACTIONS.labels("ask again to delete").inc()
            self._termination.send(self._context(row), row.uuid)

    def _context(self, row: RequestedInstance) -> RequestContext:
        context = new_context(project_id=row.project_id, user_id=row.user_id).under(row.request_id)
        return context.about(instance_uuid=row.uuid, attempt=row.attempt, host=row.host)


def _count(connection: Connection, now: datetime.datetime) -> None:
    """Show how many builds there are in each step, and the age of the oldest."""
    found = builds.under_way(connection)
    for step in states.BUILD_STEPS:
        metrics.BACKLOG.labels(step).set(found[step].number if step in found else 0)
    oldest = min((row.oldest for row in found.values() if row.oldest), default=now)
    metrics.OLDEST_BUILD.set(max((now - oldest).total_seconds(), 0.0))
