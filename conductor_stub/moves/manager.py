# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of moves for conductors and hosts.

``intake`` has that for operators. Called by :mod:`conductor_stub.moves.wiring`.
"""

from __future__ import annotations

from typing import Annotated

import pydantic

from conductor_stub.moves.placement import MovePlacement
from conductor_stub.moves.progress import MoveProgress
from conductor_stub.steps.attempt import Attempt, Failure
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Claimed, fields
from fleet.rpc.endpoint import endpoint, served

Percent = Annotated[int, pydantic.Field(ge=0, le=100)]


class MigrationManager:
    """Namespace ``migration``: moves are placed, claimed, advanced."""

    target = served("conductor", "migration")

    def __init__(self, placement: MovePlacement, progress: MoveProgress) -> None:
        self._placement = placement
        self._progress = progress

    @endpoint
    def place_migration(self, context: RequestContext, migration_uuid: fields.Uuid, attempt: fields.Natural) -> None:
        self._placement.place(context, [migration_uuid], attempt)

    @endpoint
    def get_host_migrations(
        self, context: RequestContext, host: fields.Name, instance_uuids: list[fields.Uuid] | None = None
    ) -> list[JSONObject]:
        return [migration.to_wire() for migration in self._progress.of_host(host, instance_uuids)]

    @endpoint
    def claim_migration(
        self,
        context: RequestContext,
        migration_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        node: fields.Name,
        incarnation: fields.Token,
        claim: JSONObject,
    ) -> JSONObject:
        here = Attempt(migration_uuid, attempt, host, node, incarnation)
        return self._progress.claim(context, here, Claimed.from_wire(claim)).to_wire()

    @endpoint
    def migration_done(
        self,
        context: RequestContext,
        migration_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        status: fields.Name,
    ) -> JSONObject:
        return self._progress.advance(context, Attempt(migration_uuid, attempt, host), status).to_wire()

    @endpoint
    def migration_copied(
        self,
        context: RequestContext,
        migration_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        percent: Percent,
    ) -> None:
        self._progress.copied(Attempt(migration_uuid, attempt, host), percent)

    @endpoint
    def migration_failed(
        self,
        context: RequestContext,
        migration_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        status: fields.Name,
        failure: Failure,
    ) -> JSONObject:
        return self._progress.fail(context, Attempt(migration_uuid, attempt, host), status, failure).to_wire()
