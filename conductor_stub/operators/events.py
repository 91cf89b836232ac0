# SPDX-License-Identifier: Apache-2.0
"""What happens to instances and volumes, for callers that follow it."""

from __future__ import annotations

from typing import Any

import oslo_messaging

from conductor_stub.operators.views import plain
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.db.feed import recent_events
from fleet.objects import fields
from fleet.rpc import versions
from fleet.rpc.endpoint import endpoint


class EventsManager:
    """The RPC surface of the namespace ``operator`` for events."""

    target = oslo_messaging.Target(namespace="operator", version=versions.CURRENT["conductor"])

    def __init__(self, database: Database, clock: Clock = utcnow) -> None:
        self._database = database
        self._clock = clock

    @endpoint
    def list_events(
        self, context: RequestContext, after: dict[fields.Name, fields.Bytes] | None = None
    ) -> dict[str, Any]:
        """Return ``events``, oldest first, and the ``position`` to continue from; see ``fleet.db.feed.recent_events.after``.

        A project sees the events of its own instances and volumes.

        :param after: the ``position`` of the answer before. None: no events, and the position of now
        """
        if after is None:
            return {"events": [], "position": self._database.read(recent_events.newest)}
        project_id = None if context.is_admin else context.project_id or ""

        def read(connection: Connection) -> tuple[list[dict[str, Any]], dict[str, int]]:
            return recent_events.after(connection, after, self._clock(), project_id)

        events, position = self._database.read(read)
        shown = [{name: plain(value) for name, value in event.items()} for event in events]
        return {"events": shown, "position": position}
