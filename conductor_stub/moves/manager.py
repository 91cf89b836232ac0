# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of moves: what operators ask for, and what conductors and agents tell each other."""

from __future__ import annotations

from typing import Any

import oslo_messaging

from conductor_stub.builds.failures import Failure
from conductor_stub.moves.mover import Mover
from fleet.context import RequestContext
from fleet.objects import Claimed, fields
from fleet.objects.build_request import parse_flavor
from fleet.rpc import versions
from fleet.rpc.endpoint import endpoint


class OperatorMoves:
    """Namespace ``operator``: behind the ``fleet`` command."""

    target = oslo_messaging.Target(namespace="operator", version=versions.CURRENT["conductor"])

    def __init__(self, mover: Mover) -> None:
        self._mover = mover

    @endpoint
    def resize_instance(self, context: RequestContext, name: fields.Name, flavor: Any) -> dict[str, Any]:
        return self._mover.resize(context, name, parse_flavor(flavor, "flavor"))

    @endpoint
    def confirm_resize(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._mover.confirm(context, name)

    @endpoint
    def revert_resize(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._mover.revert(context, name)

    @endpoint
    def migrate_instance(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._mover.migrate(context, name)

    @endpoint
    def evacuate_instance(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._mover.evacuate(context, name)

    @endpoint
    def force_down(
        self, context: RequestContext, host: fields.Name, forced: fields.Flag, binary: fields.Name = "fleet-compute"
    ) -> None:
        self._mover.force_down(host, binary, forced)

    @endpoint
    def list_migrations(
        self, context: RequestContext, filters: dict[fields.Name, fields.Name | list[fields.Uuid]] | None = None
    ) -> list[dict[str, Any]]:
        return self._mover.migrations(filters or {})


class MigrationManager:
    """Namespace ``migration``: moves are placed, claimed, advanced."""

    target = oslo_messaging.Target(namespace="migration", version=versions.CURRENT["conductor"])

    def __init__(self, mover: Mover) -> None:
        self._mover = mover

    @endpoint
    def place_migration(self, context: RequestContext, migration_uuid: fields.Uuid, attempt: fields.Natural) -> None:
        self._mover.place(context, migration_uuid, attempt)

    @endpoint
    def get_host_migrations(
        self, context: RequestContext, host: fields.Name, instance_uuids: list[fields.Uuid] | None = None
    ) -> list[dict[str, Any]]:
        return [migration.to_wire() for migration in self._mover.of_host(host, instance_uuids)]

    @endpoint
    def claim_migration(
        self,
        context: RequestContext,
        migration_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        node: fields.Name,
        incarnation: fields.Token,
        claim: dict[str, Any],
    ) -> dict[str, Any]:
        claimed = Claimed.from_wire(claim)
        return self._mover.claim(context, migration_uuid, attempt, host, node, incarnation, claimed).to_wire()

    @endpoint
    def migration_done(
        self,
        context: RequestContext,
        migration_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        status: fields.Name,
    ) -> dict[str, Any]:
        return self._mover.advance(context, migration_uuid, attempt, host, status).to_wire()

    @endpoint
    def migration_failed(
        self,
        context: RequestContext,
        migration_uuid: fields.Uuid,
        attempt: fields.Natural,
        host: fields.Name,
        status: fields.Name,
        failure: Failure,
    ) -> dict[str, Any]:
        return self._mover.fail(context, migration_uuid, attempt, host, status, failure).to_wire()
