# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of administrative acts, namespace ``operator``.

Called by :mod:`conductor_stub.operators.wiring`. ``conductor_stub.steps.acts`` records them.
"""

from __future__ import annotations

import datetime
from typing import Annotated

import oslo_messaging
import pydantic

from conductor_stub.operators.views import plain
from fleet import states
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.db.tables.operations.acts import AcceptedBuild
from fleet.db.upkeep import acts
from fleet.json_codec import JSONObject
from fleet.rpc import versions
from fleet.rpc.endpoint import endpoint

Limit = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=1000)]
_FIELDS = ("act", "subject", "changes", "user_id", "project_id", "request_id", "created_at")


class ActManager:
    target = oslo_messaging.Target(namespace="operator", version=versions.CURRENT["conductor"])

    def __init__(self, database: Database) -> None:
        self._database = database

    @endpoint
    def list_acts(self, context: RequestContext, limit: Limit = 100) -> list[JSONObject]:
        """Return the changes by administrators and the accepted builds, the newest first."""

        def read(connection: Connection) -> list[JSONObject]:
            recorded = [{name: getattr(row, name) for name in _FIELDS} for row in acts.newest(connection, limit)]
            found = recorded + [_build(row) for row in acts.newest_builds(connection, limit)]
            return sorted(found, key=_moment, reverse=True)[:limit]

        return [{**act, "created_at": plain(act["created_at"])} for act in self._database.read(read)]


def _build(row: AcceptedBuild) -> JSONObject:
    changes = {"vm_state": [None, states.BUILDING]}
    sender = {"user_id": row.user_id, "project_id": row.project_id, "request_id": row.request_id}
    subject = f"{row.name} ({row.uuid})"
    return {"act": "server.create", "subject": subject, "changes": changes, **sender, "created_at": row.created_at}


def _moment(act: JSONObject) -> datetime.datetime:
    moment: datetime.datetime = act["created_at"]
    return moment
