# SPDX-License-Identifier: Apache-2.0
"""The queue of builds that wait for room: the changes since it was last read, and the order of the builds.

Called by :mod:`conductor_stub.builds.room_queue`; :mod:`conductor_stub.operators.manager` shows the queue.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import sqlalchemy as sa

from fleet import capacity, states
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.base import Row
from fleet.db.tables.instances import InstanceRow
from fleet.db.tables.queue import RoomQueueRow
from fleet.db.tables.sql_types import Select
from fleet.objects.room import Amount, ReturnedRoom, Room, Waiter

QUEUE = models.room_queue
TURNS = models.queue_turns
QUEUED = models.queued_builds
INSTANCES = models.instances
NODES = models.compute_nodes
GENERATIONS = models.generations

_NOW = sa.bindparam("now", type_=models.Timestamp)
_WAITS = QUEUED.c.due_at.is_not(None)
_PULSE = (
    sa.select(
        *(GENERATIONS.c[name] for name in ("value", "noted", "services", "aggregates")),
        sa.select(sa.func.max(NODES.c.generation)).scalar_subquery().label("nodes"),
        *(QUEUE.c[name] for name in ("generation", "kept_host", "kept_for")),
        sa.select(sa.func.min(QUEUED.c.due_at)).scalar_subquery().label("first_due"),
        sa.exists(sa.select(QUEUED.c.instance_uuid).where(QUEUED.c.fresh, _WAITS)).label("fresh"),
    )
    .select_from(GENERATIONS.outerjoin(QUEUE, QUEUE.c.id == GENERATIONS.c.id))
    .where(GENERATIONS.c.id == 1)
)
_LOCKED = sa.select(QUEUE).where(QUEUE.c.id == 1).with_for_update()
_NEWEST = sa.select(GENERATIONS.c.value).where(GENERATIONS.c.id == 1)
_FRESH = (
    sa.select(*(QUEUED.c[name] for name in ("refused_generation", "woken_for", "shape", "depth")))
    .where(QUEUED.c.fresh, _WAITS)
    .order_by(QUEUED.c.instance_uuid)
)
_UNDER_WAY = sa.and_(
    INSTANCES.c.uuid == QUEUED.c.instance_uuid,
    INSTANCES.c.vm_state == states.BUILDING,
    INSTANCES.c.task_state.in_((states.SCHEDULING, states.PLACING)),
)
_TAKEN = (
    sa.select(QUEUED.c.woken_for, *(INSTANCES.c[name] for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")))
    .where(QUEUED.c.due_at.is_(None), QUEUED.c.woken_for.is_not(None), _UNDER_WAY)
    .order_by(INSTANCES.c.uuid)
)
_RESTING = (
    sa.select(QUEUED.c.shape, sa.func.max(QUEUED.c.not_before).label("until"))
    .where(QUEUED.c.not_before > _NOW)
    .group_by(QUEUED.c.shape)
)
_FORGET = QUEUED.delete().where(
    QUEUED.c.due_at.is_(None), sa.not_(sa.exists(sa.select(INSTANCES.c.uuid).where(_UNDER_WAY)))
)
_PROJECT = sa.func.coalesce(INSTANCES.c.project_id, "")
_OLDEST_FIRST = INSTANCES.c.created_at, INSTANCES.c.launch_index, INSTANCES.c.uuid


def _turns(waiting: sa.Subquery) -> Sequence[sa.ColumnElement[Any]]:
    """Projects take turns: the oldest build of each, the project first that was not served for longest; then their next
    ones.
    """
    turns = TURNS.c.served_at
    first = waiting.c.turn, sa.case((turns.is_(None), 0), else_=1), turns
    return *first, waiting.c.created_at, waiting.c.launch_index, waiting.c.uuid


def _with_turns(waiting: sa.Subquery, *more: sa.ColumnElement[Any]) -> Select:
    return sa.select(waiting, *more).outerjoin(TURNS, TURNS.c.project_id == waiting.c.project)


_WAITER_COLUMNS = ("shape", "need_vcpus", "need_memory_mb", "need_disk_gb", "by_room", "fresh", "refused_generation")
_WAITING = (
    sa.select(
        INSTANCES,
        _PROJECT.label("project"),
        *(QUEUED.c[name] for name in (*_WAITER_COLUMNS, "together")),
        sa.func.row_number().over(partition_by=_PROJECT, order_by=_OLDEST_FIRST).label("turn"),
    )
    .join(QUEUED, QUEUED.c.instance_uuid == INSTANCES.c.uuid)
    .where(
        _WAITS,
        INSTANCES.c.task_state == states.QUEUED,
        QUEUED.c.need_vcpus <= sa.bindparam("vcpus", type_=sa.Float),
        QUEUED.c.need_memory_mb <= sa.bindparam("memory_mb", type_=sa.Float),
        QUEUED.c.need_disk_gb <= sa.bindparam("disk_gb", type_=sa.Float),
        sa.or_(
            QUEUED.c.fresh,
            QUEUED.c.instance_uuid == sa.bindparam("kept_for", type_=sa.String),
            QUEUED.c.shape.not_in(sa.bindparam("passed", expanding=True)),
        ),
    )
    .subquery()
)
_IN_ORDER = _with_turns(_WAITING).order_by(*_turns(_WAITING)).limit(sa.bindparam("at_most"))
#: The same order, for people.
_LISTED = (
    sa.select(
        *(INSTANCES.c[name] for name in ("uuid", "name", "flavor_name", "created_at", "launch_index")),
        INSTANCES.c.project_id,
        *(QUEUED.c[name] for name in ("reason", "message", "lacks", "queued_at", "wait_until")),
        _PROJECT.label("project"),
        sa.func.row_number().over(partition_by=_PROJECT, order_by=_OLDEST_FIRST).label("turn"),
    )
    .join(QUEUED, QUEUED.c.instance_uuid == INSTANCES.c.uuid)
    .where(_WAITS, INSTANCES.c.task_state == states.QUEUED)
    .subquery()
)
_PLACE = sa.func.row_number().over(order_by=_turns(_LISTED)).label("place")
_PLACED = _with_turns(_LISTED, _PLACE).subquery()
_TOTALS = sa.select(sa.func.count(), sa.func.min(QUEUED.c.queued_at)).where(_WAITS)
_OF_REQUEST = (
    sa.select(INSTANCES.c.uuid)
    .join(QUEUED, QUEUED.c.instance_uuid == INSTANCES.c.uuid)
    .where(
        INSTANCES.c.reservation_id == sa.bindparam("reservation"),
        INSTANCES.c.attempt == sa.bindparam("attempt"),
        INSTANCES.c.task_state == states.QUEUED,
        QUEUED.c.together,
    )
    .order_by(INSTANCES.c.uuid)
)
_WOKEN = (
    QUEUED.update()
    .where(QUEUED.c.instance_uuid == sa.bindparam("which"))
    .values(due_at=None, fresh=False, woken_for=sa.bindparam("node"), depth=sa.bindparam("after"))
)
_BACK_OFF = (
    QUEUED.update()
    .where(QUEUED.c.instance_uuid == sa.bindparam("which"), QUEUED.c.due_at > sa.bindparam("at"))
    .values(due_at=sa.bindparam("at", type_=models.Timestamp), woken_for=sa.bindparam("node"))
)
_SEEN = QUEUED.update().where(QUEUED.c.fresh, _WAITS).values(fresh=False, woken_for=None)
_SERVED = TURNS.update().where(TURNS.c.project_id == sa.bindparam("whose")).values(served_at=_NOW)
#: More than any host has. Infinity is no number to every database.
_MOST = 2.0**53


class _Sized(Protocol):
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int


class WaitingBuild(InstanceRow, Protocol):
    """An instance that is queued. :param turn: its number among the builds of ``project``, oldest first"""

    project: str
    turn: int
    shape: str
    need_vcpus: int
    need_memory_mb: int
    need_disk_gb: int
    by_room: bool
    fresh: bool
    refused_generation: int
    together: bool


class ListedBuild(Row, Protocol):
    """A queued build as users see it."""

    uuid: str
    name: str
    flavor_name: str | None
    created_at: datetime.datetime
    launch_index: int
    project_id: str | None
    reason: str
    message: str
    lacks: str | None
    queued_at: datetime.datetime
    wait_until: datetime.datetime
    project: str
    turn: int
    place: int


@dataclasses.dataclass(frozen=True)
class Pulse:
    """Tells whether there is anything to do, from one statement that reads no waiting build.

    :param changed: the newest generation of a host, a service or an aggregate
    :param seen: the generation up to which changes have woken builds
    :param first_due: when a conductor must next act on a queued build; None if none is queued
    :param fresh: whether builds were queued since
    """

    changed: int
    seen: int
    first_due: datetime.datetime | None
    fresh: bool
    kept_host: str | None
    kept_for: str | None

    @property
    def news(self) -> bool:
        return self.first_due is not None and (self.fresh or self.changed > self.seen)


def pulse(connection: sa.Connection) -> Pulse:
    row = connection.execute(_PULSE).one()
    noted = max(row.nodes or 0, row.services, row.aggregates)
    # A program of an earlier release does not note which tables it has changed.
    changed = noted if row.noted == row.value else row.value
    return Pulse(changed, row.generation or 0, row.first_due, bool(row.fresh), row.kept_host, row.kept_for)


def lock(tx: Transaction, now: datetime.datetime) -> RoomQueueRow:
    """The row of the queue, so that one conductor wakes at a time."""
    row = cast("RoomQueueRow | None", tx.execute(_LOCKED).one_or_none())
    if row is None:
        tx.insert(QUEUE, {"id": 1, "generation": 0, "looked_at": now})
        row = cast("RoomQueueRow", tx.execute(_LOCKED).one())
    return row


def newest(tx: Transaction) -> int:
    """The generation of the newest commit."""
    generation: int = tx.execute(_NEWEST).scalar_one()
    return generation


def fresh(tx: Transaction) -> tuple[int | None, list[ReturnedRoom]]:
    """The oldest refusal that no pass has seen, and the rooms that have woken builds in vain since."""
    found = tx.execute(_FRESH).all()
    returned = [ReturnedRoom(row.woken_for, row.shape, row.depth + 1) for row in found if row.woken_for is not None]
    return min((row.refused_generation for row in found), default=None), returned


def taken(tx: Transaction) -> dict[int, list[Amount]]:
    """Return, by node, the sizes of builds that its room has woken, and that no host has claimed yet."""
    found: dict[int, list[Amount]] = {}
    for row in tx.execute(_TAKEN):
        found.setdefault(row.woken_for, []).append(_size(row))
    return found


def resting(tx: Transaction, now: datetime.datetime) -> dict[str, datetime.datetime]:
    """Shapes that were woken in vain a short time ago, and until when they rest."""
    return {row.shape: row.until for row in tx.execute(_RESTING, {"now": now})}


def in_order(
    tx: Transaction, rooms: Sequence[Room], limit: int, passed: Collection[str] = (), kept_for: str | None = None
) -> Mapping[str, WaitingBuild]:
    """Queued builds that fit into the largest of ``rooms``, by uuid, in the order in which they are woken.

    :param passed: shapes that none of the rooms helps. Of these, only builds that no pass has seen are returned, and
        ``kept_for``, the build that has a host of its own
    """
    if not rooms:
        return {}
    largest = {
        name: min(max(getattr(room.free, name) for room in rooms), _MOST) for name in ("vcpus", "memory_mb", "disk_gb")
    }
    wanted = {**largest, "at_most": limit, "passed": sorted(passed), "kept_for": kept_for or ""}
    return cast("Mapping[str, WaitingBuild]", {row.uuid: row for row in tx.execute(_IN_ORDER, wanted)})


def listed(connection: sa.Connection, project_id: str | None, limit: int | None) -> Sequence[ListedBuild]:
    """Builds that wait, in the order in which they are woken, each with its place among all. :param project_id: only its"""
    query = sa.select(_PLACED).order_by(_PLACED.c.place, _PLACED.c.uuid).limit(limit)
    if project_id is not None:
        query = query.where(_PLACED.c.project_id == project_id)
    return cast("Sequence[ListedBuild]", connection.execute(query).all())


def totals(connection: sa.Connection) -> tuple[int, datetime.datetime | None]:
    """Return the number of builds that wait for room, and the time since when the oldest waits; None if none does."""
    number, oldest = connection.execute(_TOTALS).one()
    return number, oldest


def waiter(row: WaitingBuild) -> Waiter:
    return Waiter(
        uuid=row.uuid,
        request=(row.reservation_id, row.attempt),
        project_id=row.project,
        shape=row.shape,
        need=Amount(row.need_vcpus, row.need_memory_mb, row.need_disk_gb),
        size=_size(row),
        zone=row.availability_zone,
        by_room=row.by_room,
        fresh=row.fresh,
        refused_generation=row.refused_generation,
        together=row.together,
        turn=row.turn,
    )


def _size(row: _Sized) -> Amount:
    return Amount(row.vcpus, row.memory_mb, capacity.claimed_disk_gb(row.root_gb, row.ephemeral_gb))


def placed_together(tx: Transaction, reservation_id: str, attempt: int) -> Sequence[str]:
    """Queued builds of a request that must be placed together; none if each may be placed alone."""
    return tx.execute(_OF_REQUEST, {"reservation": reservation_id, "attempt": attempt}).scalars().all()


def note_woken(tx: Transaction, uuids: Iterable[str], node_id: int, depth: int) -> None:
    for uuid in uuids:
        tx.execute(_WOKEN, {"which": uuid, "node": node_id, "after": depth})


def try_later(tx: Transaction, uuid: str, node_id: int, at: datetime.datetime) -> None:
    """A build of a shape that rests is tried when the rest is over."""
    tx.execute(_BACK_OFF, {"which": uuid, "node": node_id, "at": at})


def serve(tx: Transaction, projects: Collection[str], now: datetime.datetime) -> None:
    """Record that these projects have had their turn."""
    for project in sorted(projects):
        if not tx.execute(_SERVED, {"whose": project, "now": now}).rowcount:
            tx.insert(TURNS, {"project_id": project, "served_at": now})


def close(tx: Transaction, generation: int, now: datetime.datetime) -> None:
    """Record that the queue has read all changes up to ``generation``.

    Builds that were woken are forgotten if they have a host, or have ended.
    """
    tx.execute(_SEEN)
    tx.execute(_FORGET)
    tx.execute(QUEUE.update().where(QUEUE.c.id == 1).values(generation=generation, looked_at=now))
