# SPDX-License-Identifier: Apache-2.0
"""The conductor's methods for agents about attachments.

Agents call them over RPC (:mod:`fleet.rpc.clients.conductor`).
"""

from __future__ import annotations

from oslo_log import log as logging

from conductor_stub.attachments import machine
from conductor_stub.attachments.machine import AttachmentReport
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.db.volumes import attachments
from fleet.json_codec import JSONObject
from fleet.objects import Attachment, fields
from fleet.rpc.endpoint import endpoint, served

LOG = logging.getLogger(__name__)


class AttachmentManager:
    """No namespace: the RPC surface for agents of hosts."""

    target = served("conductor")

    def __init__(self, database: Database, limits: StepLimits, clock: Clock = utcnow) -> None:
        self._database = database
        self._limits = limits
        self._clock = clock

    @endpoint
    def get_attachments(
        self, context: RequestContext, instance_uuid: fields.Uuid, host: fields.Name
    ) -> list[JSONObject]:
        """The attachments of an instance; empty if it is not on ``host``."""
        rows = self._database.read(attachments.of_instances, [instance_uuid])
        return [attachments.to_attachment(row).to_wire() for row in rows if row.instance_host == host]

    @endpoint
    def attachment_done(
        self,
        context: RequestContext,
        attachment_uuid: fields.Uuid,
        host: fields.Name,
        status: fields.Name,
        attempt: fields.Natural,
        failure: fields.LongText = "",
    ) -> JSONObject | None:
        """A host has done its part, or cannot. Return the attachment as it is now; None if it is no more."""
        said = {"uuid": attachment_uuid, "host": host, "status": status, "attempt": attempt, "failure": failure}
        report = fields.parse(AttachmentReport, said)
        ctx = StepContext(self._limits, self._clock(), context.request_id)
        left = self._database.write(machine.done, report, ctx)
        if failure:
            LOG.warning("%s of a volume failed on host %s: %s", status, host, failure)
        else:
            LOG.info("%s of a volume is done on host %s", status, host)
        return None if left is None else self._shown(attachment_uuid, host)

    def _shown(self, uuid: str, host: str) -> JSONObject | None:
        """Return the attachment as the host may see it. None if there is none, or the instance is on another host."""

        def read(connection: Connection) -> Attachment | None:
            row = attachments.find(connection, uuid)
            return attachments.to_attachment(row) if row and row.instance_host == host else None

        found = self._database.read(read)
        return None if found is None else found.to_wire()
