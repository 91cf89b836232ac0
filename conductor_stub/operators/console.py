# SPDX-License-Identifier: Apache-2.0
"""Reads the consoles of guests from their hosts, namespace ``operator``.

Their hosts have it. Called by :mod:`conductor_stub.operators.wiring`.
"""

from __future__ import annotations

import oslo_messaging

from fleet import errors
from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.db.hosts import services
from fleet.db.instances import instances
from fleet.objects import fields
from fleet.rpc.clients import ComputeAPI
from fleet.rpc.endpoint import endpoint, served


class ConsoleManager:
    target = served("conductor", "operator")

    def __init__(self, database: Database, compute: ComputeAPI) -> None:
        self._database = database
        self._compute = compute

    @endpoint
    def get_console_output(self, context: RequestContext, name: fields.Name) -> str:
        """Return the end of the guest's output.

        :raises errors.NotFound: there is no such instance, or its host has no such guest
        :raises errors.Conflict: several have that name, or no host has it
        :raises errors.ServiceDown: the agent of its host does not answer
        :raises errors.NotSupported: the driver of its host has no consoles
        :raises errors.VersionPinned: the agent is too old
        """
        row = self._database.read(instances.find, name)
        if row.host is None:
            raise errors.Conflict(kind="Instance", name=row.uuid, reason="is on no host, so it has no console")
        try:
            return self._compute.get_console_output(context, row.host, row.uuid)
        except (oslo_messaging.MessagingException, oslo_messaging.MessageUndeliverable) as silence:
            reason = f"it does not answer ({type(silence).__name__})"
            host = row.host if context.is_admin else "of the instance"
            raise errors.ServiceDown(binary=services.COMPUTE, host=host, reason=reason) from None
