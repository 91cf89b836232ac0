# SPDX-License-Identifier: Apache-2.0
"""Events of instances and volumes, for callers that follow them.

:mod:`fleet.rpc.clients.operator.instances` asks for them.
"""

from __future__ import annotations

from typing import Annotated

import pydantic

from conductor_stub.operators.views import plain
from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.db.feed import recent_events
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.answers.instances import EventsView
from fleet.rpc.endpoint import endpoint, served

#: Newest events of one answer.
Last = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=1000)]


class EventsManager:
    """The RPC surface of the namespace ``operator`` for events."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, clock: Clock = utcnow) -> None:
        self._database = database
        self._clock = clock

    @endpoint
    def list_events(
        self,
        context: RequestContext,
        after: dict[fields.Name, fields.Bytes] | None = None,
        last: Last | None = None,
        host: fields.Name | None = None,
        uuid: fields.Uuid | None = None,
    ) -> EventsView:
        """Return ``events``, oldest first, and the ``position`` to continue from; see ``fleet.db.feed.recent_events.after``.

        A project sees the events of its own instances and volumes.

        :param after: the ``position`` of the answer before. None: the ``last`` ones, and the position of now
        :param last: how many of the newest events; None: no events
        :param host: of the ``last`` ones, only those of this host or storage backend; the administrator's
        :param uuid: of the ``last`` ones, only those of this instance, volume or snapshot
        :raises errors.InvalidInput: errors.NotTrusted:
        """
        if after is not None and (last, host, uuid) != (None, None, None):
            raise errors.InvalidInput(field="after", reason="cannot be combined with last, host and uuid")
        if host is not None and not context.is_admin:
            raise errors.NotTrusted(reason="only the administrator sees the events of a host")
        project_id = None if context.is_admin else context.project_id or ""

        def read(connection: Connection) -> tuple[list[JSONObject], dict[str, int]]:
            if after is not None:
                return recent_events.after(connection, after, self._clock(), project_id)
            position = recent_events.newest(connection)
            return recent_events.last(connection, position, last or 0, project_id, host, uuid), position

        events, position = self._database.read(read)
        shown = [plain(event) for event in events]
        return {"events": shown, "position": position}
