# SPDX-License-Identifier: Apache-2.0
"""Locks of instances: while one is locked, only administrators change it. ``tenancy`` refuses the calls of others."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable

from conductor_stub.operators.views import instance_view
from conductor_stub.steps.acts import Acts
from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Database, Transaction
from fleet.db.instances import history, instances
from fleet.db.tables.instances import RequestedInstance
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.answers.instances import InstanceView
from fleet.rpc.endpoint import endpoint, served

OWNER, ADMIN = "owner", "admin"


class LockManager:
    """The RPC surface of the namespace ``operator`` for locks. Each method returns the instance."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, clock: Clock = utcnow) -> None:
        self._database = database
        self._clock = clock
        self._acts = Acts(database, clock)

    @endpoint
    def lock_instance(
        self, context: RequestContext, name: fields.Name, reason: fields.Text | None = None
    ) -> InstanceView:
        """Refuse changes by members. A lock of an administrator stays as it is when the owner locks, too.

        :raises errors.NotFound: also if it was deleted; errors.Conflict: several have that name
        """
        return self._change(context, name, "server.lock", functools.partial(_lock, reason=reason))

    @endpoint
    def unlock_instance(self, context: RequestContext, name: fields.Name) -> InstanceView:
        """Allow changes again. An instance that is not locked counts as unlocked.

        :raises errors.NotFound: errors.Conflict: errors.NotTrusted: an administrator has locked it
        """
        return self._change(context, name, "server.unlock", _unlock)

    def _change(
        self, context: RequestContext, name: str, act: str, work: Callable[..., RequestedInstance]
    ) -> InstanceView:
        found = self._database.read(instances.find, name)
        subject, shown = f"{found.name} ({found.uuid})", functools.partial(_shown, uuid=found.uuid)
        return instance_view(self._acts.write(context, act, subject, shown, work, context, found.uuid, self._clock()))


def _shown(tx: Transaction, uuid: str) -> JSONObject:
    row = instances.get(tx, uuid)
    return {name: getattr(row, name) for name in ("locked_by", "locked_reason")}


def _lock(
    tx: Transaction, context: RequestContext, uuid: str, now: datetime.datetime, reason: str | None
) -> RequestedInstance:
    row = _locked_row(tx, uuid)
    is_owner = context.project_id == row.project_id
    if row.locked_by and is_owner:
        return row
    values = {"locked_by": OWNER if is_owner else ADMIN, "locked_reason": reason or None}
    return _write(tx, row, "lock", values, context, now)


def _unlock(tx: Transaction, context: RequestContext, uuid: str, now: datetime.datetime) -> RequestedInstance:
    row = _locked_row(tx, uuid)
    if row.locked_by is None:
        return row
    if row.locked_by == ADMIN and not context.is_admin:
        raise errors.NotTrusted(reason=f"an administrator has locked instance {row.name}, and only one unlocks it")
    return _write(tx, row, "unlock", {"locked_by": None, "locked_reason": None}, context, now)


def _locked_row(tx: Transaction, uuid: str) -> RequestedInstance:
    """The row, under a lock of the database. :raises errors.NotFound:"""
    row = instances.lock(tx, uuid)
    if row.deleted:
        raise errors.NotFound(kind="Instance", name=row.name)
    return row


def _write(
    tx: Transaction,
    row: RequestedInstance,
    event: str,
    values: JSONObject,
    context: RequestContext,
    now: datetime.datetime,
) -> RequestedInstance:
    values["updated_at"] = now
    tx.update(instances.INSTANCES, row.uuid, values)
    where = {"host": row.host, "node": row.node, "attempt": row.attempt, "request_id": context.request_id}
    history.add_event(tx, row.uuid, event, now=now, **where)
    return instances.moved(row, values)
