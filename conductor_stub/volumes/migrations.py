# SPDX-License-Identifier: Apache-2.0
"""Accepts requests to migrate a volume to another pool, or to change its type, which may need a migration.

Administrators call it over RPC or through ``fleet-api``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from oslo_log import log as logging

from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes import claims, conditions, failures, views
from conductor_stub.volumes.placement import VolumePlacement
from fleet import errors, failpoints, volume_states
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import pools, volume_types, volumes
from fleet.objects import fields
from fleet.objects.answers.volumes import VolumeView
from fleet.rpc.endpoint import endpoint, served

LOG = logging.getLogger(__name__)


class MigrationIntake:
    """The RPC surface of the namespace ``operator`` for migrations and retypes."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, placement: VolumePlacement) -> None:
        self._database = database
        self._placement = placement

    @endpoint
    def migrate_volume(self, context: RequestContext, name: fields.Name, host: fields.Name | None = None) -> VolumeView:
        """:param host: the backend or the pool to migrate to, ``machine@backend#pool``. None: the scheduler chooses
        :raises errors.NotFound: errors.Conflict: errors.InvalidInput:
        """
        found = self._database.read(_resolve, name, host)
        row = self._database.write(begin, found.uuid, host, self._placement.step_context(context))
        about = context.about(volume=row.uuid, attempt=row.attempt)
        LOG.info("Migrating volume %s from %s#%s to %s", row.name, row.host, row.pool, host or "another pool")
        self._placement.hand_out(about, [row.uuid], row.attempt)
        return views.of_volume(row)

    @endpoint
    def retype_volume(
        self,
        context: RequestContext,
        name: fields.Name,
        volume_type: fields.Name,
        migration_policy: Literal["never", "on-demand"] = "never",
    ) -> VolumeView:
        """:param migration_policy: whether the volume may migrate if its pool does not suit the type
        :raises errors.NotFound: errors.Conflict:
        """
        found = self._database.read(volumes.find, name)
        wanted = self._database.read(volume_types.find, volume_type, context.scope)
        asked = {"volume_type": wanted.to_wire(), "migration_policy": migration_policy}
        row = self._database.write(begin_retype, found.uuid, asked, self._placement.step_context(context))
        LOG.info("Changing the type of volume %s to %s", row.name, wanted.name)
        self._placement.hand_out(context.about(volume=row.uuid, attempt=row.attempt), [row.uuid], row.attempt)
        return views.of_volume(row)


def _resolve(connection: Connection, name: str, host: str | None) -> VolumeRow:
    """The volume's row. :raises errors.NotFound: errors.Conflict: errors.InvalidInput:"""
    row = volumes.find(connection, name)
    if host is None:
        return row
    there = pools.named(connection, host)
    if all((each.host, each.pool) == (row.host, row.pool) for each in there):
        raise errors.InvalidInput(field="host", reason=f"must be another pool: the volume is on {host}")
    return row


@failpoints.commits("conductor.volume_migrate")
def begin(tx: Transaction, uuid: str, host: str | None, ctx: StepContext) -> VolumeRow:
    """``available → migrating/scheduling``. :raises errors.NotFound: errors.Conflict:"""
    row = volumes.lock(tx, uuid)
    if row.status == volume_states.MIGRATING and row.plan.get("to") == host:
        return row
    conditions.require_settled(row)
    conditions.require_no_snapshots(tx, row)
    conditions.require_not_copied(tx, row)
    return _begun(tx, row, volume_states.MIGRATING, ctx, plan={"to": host}, spec={**row.spec, "migrated": False})


@failpoints.commits("conductor.volume_retype")
def begin_retype(tx: Transaction, uuid: str, asked: Mapping[str, object], ctx: StepContext) -> VolumeRow:
    """``available → retyping/scheduling``. :raises errors.NotFound: errors.Conflict:"""
    row = volumes.lock(tx, uuid)
    if row.status == volume_states.RETYPING and row.spec["retype"] == asked:
        return row
    conditions.require_settled(row)
    if asked["migration_policy"] != failures.NEVER:
        conditions.require_no_snapshots(tx, row)
        conditions.require_not_copied(tx, row)
    return _begun(tx, row, volume_states.RETYPING, ctx, plan={}, spec={**row.spec, "retype": dict(asked)})


def _begun(tx: Transaction, row: VolumeRow, status: str, ctx: StepContext, **values: object) -> VolumeRow:
    begun = claims.begun(status, volume_states.SCHEDULING, ctx)
    # A late report of an earlier migration is not about this one.
    return volumes.write(tx, row, ctx.now, **begun, **values, attempt=row.attempt + 1, failure=None)
