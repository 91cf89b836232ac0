# SPDX-License-Identifier: Apache-2.0
"""Acts on attachments whose step is overdue: notify the host again, or undo what has not ended by its deadline."""

from __future__ import annotations

from oslo_log import log as logging

from conductor_stub.attachments.intake import AttachmentIntake
from conductor_stub.attachments.machine import AttachmentMachine
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet.clock import Clock, utcnow
from fleet.context import new_context
from fleet.db.engine.database import Database
from fleet.db.volumes import attachments
from fleet.db.volumes.attachments import PlacedAttachment
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Rows that one sweep reads; the others wait for the next sweep.
BATCH = 200


class AttachmentSweeper:
    def __init__(self, database: Database, intake: AttachmentIntake, limits: StepLimits, clock: Clock = utcnow) -> None:
        self._database = database
        self._intake = intake
        self._limits = limits
        self._clock = clock
        self._machine = AttachmentMachine()

    def sweep(self) -> int:
        """Act on every overdue step; return how many there were."""
        overdue = self._database.read(attachments.due, self._clock(), BATCH)
        for row in overdue:
            self._sweep_one(row)
        return len(overdue)

    def _sweep_one(self, row: PlacedAttachment) -> None:
        context = new_context(project_id=row.project_id, user_id=row.user_id).under(row.request_id)
        context = context.about(instance_uuid=row.instance_uuid, host=row.instance_host)
        ctx = StepContext(self._limits, self._clock(), row.request_id)
        late = self._database.write(self._machine.time_out, row.uuid, ctx)
        if late is not None:
            metrics.SWEEPER_ACTIONS.labels("give up an attachment").inc()
            LOG.warning("%s", late.message)
        elif not self._database.write(self._machine.postpone, [row], ctx):
            return
        else:
            metrics.SWEEPER_ACTIONS.labels("notify again of an attachment").inc()
        now = self._database.read(attachments.find, row.uuid)
        if now is not None:
            self._intake.notify(context, now)
