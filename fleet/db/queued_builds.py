# SPDX-License-Identifier: Apache-2.0
"""Builds that wait for room: the instance row is ``queued``, and a row here says why and until when."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from fleet import states
from fleet.db import models
from fleet.db.engine import Transaction

QUEUED = models.queued_builds
INSTANCES = models.instances

_THESE = QUEUED.c.instance_uuid.in_(sa.bindparam("these", expanding=True))
_ONE = sa.select(QUEUED).where(QUEUED.c.instance_uuid == sa.bindparam("wanted"))
_KNOWN = sa.select(QUEUED.c.instance_uuid).where(_THESE)
_FIRST_DUE = sa.select(sa.func.min(QUEUED.c.due_at))
_DUE = (
    sa.select(INSTANCES, QUEUED.c.wait_until)
    .join(QUEUED, QUEUED.c.instance_uuid == INSTANCES.c.uuid)
    .where(QUEUED.c.due_at <= sa.bindparam("now", type_=models.Timestamp))
    .order_by(INSTANCES.c.created_at, INSTANCES.c.launch_index)
    .limit(sa.bindparam("at_most"))
)
_ENTER = INSTANCES.update().where(INSTANCES.c.uuid.in_(sa.bindparam("these", expanding=True)))
_STILL_DUE = _KNOWN.where(QUEUED.c.due_at <= sa.bindparam("now", type_=models.Timestamp))
_LEAVE = QUEUED.delete().where(_THESE)
_WAKE = QUEUED.update().where(_THESE).values(due_at=None)


def enter(
    tx: Transaction,
    rows: Sequence[Any],
    why: Mapping[str, Any],
    *,
    wait_until: datetime.datetime,
    due_at: datetime.datetime,
    now: datetime.datetime,
) -> list[str]:
    """Queue locked rows of one request. Return the uuids of those that are queued for the first time.

    :param why: ``reason`` and ``message`` of the refusal
    """
    uuids = [row.uuid for row in rows]
    known = set(tx.execute(_KNOWN, {"these": uuids}).scalars())
    values = {"due_at": min(due_at, wait_until), **why}
    if known:
        tx.execute(QUEUED.update().where(_THESE).values(**values), {"these": sorted(known)})
    new = [uuid for uuid in uuids if uuid not in known]
    if new:
        tx.insert_all(
            QUEUED, [{**values, "instance_uuid": uuid, "queued_at": now, "wait_until": wait_until} for uuid in new]
        )
    # The sweeper leaves the row alone: a queued build has no step that may be overdue.
    step = {"task_state": states.QUEUED, "step_deadline": None, "deadline": wait_until, "updated_at": now}
    tx.execute(_ENTER, {"these": uuids, **step})
    tx.touch(INSTANCES, *uuids)
    return new


def wake(tx: Transaction, uuids: Collection[str]) -> None:
    """These builds are no longer queued. What is known of them stays, in case they are queued again."""
    tx.execute(_WAKE, {"these": sorted(uuids)})


def still_due(tx: Transaction, uuids: Collection[str], now: datetime.datetime) -> frozenset[str]:
    """Those of these builds that no other conductor has acted on since they were found to be due."""
    return frozenset(tx.execute(_STILL_DUE, {"these": sorted(uuids), "now": now}).scalars())


def leave(tx: Transaction, uuids: Collection[str]) -> None:
    """Forget these builds: they have ended, or are deleted."""
    tx.execute(_LEAVE, {"these": sorted(uuids)})


def find(connection: Transaction | sa.Connection, uuid: str) -> sa.Row | None:
    return connection.execute(_ONE, {"wanted": uuid}).one_or_none()


def first_due(connection: sa.Connection) -> datetime.datetime | None:
    """When a conductor must next act on a queued build; None if none is queued."""
    moment: datetime.datetime | None = connection.execute(_FIRST_DUE).scalar_one()
    return moment


def due(connection: sa.Connection, now: datetime.datetime, limit: int) -> Sequence[sa.Row]:
    """Instances with ``wait_until``, that a conductor must act on now; oldest first."""
    return connection.execute(_DUE, {"now": now, "at_most": limit}).all()
