# SPDX-License-Identifier: Apache-2.0
"""Acts on attachments whose step is overdue: notify the host again, or undo what has not ended by its deadline.

Called by :mod:`conductor_stub.attachments.wiring`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from oslo_log import log as logging

from conductor_stub.attachments.intake import AttachmentIntake
from conductor_stub.attachments.machine import AttachmentMachine, AttachmentTimeout
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.sweeper import TimedSweeper
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext, new_context
from fleet.db.engine.database import Database
from fleet.db.tables.volumes import AttachmentRow
from fleet.db.volumes import attachments
from fleet.db.volumes.attachments import PlacedAttachment
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Rows that one sweep reads; the others wait for the next sweep.
BATCH = 200


class AttachmentSweeper(TimedSweeper[AttachmentRow, AttachmentTimeout]):
    def __init__(self, database: Database, intake: AttachmentIntake, limits: StepLimits, clock: Clock = utcnow) -> None:
        super().__init__(database, AttachmentMachine(), limits, clock)
        self._intake = intake

    def _overdue(self) -> Sequence[PlacedAttachment]:
        return self._database.read(attachments.due, self._clock(), BATCH)

    def _ended(self, context: RequestContext, row: AttachmentRow, result: AttachmentTimeout) -> None:
        """Log the end of an overdue attachment, and notify its host, which undoes its part."""
        metrics.SWEEPER_ACTIONS.labels("give up an attachment").inc()
        LOG.warning("%s", result.message)
        self._notify(context, row.uuid)

    def _again(self, context: RequestContext, row: AttachmentRow) -> None:
        metrics.SWEEPER_ACTIONS.labels("notify again of an attachment").inc()
        self._notify(context, row.uuid)

    def _notify(self, context: RequestContext, uuid: str) -> None:
        now = self._database.read(attachments.find, uuid)
        if now is not None:
            self._intake.notify(context, now)

    def _context(self, row: AttachmentRow) -> RequestContext:
        placed = cast("PlacedAttachment", row)  # one of _overdue
        context = new_context(project_id=placed.project_id, user_id=placed.user_id).under(row.request_id)
        return context.about(instance_uuid=row.instance_uuid, host=placed.instance_host)
