# SPDX-License-Identifier: Apache-2.0
"""Live migrations of one server that are under way: list, show and abort. None is forced to its end.

Called by :mod:`fleet_api.application`.
"""

from __future__ import annotations

import falcon

from fleet import errors, move_states
from fleet.json_codec import JSONMapping
from fleet_api.compute import migrations
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import Fault, NotHere
from fleet_api.servers.servers import show


class LiveMigration(migrations.Places):
    """The sizes are null: the conductor knows one per cent of all that is copied."""

    server_uuid: str
    memory_total_bytes: None
    memory_processed_bytes: None
    memory_remaining_bytes: None
    disk_total_bytes: None
    disk_processed_bytes: None
    disk_remaining_bytes: None


class ServerMigrations:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"migrations": list[LiveMigration]}))
    def on_get(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        response.media = {"migrations": [_view(request, each) for each in self._of(request, server_id)]}

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"migration": LiveMigration}))
    def on_get_one(self, request: falcon.Request, response: falcon.Response, server_id: str, migration_id: str) -> None:
        response.media = {"migration": _view(request, self._one(request, server_id, migration_id))}

    @guard.by("fleet:others")
    @answers.gives(answers.NOTHING, 202)
    def on_delete_one(
        self, request: falcon.Request, response: falcon.Response, server_id: str, migration_id: str
    ) -> None:
        found = self._one(request, server_id, migration_id)
        self._conductor.operator(request).abort_live_migration(name=server_id, migration=found["uuid"])
        response.status = falcon.HTTP_202

    @guard.by("fleet:others")
    @answers.gives(answers.NOTHING, 202)
    @bodies.takes(bodies.Body({"force_complete": None}))
    def on_post_action(
        self, request: falcon.Request, _response: falcon.Response, server_id: str, migration_id: str
    ) -> None:
        """Refuse the action. :raises NotHere: no driver can do it; Fault: the server has no such migration"""
        body = bodies.whole(request)
        if len(body) != 1:
            raise errors.InvalidInput(field="action", reason="is required, and there can be only one")
        self._one(request, server_id, migration_id)
        raise NotHere(f"The action {next(iter(body))[:100]} of a live migration")

    def _one(self, request: falcon.Request, server_id: str, migration_id: str) -> JSONMapping:
        for each in self._of(request, server_id):
            if migration_id in (each["uuid"], str(migrations.number(each))):
                return each
        message = f"Server {server_id} has no live migration {migration_id[:100]} under way."
        raise Fault(404, message)

    def _of(self, request: falcon.Request, server_id: str) -> list[JSONMapping]:
        uuid = show(self._conductor, request, server_id)["instance"]["uuid"]
        found = self._conductor.operator(request).list_migrations(filters={"instance_uuid": uuid})
        return [
            each
            for each in found
            if each["migration_type"] == move_states.LIVE_MIGRATION and each["status"] in move_states.UNDER_WAY
        ]


def _view(request: falcon.Request, record: JSONMapping) -> LiveMigration:
    return {
        **migrations.places(request, record),
        "server_uuid": record["instance_uuid"],
        "memory_total_bytes": None,
        "memory_processed_bytes": None,
        "memory_remaining_bytes": None,
        "disk_total_bytes": None,
        "disk_processed_bytes": None,
        "disk_remaining_bytes": None,
    }
