# SPDX-License-Identifier: Apache-2.0
"""What users ask about where a volume is: it migrates to another pool."""

from __future__ import annotations

from typing import Any

import oslo_messaging
from oslo_log import log as logging

from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes import claims, views
from conductor_stub.volumes.placement import VolumePlacement
from fleet import errors, failpoints, volume_states
from fleet.context import RequestContext
from fleet.db import pools, volumes
from fleet.db.engine import Connection, Database, Transaction
from fleet.objects import fields, location
from fleet.rpc import versions
from fleet.rpc.endpoint import endpoint

LOG = logging.getLogger(__name__)


class MigrationIntake:
    """The RPC surface of the namespace ``operator`` for migrations of volumes."""

    target = oslo_messaging.Target(namespace="operator", version=versions.CURRENT["conductor"])

    def __init__(self, database: Database, placement: VolumePlacement) -> None:
        self._database = database
        self._placement = placement

    @endpoint
    def migrate_volume(
        self, context: RequestContext, name: fields.Name, host: fields.Name | None = None
    ) -> dict[str, Any]:
        """:param host: the backend or the pool to migrate to, ``machine@backend#pool``. None: the scheduler chooses
        :raises errors.NotFound: errors.Conflict: errors.InvalidInput:
        """
        found = self._database.read(_resolve, name, host)
        row = self._database.write(begin, found.uuid, host, self._placement.step_context(context))
        about = context.about(volume=row.uuid, attempt=row.attempt)
        LOG.info("Migrating volume %s from %s#%s to %s", row.name, row.host, row.pool, host or "another pool")
        self._placement.hand_out(about, [row.uuid], row.attempt)
        return views.of_volume(row)


def _resolve(connection: Connection, name: str, host: str | None) -> Any:
    """The volume's row. :raises errors.NotFound: errors.Conflict: errors.InvalidInput:"""
    row = volumes.find(connection, name)
    if host is None:
        return row
    backend, pool = location.extract_host(host), location.extract_host(host, "pool")
    there = [each for each in pools.list_all(connection, backend) if pool in (None, each.pool)]
    if not there:
        raise errors.NotFound(kind="Storage pool", name=host)
    if all((each.host, each.pool) == (row.host, row.pool) for each in there):
        raise errors.InvalidInput(field="host", reason=f"must be another pool: the volume is on {host}")
    return row


@failpoints.commits("conductor.volume_migrate")
def begin(tx: Transaction, uuid: str, host: str | None, ctx: StepContext) -> Any:
    """``available → migrating/scheduling``. :raises errors.NotFound: errors.Conflict:"""
    row = volumes.lock(tx, uuid)
    if row.status == volume_states.MIGRATING and row.plan.get("to") == host:
        return row
    claims.require_settled(row)
    claims.require_no_snapshots(tx, row)
    return volumes.write(
        tx,
        row,
        ctx.now,
        **claims.begun(volume_states.MIGRATING, volume_states.SCHEDULING, ctx),
        # A late report of an earlier migration is not about this one.
        attempt=row.attempt + 1,
        plan={"to": host},
        failure=None,
    )
