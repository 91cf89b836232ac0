# SPDX-License-Identifier: Apache-2.0
"""Acts on volumes whose step is overdue: hand out again, notify the agent again, or go on without it.

Called by :mod:`conductor_stub.volumes.wiring`.
"""

from __future__ import annotations

import datetime

from oslo_log import log as logging

from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.sweeper import PlacedSweeper
from conductor_stub.volumes import failures
from conductor_stub.volumes.machine import VolumeMachine
from conductor_stub.volumes.placement import VolumePlacement
from fleet import volume_states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext, new_context
from fleet.db.engine.database import Connection, Database
from fleet.db.hosts import services
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import pools, volumes
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Rows that one sweep reads; the others wait for the next sweep.
BATCH = 200


class VolumeSweeper(PlacedSweeper[VolumeRow, VolumeRow]):
    _placement: VolumePlacement

    def __init__(
        self, database: Database, placement: VolumePlacement, limits: StepLimits, clock: Clock = utcnow
    ) -> None:
        super().__init__(database, VolumeMachine(), placement, limits, clock)

    def sweep(self) -> int:
        now = self._clock()
        self._database.read(_count, now)
        overdue = self._database.read(volumes.due, now, BATCH)
        for row in overdue:
            with self._apart(row):
                self._sweep_one(row)
        return len(overdue)

    def _sweep_one(self, row: VolumeRow) -> None:
        if row.step not in self._machine.unclaimed:
            self._go_on(row)
        elif not self._end(row):
            self._hand_out_again([row])

    def _ended(self, context: RequestContext, row: VolumeRow, result: VolumeRow) -> None:
        LOG.warning("The volume is %s now: %s", result.status, result.failure and result.failure["message"])

    def _go_on(self, row: VolumeRow) -> None:
        """The agent of the backend is late, or silent."""
        context, ctx = self._context(row), self._step_context(row)
        down_time_s = self._limits.service_down_time_s
        host = volumes.acting_host(row)
        hosts = [] if host is None else [host]
        silent = self._database.read(services.silent, hosts, ctx.now, down_time_s, services.VOLUME)
        following = self._database.write(failures.overdue, row, bool(silent), ctx)
        if following is None:
            following = self._postpone(row)
        if following is not None:
            now = f"{following.status}/{following.step or '-'}"
            LOG.warning("Volume was overdue as %s/%s on backend %s; it is %s now", row.status, row.step, host, now)
            self._placement.notify(context, following)

    def _context(self, row: VolumeRow) -> RequestContext:
        context = new_context(project_id=row.project_id, user_id=row.user_id).under(row.request_id)
        return context.about(volume=row.uuid, attempt=row.attempt, host=row.host)


def _count(connection: Connection, now: datetime.datetime) -> None:
    """Show how many volumes there are in each step, how long the oldest waits, and the space of the pools."""
    found = volumes.under_way(connection)
    for step in volume_states.STEPS:
        metrics.VOLUMES.labels(step).set(found[step].number if step in found else 0)
    oldest = min((row.oldest for row in found.values() if row.oldest is not None), default=now)
    metrics.OLDEST_VOLUME.set(max((now - oldest).total_seconds(), 0.0))
    space = pools.space_of_all(connection)
    metrics.POOLS.set(space.number)
    for kind in ("total", "free", "allocated"):
        metrics.POOL_SPACE.labels(kind).set(getattr(space, kind) or 0.0)
