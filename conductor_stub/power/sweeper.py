# SPDX-License-Identifier: Apache-2.0
"""Acts on power tasks whose step is overdue: notify the host again, or end the task after its deadline.

Called by :mod:`conductor_stub.power.wiring`.
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_log import log as logging

from conductor_stub.power.intake import PowerIntake
from conductor_stub.power.machine import PowerMachine, PowerTimeout
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.sweeper import TimedSweeper
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext, new_context
from fleet.db.engine.database import Database
from fleet.db.instances import instances
from fleet.db.tables.instances import RequestedInstance
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Rows that one sweep reads; the others wait for the next sweep.
BATCH = 500


class PowerSweeper(TimedSweeper[RequestedInstance, PowerTimeout]):
    def __init__(self, database: Database, intake: PowerIntake, limits: StepLimits, clock: Clock = utcnow) -> None:
        super().__init__(database, PowerMachine(), limits, clock)
        self._intake = intake

    def sweep(self) -> int:
        return super().sweep() + self._offload()

    def _offload(self) -> int:
        """Let instances give their hosts back that have been shelved for long enough; return how many there were."""
        due = self._database.read(instances.shelved_until, self._clock(), BATCH)
        for row in due:
            metrics.SWEEPER_ACTIONS.labels("offload").inc()
            with self._apart(row):
                self._intake.offload(self._context(row), row)
        return len(due)

    def _overdue(self) -> Sequence[RequestedInstance]:
        return self._database.read(instances.switching, self._clock(), BATCH)

    def _ended(self, context: RequestContext, row: RequestedInstance, result: PowerTimeout) -> None:
        metrics.SWEEPER_ACTIONS.labels("end the power task").inc()
        LOG.warning("The power task is given up: %s", result.message)

    def _again(self, context: RequestContext, row: RequestedInstance) -> None:
        metrics.SWEEPER_ACTIONS.labels("notify again of the power task").inc()
        self._intake.notify(context, row)

    def _context(self, row: RequestedInstance) -> RequestContext:
        context = new_context(project_id=row.project_id, user_id=row.user_id).under(row.request_id)
        return context.about(instance_uuid=row.uuid, host=row.host)
