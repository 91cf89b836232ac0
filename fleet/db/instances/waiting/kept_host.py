# SPDX-License-Identifier: Apache-2.0
"""The host that is kept for one queued build: builds of other requests are not placed there.

Called by :mod:`conductor_stub.builds.placement` and :mod:`conductor_stub.builds.room_queue`.
"""

from __future__ import annotations

import dataclasses
import datetime

import sqlalchemy as sa

from fleet import states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.instances.waiting import room_queue
from fleet.db.tables import models

QUEUE = models.room_queue
TURNS = models.queue_turns
QUEUED = models.queued_builds
INSTANCES = models.instances
SERVICES = models.services

_ENABLED = sa.and_(SERVICES.c.binary == services.COMPUTE, sa.not_(SERVICES.c.deleted), sa.not_(SERVICES.c.disabled))
_SERVICE = sa.select(SERVICES).where(SERVICES.c.host == sa.bindparam("host"), _ENABLED)
_STILL_WAITS = sa.select(INSTANCES.c.uuid).where(
    INSTANCES.c.uuid == sa.bindparam("uuid"),
    INSTANCES.c.vm_state == states.BUILDING,
    INSTANCES.c.task_state.in_((states.QUEUED, states.SCHEDULING, states.PLACING)),
)
_PROJECT = sa.func.coalesce(INSTANCES.c.project_id, "")
_ELIGIBLE = (
    sa.select(
        INSTANCES.c.uuid,
        INSTANCES.c.created_at,
        _PROJECT.label("project"),
        QUEUED.c.nearest,
        QUEUED.c.queued_at,
        sa.func.row_number()
        .over(partition_by=_PROJECT, order_by=(INSTANCES.c.created_at, INSTANCES.c.launch_index, INSTANCES.c.uuid))
        .label("turn"),
    )
    .join(QUEUED, QUEUED.c.instance_uuid == INSTANCES.c.uuid)
    .where(
        QUEUED.c.due_at.is_not(None),
        INSTANCES.c.task_state == states.QUEUED,
        QUEUED.c.by_room,
        sa.not_(QUEUED.c.together),
        QUEUED.c.nearest.is_not(None),
    )
    .subquery()
)
#: Of the oldest builds of projects whose nearest host takes builds, that of the project that was not served for longest.
_NEXT = (
    sa.select(_ELIGIBLE)
    .join(SERVICES, SERVICES.c.host == _ELIGIBLE.c.nearest)
    .outerjoin(TURNS, TURNS.c.project_id == _ELIGIBLE.c.project)
    .where(
        _ELIGIBLE.c.turn == 1,
        _ELIGIBLE.c.queued_at <= sa.bindparam("before", type_=models.Timestamp),
        # The host takes builds: as services.is_up judges it.
        _ENABLED,
        sa.not_(SERVICES.c.forced_down),
        SERVICES.c.last_seen_up.between(
            sa.bindparam("heard_since", type_=models.Timestamp), sa.bindparam("heard_until", type_=models.Timestamp)
        ),
    )
    .order_by(
        sa.case((TURNS.c.served_at.is_(None), 0), else_=1),
        TURNS.c.served_at,
        _ELIGIBLE.c.created_at,
        _ELIGIBLE.c.uuid,
    )
    .limit(1)
)
_AGENT = sa.select(SERVICES.c.id).where(
    SERVICES.c.host == sa.bindparam("host"), SERVICES.c.binary == services.COMPUTE, sa.not_(SERVICES.c.deleted)
)
_FORGET = QUEUED.update().where(QUEUED.c.instance_uuid == sa.bindparam("which")).values(nearest=None)


@dataclasses.dataclass(frozen=True)
class Kept:
    """``host`` is kept for the build ``uuid``."""

    host: str
    uuid: str


def is_valid(connection: Transaction | sa.Connection, kept: Kept, now: datetime.datetime, down_time_s: float) -> bool:
    """Return True if the build still waits, and the host is up and enabled."""
    if connection.execute(_STILL_WAITS, {"uuid": kept.uuid}).first() is None:
        return False
    return _takes_builds(connection, kept.host, now, down_time_s)


def _takes_builds(
    connection: Transaction | sa.Connection, host: str, now: datetime.datetime, down_time_s: float
) -> bool:
    service = connection.execute(_SERVICE, {"host": host}).one_or_none()
    return service is not None and services.is_up(service, now, down_time_s)


def choose(tx: Transaction, now: datetime.datetime, patience_s: float, down_time_s: float) -> Kept | None:
    """End what is no longer valid, and keep a host for the next build that has waited ``patience_s`` seconds.

    Return what is kept now.
    """
    queue = room_queue.lock(tx, now)
    kept = Kept(queue.kept_host, queue.kept_for) if queue.kept_host and queue.kept_for else None
    if kept is not None and is_valid(tx, kept, now, down_time_s):
        return kept
    following = _next(tx, now, patience_s, down_time_s) if patience_s else None
    if kept is not None:
        # Builds that were refused because of it may fit there now, also those whose refusal named no lack of room. A change
        # of the service wakes these, too.
        tx.touch(SERVICES, *tx.execute(_AGENT, {"host": kept.host}).scalars())
        tx.execute(_FORGET, {"which": kept.uuid})
    if kept is not None or following is not None:
        values = {"kept_host": following and following.host, "kept_for": following and following.uuid}
        tx.execute(QUEUE.update().where(QUEUE.c.id == 1).values(**values))
    return following


def _next(tx: Transaction, now: datetime.datetime, patience_s: float, down_time_s: float) -> Kept | None:
    down_time = seconds(down_time_s)
    times = {"before": now - seconds(patience_s), "heard_since": now - down_time, "heard_until": now + down_time}
    row = tx.execute(_NEXT, times).one_or_none()
    if row is None:
        return None
    room_queue.serve(tx, {row.project}, now)
    return Kept(row.nearest, row.uuid)
