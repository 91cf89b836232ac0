# SPDX-License-Identifier: Apache-2.0
"""Calls of agents to conductors, and between conductors: moves. Called by :mod:`fleet.rpc.clients`."""

from __future__ import annotations

from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.rpc.clients.api import API, Message


class MigrationAPI(API):
    """Advances moves."""

    topic = "conductor"
    namespace = "migration"

    def place_migration(self, context: RequestContext, migration_uuid: str, attempt: int) -> None:
        self._cast(context, "place_migration", migration_uuid=migration_uuid, attempt=attempt)

    def get_host_migrations(
        self, context: RequestContext, host: str, instance_uuids: list[str] | None = None
    ) -> list[JSONObject]:
        return self._call(context, "get_host_migrations", host=host, instance_uuids=instance_uuids)

    def claim_migration(
        self,
        context: RequestContext,
        migration_uuid: str,
        attempt: int,
        host: str,
        node: str,
        incarnation: str,
        claim: JSONObject,
    ) -> JSONObject:
        return self._call(
            context,
            "claim_migration",
            migration_uuid=migration_uuid,
            attempt=attempt,
            host=host,
            node=node,
            incarnation=incarnation,
            claim=claim,
        )

    def migration_done(
        self, context: RequestContext, migration_uuid: str, attempt: int, host: str, status: str
    ) -> JSONObject:
        arguments = {"migration_uuid": migration_uuid, "attempt": attempt, "host": host, "status": status}
        return self._call(context, "migration_done", **arguments)

    def migration_copied(
        self, context: RequestContext, migration_uuid: str, attempt: int, host: str, percent: int
    ) -> None:
        """An older conductor does not get it."""
        if self._can_send("1.14"):
            said = {"migration_uuid": migration_uuid, "attempt": attempt, "host": host, "percent": percent}
            self._send(context, Message("migration_copied", said, version="1.14"))

    def migration_failed(
        self,
        context: RequestContext,
        migration_uuid: str,
        attempt: int,
        host: str,
        status: str,
        failure: JSONObject,
    ) -> JSONObject:
        arguments = {"migration_uuid": migration_uuid, "attempt": attempt, "host": host, "status": status}
        return self._call(context, "migration_failed", failure=failure, **arguments)
