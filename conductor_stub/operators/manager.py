# SPDX-License-Identifier: Apache-2.0
"""The RPC surface for operators, namespace ``operator``: instances and moves. The other modules beside it have the rest.

Called by :mod:`conductor_stub.operators.wiring`.
"""

from __future__ import annotations

from conductor_stub.builds import left_guest
from conductor_stub.moves import views
from conductor_stub.operators import instance_list, trace
from conductor_stub.operators.diagnosis import Diagnosis
from conductor_stub.operators.dry_run import DryRun
from conductor_stub.operators.views import (
    event_view,
    fault_view,
    instance_view,
    queued_view,
    require_filters,
    waiting_view,
)
from conductor_stub.volumes.views import of_attachment
from fleet.clock import Clock, as_text, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.db.hosts import services
from fleet.db.instances import history, instance_listing, instances, moves
from fleet.db.instances.waiting import room_queue
from fleet.db.volumes import attachments
from fleet.json_codec import JSONObject
from fleet.objects import BuildRequest, fields, request_keys
from fleet.objects.answers.hosts import Findings
from fleet.objects.answers.instances import (
    BriefInstance,
    FaultView,
    InstanceView,
    MigrationView,
    QueueView,
    SchedulingRequest,
    SchedulingRequestOf,
    ShownInstance,
    TraceView,
    WaitingView,
)
from fleet.rpc.endpoint import endpoint, require_size, served

#: Events, and faults, that are shown of one instance.
_NEWEST = 500


class OperatorManager:
    """Returns plain data. Times are ISO 8601 text in UTC."""

    target = served("conductor", "operator")

    def __init__(
        self,
        database: Database,
        dry_run: DryRun,
        diagnosis: Diagnosis,
        down_time_s: float,
        clock: Clock = utcnow,
    ) -> None:
        self._database = database
        self._dry_run = dry_run
        self._diagnosis = diagnosis
        self._down_time_s = down_time_s
        self._clock = clock

    # Instances

    @endpoint
    def list_instances(
        self,
        context: RequestContext,
        filters: dict[str, fields.Text | list[fields.Uuid] | bool | None] | None = None,
        limit: fields.Positive | None = None,
        marker: fields.Uuid | None = None,
        newest_first: bool = False,
        brief: bool = False,
        sort: list[list[fields.Text]] | None = None,
    ) -> list[InstanceView] | list[BriefInstance]:
        """The oldest first, or the newest.

        :param filters: named in ``instance_listing.FILTERS``; ``changed_since`` is ISO 8601 text, ``deleted`` true or false
        :param marker: an instance: only those after it
        :param brief: only what ``instance_listing.BRIEF`` names
        :param sort: another order: pairs of one of ``instance_listing.SORTED_BY`` and ``asc`` or ``desc``
        :raises errors.InvalidInput: an unknown filter, or more than MOST_BYTES; errors.NotFound: an unknown host or marker
        """
        require_filters(filters or {}, instance_listing.FILTERS)
        wanted, keys = instance_list.parsed(filters or {}), instance_list.sort_keys(sort or ())

        def read(connection: Connection) -> list[InstanceView] | list[BriefInstance]:
            found = instance_list.read(connection, limit, marker, newest_first, brief, keys, wanted)
            if not found and wanted.get("host"):
                services.require_host(connection, str(wanted["host"]))
            return found

        return self._database.read(read)

    @endpoint
    def show_instance(self, context: RequestContext, name: fields.Name) -> ShownInstance:
        """The newest events and faults are shown: a user may make any number of them.

        :raises errors.NotFound: errors.Conflict: several have that name
        """

        def read(connection: Connection) -> ShownInstance:
            row = instances.find(connection, name)
            shown: ShownInstance = {
                "instance": instance_view(row),
                "faults": [fault_view(fault) for fault in history.faults(connection, row.uuid, _NEWEST)],
                "events": [event_view(event) for event in history.events(connection, row.uuid, _NEWEST)],
                "migration": self._last_migration(connection, row.uuid),
                "queued": queued_view(connection, row),
                "volumes": [of_attachment(each) for each in attachments.of_instances(connection, [row.uuid])],
            }
            if awaited := left_guest.awaited(connection, row, self._clock(), self._down_time_s):
                shown["waits_for"] = awaited
            return shown

        return self._database.read(read)

    @endpoint
    def newest_faults(self, context: RequestContext, uuids: fields.Uuids) -> dict[str, FaultView]:
        """The newest fault of each of these instances that has one, by uuid."""
        found = self._database.read(history.newest_faults, uuids)
        return {uuid: fault_view(fault) for uuid, fault in found.items()}

    @endpoint
    def trace(self, context: RequestContext, name: fields.Name) -> TraceView:
        """See :func:`conductor_stub.operators.trace.read`."""
        return self._database.read(trace.read, name)

    @staticmethod
    def _last_migration(connection: Connection, uuid: str) -> MigrationView | None:
        found = moves.list_all(connection, limit=1, instance_uuid=uuid)
        return views.view(found[0]) if found else None

    @endpoint
    def list_migrations(
        self,
        context: RequestContext,
        filters: dict[fields.Name, fields.Name | list[fields.Uuid]] | None = None,
        limit: fields.Positive | None = None,
        marker: fields.Uuid | None = None,
    ) -> list[MigrationView]:
        """The newest first. A record is never large, so a limit alone bounds the answer.

        :param marker: only those after this one
        :raises errors.InvalidInput: an unknown filter; errors.NotFound: an unknown host, or marker
        """
        filters = filters or {}
        require_filters(filters, moves.FILTERS)
        found = self._database.read(moves.list_all, limit=limit, marker=marker, **filters)
        if not found and not marker and filters.get("host"):
            self._database.read(services.require_host, str(filters["host"]))
        return [views.view(row) for row in found]

    @endpoint
    def list_queue(
        self, context: RequestContext, project_id: fields.Text | None = None, limit: fields.Positive | None = None
    ) -> QueueView:
        """``builds`` that wait for room, in the order in which they are woken, and ``now``."""

        def read(connection: Connection) -> list[WaitingView]:
            kept = room_queue.pulse(connection)
            return [
                waiting_view(row, kept.kept_host if row.uuid == kept.kept_for else None)
                for row in room_queue.listed(connection, project_id, limit)
            ]

        return {"builds": self._database.read(read), "now": as_text(self._clock())}

    @endpoint
    def request_of(self, context: RequestContext, name: fields.Name) -> SchedulingRequest:
        return self._dry_run.request_of(name)

    @endpoint
    def requests_of(
        self, context: RequestContext, uuids: fields.Uuids, live: bool = False
    ) -> list[SchedulingRequestOf]:
        """The requests that place these instances now; one that does not exist, or cannot be read, is left out.

        :param live: of a guest that can move while it runs, only hosts that take it so
        """
        return self._dry_run.requests_of(uuids, live)

    @endpoint
    def request_for(self, context: RequestContext, request: JSONObject) -> SchedulingRequest:
        require_size(request, "request")
        request_keys.examine(request)
        return self._dry_run.request_for(context, BuildRequest.from_wire(request))

    @endpoint
    def examine(self, context: RequestContext) -> Findings:
        return self._diagnosis.run()
