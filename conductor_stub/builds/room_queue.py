# SPDX-License-Identifier: Apache-2.0
"""Acts on builds that wait for room: wakes them, and ends those that have waited as long as they may.

::

    placing ── no host has room ──▶ queued ── woken ──▶ scheduling ──▶ handed out to any conductor
                                      └── wait_until ──▶ error, with the last refusal

A queued build is a row. No thread and no message belongs to it, so it survives any daemon.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from conductor_stub.builds.machine import BuildMachine
from conductor_stub.builds.placement import BuildPlacement
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext, new_context
from fleet.db import queued_builds
from fleet.db.engine import Database
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Rows that one look reads; the others wait for the next look.
BATCH = 500


class RoomQueue:
    """Every conductor calls :meth:`look` each second. While nothing is due, that is one query of an index."""

    def __init__(
        self, database: Database, placement: BuildPlacement, limits: StepLimits, clock: Clock = utcnow
    ) -> None:
        self._database = database
        self._machine = BuildMachine()
        self._placement = placement
        self._limits = limits
        self._clock = clock

    def look(self) -> int:
        """Act on what is due; return the number of builds."""
        first = self._database.read(queued_builds.first_due)
        if first is None or first > (now := self._clock()):
            return 0
        due = self._database.read(queued_builds.due, now, BATCH)
        for row in due:
            if row.wait_until <= now:
                self._end(row)
        self._wake([row for row in due if row.wait_until > now])
        return len(due)

    def _wake(self, rows: Sequence[Any]) -> None:
        """Hand out builds of one request together."""

        def request(row: Any) -> tuple[str, int]:
            return row.reservation_id, row.attempt

        for (_reservation, attempt), group in itertools.groupby(sorted(rows, key=request), request):
            uuids = [row.uuid for row in group]
            context = self._context(next(row for row in rows if row.uuid == uuids[0]))
            woken = self._database.write(self._machine.wake, uuids, self._step_context(context))
            if woken:
                self._placement.hand_out(context, [row.uuid for row in woken], attempt)

    def _end(self, row: Any) -> None:
        context = self._context(row)
        error = self._database.write(self._machine.time_out, row.uuid, self._step_context(context))
        if error is None:
            self._database.write(queued_builds.wake, [row.uuid])
            return
        metrics.BUILDS_ENDED.labels(states.ERROR, error.reason_code.value).inc()
        LOG.warning("Setting instance to ERROR state: %s: %s", error.reason_code.value, error)

    def _step_context(self, context: RequestContext) -> StepContext:
        return StepContext(self._limits, self._clock(), context.request_id)

    @staticmethod
    def _context(row: Any) -> RequestContext:
        context = new_context(project_id=row.project_id, user_id=row.user_id).under(row.request_id)
        return context.about(instance_uuid=row.uuid, attempt=row.attempt)
