# SPDX-License-Identifier: Apache-2.0
"""Acts on power tasks whose step is overdue: notify the host again, or end the task after its deadline."""

from __future__ import annotations

from oslo_log import log as logging

from conductor_stub.power.intake import PowerIntake
from conductor_stub.power.machine import PowerMachine
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet.clock import Clock, utcnow
from fleet.context import new_context
from fleet.db.engine.database import Database
from fleet.db.instances import instances
from fleet.db.tables.instances import RequestedInstance
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Rows that one sweep reads; the others wait for the next sweep.
BATCH = 500


class PowerSweeper:
    def __init__(self, database: Database, intake: PowerIntake, limits: StepLimits, clock: Clock = utcnow) -> None:
        self._database = database
        self._intake = intake
        self._limits = limits
        self._clock = clock
        self._machine = PowerMachine()

    def sweep(self) -> int:
        """Act on every overdue step; return how many there were."""
        overdue = self._database.read(instances.switching, self._clock(), BATCH)
        for row in overdue:
            self._sweep_one(row)
        return len(overdue)

    def _sweep_one(self, row: RequestedInstance) -> None:
        context = new_context(project_id=row.project_id, user_id=row.user_id).under(row.request_id)
        context = context.about(instance_uuid=row.uuid, host=row.host)
        ctx = StepContext(self._limits, self._clock(), row.request_id)
        late = self._database.write(self._machine.time_out, row.uuid, ctx)
        if late is not None:
            metrics.SWEEPER_ACTIONS.labels("end the power task").inc()
            LOG.warning("The power task is given up: %s", late.message)
            return
        for again in self._database.write(self._machine.postpone, [row], ctx):
            metrics.SWEEPER_ACTIONS.labels("notify again of the power task").inc()
            self._intake.notify(context, again)
