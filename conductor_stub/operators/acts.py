# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of administrative acts, namespace ``operator``.

Called by :mod:`conductor_stub.operators.wiring`. ``conductor_stub.steps.acts`` records them.
"""

from __future__ import annotations

import operator
from typing import Annotated

import pydantic

from fleet import states
from fleet.clock import as_text
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.db.tables.operations.acts import AcceptedBuild, ActRow
from fleet.db.upkeep import acts
from fleet.objects.answers.hosts import ActView
from fleet.rpc.endpoint import endpoint, served

Limit = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=1000)]


class ActManager:
    target = served("conductor", "operator")

    def __init__(self, database: Database) -> None:
        self._database = database

    @endpoint
    def list_acts(self, context: RequestContext, limit: Limit = 100) -> list[ActView]:
        """Return the changes by administrators and the accepted builds, the newest first."""

        def read(connection: Connection) -> list[ActView]:
            recorded = [(row.created_at, _recorded(row)) for row in acts.newest(connection, limit)]
            built = [(row.created_at, _built(row)) for row in acts.newest_builds(connection, limit)]
            newest = sorted(recorded + built, key=operator.itemgetter(0), reverse=True)
            return [act for _moment, act in newest[:limit]]

        return self._database.read(read)


def _recorded(row: ActRow) -> ActView:
    return {
        "act": row.act,
        "subject": row.subject,
        "changes": row.changes,
        "user_id": row.user_id,
        "project_id": row.project_id,
        "request_id": row.request_id,
        "created_at": as_text(row.created_at),
    }


def _built(row: AcceptedBuild) -> ActView:
    return {
        "act": "server.create",
        "subject": f"{row.name} ({row.uuid})",
        "changes": {"vm_state": [None, states.BUILDING]},
        "user_id": row.user_id,
        "project_id": row.project_id,
        "request_id": row.request_id,
        "created_at": as_text(row.created_at),
    }
