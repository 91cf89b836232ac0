# SPDX-License-Identifier: Apache-2.0
"""Builds that wait for room: the instance row is ``queued``, and a row here says why and until when.

Called by modules of :mod:`conductor_stub.builds` and :mod:`conductor_stub.operators`.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, cast

import sqlalchemy as sa

from fleet import states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.instances import InstanceRow
from fleet.db.tables.queue import QueuedRow
from fleet.json_codec import JSONObject

QUEUED = models.queued_builds
INSTANCES = models.instances

#: Seconds that a shape is not woken after it was woken in vain: at first, and at most. It doubles each time.
REST_S, MOST_REST_S = 2, 30
#: Seconds after which an earlier wake in vain no longer counts.
FORGOTTEN_S = 600

_NOW = sa.bindparam("now", type_=models.Timestamp)
_THESE = QUEUED.c.instance_uuid.in_(sa.bindparam("these", expanding=True))
_WAITS = QUEUED.c.due_at.is_not(None)
_ONE = sa.select(QUEUED).where(QUEUED.c.instance_uuid == sa.bindparam("wanted"))
_KNOWN = sa.select(QUEUED.c.instance_uuid, QUEUED.c.woken_for, QUEUED.c.queued_at).where(_THESE)
_STILL_DUE = sa.select(QUEUED.c.instance_uuid).where(_THESE, QUEUED.c.due_at <= _NOW)
_MISSES = sa.select(sa.func.max(QUEUED.c.misses)).where(
    QUEUED.c.shape == sa.bindparam("of_shape"), QUEUED.c.not_before > sa.bindparam("lately", type_=models.Timestamp)
)
_DUE = (
    sa.select(INSTANCES, QUEUED.c.wait_until, QUEUED.c.due_at, QUEUED.c.shape)
    .join(QUEUED, QUEUED.c.instance_uuid == INSTANCES.c.uuid)
    .where(QUEUED.c.due_at <= _NOW)
    .order_by(INSTANCES.c.created_at, INSTANCES.c.launch_index, INSTANCES.c.uuid)
    .limit(sa.bindparam("at_most"))
)
_ENTER = INSTANCES.update().where(INSTANCES.c.uuid.in_(sa.bindparam("these", expanding=True)))
_ALIKE = (
    sa.select(
        QUEUED,
        sa.select(models.room_queue.c.generation).where(models.room_queue.c.id == 1).scalar_subquery().label("seen"),
    )
    .where(QUEUED.c.shape == sa.bindparam("of_shape"), _WAITS)
    .order_by(QUEUED.c.instance_uuid)
    .limit(1)
)
_LEAVE = QUEUED.delete().where(_THESE)
_WAKE = QUEUED.update().where(_THESE).values(due_at=None, fresh=False)
_POSTPONE = QUEUED.update().where(_THESE, _WAITS, QUEUED.c.due_at <= _NOW)


class DueBuild(InstanceRow, Protocol):
    """An instance with what its queued build waits for."""

    wait_until: datetime.datetime
    due_at: datetime.datetime
    shape: str


@dataclasses.dataclass(frozen=True)
class Why:
    """The reason for which builds of one request are queued. ``models.queued_builds`` explains the fields."""

    reason: str
    message: str
    lacks: str | None = None
    nearest: str | None = None
    by_room: bool = True
    need_vcpus: int = 0
    need_memory_mb: int = 0
    need_disk_gb: int = 0
    shape: str = ""
    together: bool = False
    refused_generation: int = 0


def enter(
    tx: Transaction,
    rows: Sequence[InstanceRow],
    why: Why,
    *,
    wait_until: datetime.datetime,
    recheck_s: float,
    patience_s: float,
    now: datetime.datetime,
) -> list[str]:
    """Queue locked rows of one request. Return the uuids of those that are queued for the first time.

    :param patience_s: after that time a host may be kept for them; see ``kept_host``
    """
    uuids = [row.uuid for row in rows]
    found = tx.execute(_KNOWN, {"these": uuids}).all()
    known = {row.instance_uuid: row.woken_for for row in found}
    since = min((row.queued_at for row in found), default=now)
    values = {**vars(why), "due_at": _due_at(since, wait_until, recheck_s, patience_s, now), "fresh": True}
    if known:
        rest = _rest(tx, why.shape, now) if any(node is not None for node in known.values()) else {}
        tx.execute(QUEUED.update().where(_THESE).values(**values, **rest), {"these": sorted(known)})
    new = [uuid for uuid in uuids if uuid not in known]
    if new:
        first = {**values, "queued_at": now, "wait_until": wait_until}
        tx.insert_all(QUEUED, [{**first, "instance_uuid": uuid} for uuid in new])
    # The sweeper leaves the row alone: a queued build has no step that may be overdue.
    step = {"task_state": states.QUEUED, "step_deadline": None, "deadline": wait_until, "updated_at": now}
    tx.execute(_ENTER, {"these": uuids, **step})
    tx.touch(INSTANCES, *uuids)
    return new


def _due_at(
    since: datetime.datetime,
    wait_until: datetime.datetime,
    recheck_s: float,
    patience_s: float,
    now: datetime.datetime,
) -> datetime.datetime:
    patient_until = since + seconds(patience_s)
    return min(now + seconds(recheck_s), wait_until, patient_until if patient_until > now else wait_until)


def behind(
    connection: sa.Connection,
    shape: str,
    wait_until: datetime.datetime,
    recheck_s: float,
    patience_s: float,
    now: datetime.datetime,
) -> JSONObject | None:
    """Columns of a new build that waits behind one of its shape; None if no such build waits.

    The scheduler would refuse it as it has refused the other, or it would overtake it.
    """
    row = connection.execute(_ALIKE, {"of_shape": shape}).one_or_none()
    if row is None:
        return None
    known = {field.name: getattr(row, field.name) for field in dataclasses.fields(Why)}
    # For the queued build of this shape, passes have read all changes up to ``seen``.
    known["refused_generation"] = row.refused_generation if row.fresh else row.seen or 0
    due_at = _due_at(now, wait_until, recheck_s, patience_s, now)
    return {**known, "queued_at": now, "wait_until": wait_until, "due_at": due_at, "fresh": True}


def enter_behind(tx: Transaction, uuid: str, columns: Mapping[str, object]) -> None:
    """Queue a new build that this transaction inserts. :param columns: from :func:`behind`"""
    tx.defer_insert(QUEUED, {**columns, "instance_uuid": uuid})


def _rest(tx: Transaction, shape: str, now: datetime.datetime) -> JSONObject:
    """Columns of a build that was woken in vain."""
    before = tx.execute(_MISSES, {"of_shape": shape, "lately": now - seconds(FORGOTTEN_S)}).scalar_one() or 0
    return {"misses": before + 1, "not_before": now + seconds(min(REST_S * 2 ** min(before, 10), MOST_REST_S))}


def wake(tx: Transaction, uuids: Collection[str]) -> None:
    """These builds are no longer queued. What is known of them stays, in case they are queued again."""
    tx.execute(_WAKE, {"these": sorted(uuids)})


def still_due(tx: Transaction, uuids: Collection[str], now: datetime.datetime) -> frozenset[str]:
    """Return the builds that no other conductor has acted on since they were found to be due."""
    return frozenset(tx.execute(_STILL_DUE, {"these": sorted(uuids), "now": now}).scalars())


def postpone(tx: Transaction, uuids: Collection[str], due_at: datetime.datetime, now: datetime.datetime) -> None:
    """Postpone the builds that are due until ``due_at``, or end those that may wait no longer."""
    later = sa.case((QUEUED.c.wait_until < due_at, QUEUED.c.wait_until), else_=sa.literal(due_at, models.Timestamp))
    tx.execute(_POSTPONE.values(due_at=later), {"these": sorted(uuids), "now": now})


def leave(tx: Transaction, uuids: Collection[str]) -> None:
    """Forget these builds: they have ended, or are deleted."""
    tx.execute(_LEAVE, {"these": sorted(uuids)})


def find(connection: Transaction | sa.Connection, uuid: str) -> QueuedRow | None:
    return cast("QueuedRow | None", connection.execute(_ONE, {"wanted": uuid}).one_or_none())


def due(connection: sa.Connection, now: datetime.datetime, limit: int) -> Sequence[DueBuild]:
    """Instances with ``wait_until``, that a conductor must act on now; oldest first."""
    return cast("Sequence[DueBuild]", connection.execute(_DUE, {"now": now, "at_most": limit}).all())
