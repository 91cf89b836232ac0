# SPDX-License-Identifier: Apache-2.0
"""Recoveries of hosts that are down: their guests and steps (``fleet.recovery_states``).

Called by modules of :mod:`conductor_stub.operators` and :mod:`conductor_stub.recovery`.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, cast

import sqlalchemy as sa

from fleet import errors, move_states, recovery_states, states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.instances import instances
from fleet.db.operations import silence
from fleet.db.tables import models
from fleet.db.tables.instances import RequestedInstance
from fleet.db.tables.operations.recovery import RecoveryDomainRow, RecoveryGuestRow, RecoveryRow, RecoveryStepRow
from fleet.objects import uuid_like

RECOVERIES = models.recoveries
GUESTS = models.recovery_guests
STEPS = models.recovery_steps
INSTANCES = models.instances
MIGRATIONS = models.migrations
#: Recoveries that have ended are kept for this time.
KEPT = seconds(400 * 24 * 3600)
_MOST_REMOVED = 1000
#: States of instances that a recovery moves. A resized one waits in it until its resize is reverted.
_RECOVERED = (states.ACTIVE, *states.AT_REST, states.RESIZED)

_NOW = sa.bindparam("now", type_=models.Timestamp)
_WANTED = sa.bindparam("wanted", type_=sa.String)
_OPEN = RECOVERIES.c.open_host.is_not(None)
_IN_ORDER = RECOVERIES.c.created_at, RECOVERIES.c.uuid
_DUE = (
    sa.select(RECOVERIES)
    .where(
        _OPEN,
        RECOVERIES.c.status != recovery_states.HELD,
        sa.not_(RECOVERIES.c.paused),
        RECOVERIES.c.due_at <= _NOW,
    )
    .order_by(*_IN_ORDER)
)
_ONE = sa.select(RECOVERIES).where(RECOVERIES.c.uuid == _WANTED)
_GUESTS = sa.select(GUESTS).where(GUESTS.c.recovery_uuid == _WANTED).order_by(GUESTS.c.place, GUESTS.c.id)
_GUEST = sa.select(GUESTS).where(GUESTS.c.id == sa.bindparam("key"))
_MOVING = (
    sa.select(MIGRATIONS.c.dest_compute, sa.func.count().label("number"))
    .select_from(GUESTS.join(MIGRATIONS, MIGRATIONS.c.uuid == GUESTS.c.migration_uuid))
    .where(
        # A recovery that ends closes its guests. Those of former recoveries are many.
        GUESTS.c.recovery_uuid.in_(sa.select(RECOVERIES.c.uuid).where(RECOVERIES.c.status.in_(recovery_states.OPEN))),
        GUESTS.c.status == recovery_states.MOVING,
        MIGRATIONS.c.status.in_(move_states.IN_PROGRESS),
    )
    .group_by(MIGRATIONS.c.dest_compute)
    .order_by(MIGRATIONS.c.dest_compute)
)
_NEWEST_FENCED = (
    sa.select(RECOVERIES.c.fenced_at)
    .where(RECOVERIES.c.host == sa.bindparam("of_host", type_=sa.String), RECOVERIES.c.fenced_at.is_not(None))
    # A recovery that ran no fence command (fence = none or storage) has not switched the host off.
    .where(RECOVERIES.c.attempt > 0)
    .order_by(RECOVERIES.c.fenced_at.desc())
    .limit(1)
)
#: A fence that ends the life of an agent is followed by none, or by a new one.
_NOT_OFF = (
    sa.select(RECOVERIES)
    .join(services.SERVICES, services.SERVICES.c.host == RECOVERIES.c.host)
    .where(
        RECOVERIES.c.status == recovery_states.DONE,
        RECOVERIES.c.attempt > 0,
        RECOVERIES.c.ended_at > sa.bindparam("since", type_=models.Timestamp),
        services.SERVICES.c.binary == services.COMPUTE,
        sa.not_(services.SERVICES.c.deleted),
        services.SERVICES.c.last_seen_up > RECOVERIES.c.fenced_at,
        sa.or_(services.SERVICES.c.started_at.is_(None), services.SERVICES.c.started_at <= RECOVERIES.c.fenced_at),
    )
    .order_by(*_IN_ORDER)
)
_STEPS = sa.select(STEPS).where(STEPS.c.recovery_uuid == _WANTED).order_by(STEPS.c.id)
_COUNTS = (
    sa.select(GUESTS.c.recovery_uuid, GUESTS.c.status, sa.func.count().label("number"))
    .where(GUESTS.c.recovery_uuid.in_(sa.bindparam("these", expanding=True)))
    .group_by(GUESTS.c.recovery_uuid, GUESTS.c.status)
)
_BY_STATUS = (
    sa.select(RECOVERIES.c.status, RECOVERIES.c.paused, sa.func.count().label("number"))
    .where(_OPEN)
    .group_by(RECOVERIES.c.status, RECOVERIES.c.paused)
)
#: A guest that is being deleted stays on a host that is down until the host is back.
_IS_RECOVERED = sa.and_(
    INSTANCES.c.vm_state.in_(_RECOVERED),
    sa.or_(INSTANCES.c.task_state.is_(None), INSTANCES.c.task_state != states.DELETING),
)
_WITH_GUESTS = (
    sa.select(INSTANCES.c.host)
    .where(INSTANCES.c.host.in_(sa.bindparam("hosts", expanding=True)), _IS_RECOVERED, sa.not_(INSTANCES.c.deleted))
    .distinct()
)


def may_go_on(fleet: RecoveryDomainRow, row: RecoveryRow) -> bool:
    """Return False if an operator, or the silence of too many hosts of the fleet, stops the recovery.

    A look may take long, so each step asks for the rows as they are now.
    """
    return not (fleet.paused or row.paused or (fleet.stopped and not row.asked))


def with_guests(connection: Transaction | sa.Connection, hosts: Collection[str]) -> set[str]:
    """Return the hosts that have guests which must leave."""
    return set(connection.execute(_WITH_GUESTS, {"hosts": sorted(hosts)}).scalars()) if hosts else set()


def guests_on(connection: Transaction | sa.Connection, host: str) -> Sequence[RequestedInstance]:
    """The instances of a host that must leave it, those included that an evacuation accepts only later."""
    there = instances.live(INSTANCES.c.host == host, _IS_RECOVERED)
    return cast("Sequence[RequestedInstance]", connection.execute(there).all())


def any_open(connection: Transaction | sa.Connection) -> bool:
    return (
        connection.execute(sa.select(RECOVERIES.c.uuid).where(_OPEN).order_by(RECOVERIES.c.uuid).limit(1)).first()
        is not None
    )


def due(connection: sa.Connection, now: datetime.datetime) -> Sequence[RecoveryRow]:
    """Return the recoveries that are due, the oldest first."""
    return cast("Sequence[RecoveryRow]", connection.execute(_DUE, {"now": now}).all())


def not_off(tx: Transaction, since: datetime.datetime) -> Mapping[str, RecoveryRow]:
    """Return by host the newest recoveries that have ended since then, and whose host was not off after its fence: the same
    life of its agent has reported again.
    """
    return {row.host: cast("RecoveryRow", row) for row in tx.execute(_NOT_OFF, {"since": since})}


def open_hosts(tx: Transaction | sa.Connection) -> set[str]:
    return set(tx.execute(sa.select(RECOVERIES.c.open_host).where(_OPEN).order_by(RECOVERIES.c.open_host)).scalars())


def is_open(tx: Transaction | sa.Connection, host: str) -> bool:
    """Return True if the host has a recovery that has not ended."""
    return tx.execute(sa.select(RECOVERIES.c.uuid).where(RECOVERIES.c.open_host == host)).first() is not None


def open_of(tx: Transaction, host: str) -> RecoveryRow:
    """The recovery of a host that has not ended."""
    return cast("RecoveryRow", tx.execute(sa.select(RECOVERIES).where(RECOVERIES.c.open_host == host)).one())


def get(connection: Transaction | sa.Connection, uuid: str) -> RecoveryRow:
    """:raises errors.NotFound:"""
    row = connection.execute(_ONE, {"wanted": uuid}).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Recovery", name=uuid)
    return cast("RecoveryRow", row)


def lock(tx: Transaction, uuid: str) -> RecoveryRow:
    return cast("RecoveryRow", tx.execute(_ONE.with_for_update(), {"wanted": uuid}).one())


def find(connection: sa.Connection, name: str) -> RecoveryRow:
    """:param name: a uuid, or a host: its newest recovery. :raises errors.NotFound:"""
    if uuid_like.canonical(name) is not None:
        return get(connection, str(uuid_like.canonical(name)))
    newest = sa.select(RECOVERIES).where(RECOVERIES.c.host == name)
    row = connection.execute(
        newest.order_by(RECOVERIES.c.created_at.desc(), RECOVERIES.c.uuid.desc()).limit(1)
    ).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Recovery of host", name=name)
    return cast("RecoveryRow", row)


def begin(
    tx: Transaction,
    uuid: str,
    host: str,
    guests: Sequence[str],
    now: datetime.datetime,
    silent_since: datetime.datetime | None,
    asked: bool,
) -> None:
    """:param guests: uuids, in the order in which they are moved"""
    values = {"uuid": uuid, "host": host, "open_host": host, "status": recovery_states.FENCING, "asked": asked}
    tx.insert(RECOVERIES, {**values, "silent_since": silent_since, "due_at": now, "created_at": now})
    add_guests(tx, uuid, guests, 0, now)


def add_guests(tx: Transaction, uuid: str, guests: Sequence[str], place: int, now: datetime.datetime) -> None:
    """:param place: of the first of ``guests``"""
    status = {"recovery_uuid": uuid, "status": recovery_states.WAITING, "due_at": now}
    rows = [{**status, "instance_uuid": each, "place": place + number} for number, each in enumerate(guests)]
    if rows:
        tx.insert_all(GUESTS, rows)


def update(tx: Transaction, uuid: str, now: datetime.datetime, **values: object) -> None:
    tx.update(RECOVERIES, uuid, {"updated_at": now, **values})


def guests(connection: Transaction | sa.Connection, uuid: str) -> Sequence[RecoveryGuestRow]:
    """Return the guests of a recovery in the order of their evacuation."""
    return cast("Sequence[RecoveryGuestRow]", connection.execute(_GUESTS, {"wanted": uuid}).all())


def guest(tx: Transaction, key: int) -> RecoveryGuestRow | None:
    return cast("RecoveryGuestRow | None", tx.execute(_GUEST, {"key": key}).one_or_none())


def update_guest(tx: Transaction, key: int, now: datetime.datetime, **values: object) -> None:
    tx.update(GUESTS, key, {"updated_at": now, **values})


def leave_waiting(tx: Transaction, uuid: str, now: datetime.datetime, busy: Collection[str] = ()) -> None:
    """``waiting → stayed``: the host is back. :param busy: guests that wait on"""
    waiting = (
        GUESTS.c.recovery_uuid == uuid,
        GUESTS.c.status == recovery_states.WAITING,
        GUESTS.c.instance_uuid.not_in(sorted(busy)),
    )
    stayed = {"status": recovery_states.STAYED, "problem": None, "updated_at": now}
    tx.execute(GUESTS.update().where(*waiting).values(stayed))


def under_way(tx: Transaction, now: datetime.datetime, down_time_s: float) -> int:
    """Return the number of guests, of all recoveries, whose evacuations have not ended.

    Those to hosts that are down are left out: they wait, and the others go on.
    """
    found = {row.dest_compute: row.number for row in tx.execute(_MOVING)}
    silent = services.silent(tx, found.keys() - {None}, now, down_time_s)
    return sum(number for host, number in found.items() if host not in silent)


def close_guests(tx: Transaction, uuid: str, now: datetime.datetime) -> None:
    """Close the guests of a recovery that ends: MOVED if their moves have ended well, STAYED otherwise.

    Moves that go on end without the recovery.
    """
    arrived = sa.select(MIGRATIONS.c.uuid).where(MIGRATIONS.c.status.in_((move_states.DONE, move_states.COMPLETED)))
    moved = GUESTS.c.recovery_uuid == uuid, GUESTS.c.status == recovery_states.MOVING
    values = {"status": recovery_states.MOVED, "problem": None, "updated_at": now}
    tx.execute(GUESTS.update().where(*moved, GUESTS.c.migration_uuid.in_(arrived)).values(values))
    left = GUESTS.c.recovery_uuid == uuid, GUESTS.c.status.in_((recovery_states.WAITING, recovery_states.MOVING))
    stayed = {"status": recovery_states.STAYED, "problem": None, "updated_at": now}
    tx.execute(GUESTS.update().where(*left).values(stayed))


def is_off(tx: Transaction | sa.Connection, host: str) -> bool:
    """Return True if the host is off for certain: it was forced down, or a fence has switched it off, and no agent of it has
    reported since.
    """
    service = services.get(tx, host, services.COMPUTE)
    if service is None or service.forced_down:
        return service is not None
    if service.last_seen_up is None:
        # An agent was stopped as for an upgrade, perhaps after the host had come back.
        return False
    fenced_at = tx.execute(_NEWEST_FENCED, {"of_host": host}).scalar_one_or_none()
    return fenced_at is not None and service.last_seen_up <= fenced_at


def add_step(tx: Transaction, uuid: str, step: str, message: str, now: datetime.datetime) -> None:
    tx.insert(STEPS, {"recovery_uuid": uuid, "step": step, "message": message, "created_at": now})


def has_step(tx: Transaction, uuid: str, step: str) -> bool:
    named = sa.select(STEPS.c.id).where(STEPS.c.recovery_uuid == uuid, STEPS.c.step == step)
    return tx.execute(named.order_by(STEPS.c.id).limit(1)).first() is not None


def steps(connection: sa.Connection, uuid: str) -> Sequence[RecoveryStepRow]:
    return cast("Sequence[RecoveryStepRow]", connection.execute(_STEPS, {"wanted": uuid}).all())


def newest(connection: sa.Connection, limit: int) -> Sequence[RecoveryRow]:
    """Open recoveries, then those that have ended, each the newest first."""
    order = sa.case((_OPEN, 0), else_=1), RECOVERIES.c.created_at.desc(), RECOVERIES.c.uuid.desc()
    return cast("Sequence[RecoveryRow]", connection.execute(sa.select(RECOVERIES).order_by(*order).limit(limit)).all())


def counts(connection: sa.Connection, uuids: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the number of guests by recovery and status."""
    found: dict[str, dict[str, int]] = {uuid: {} for uuid in uuids}
    for row in connection.execute(_COUNTS, {"these": sorted(uuids)}) if uuids else ():
        found[row.recovery_uuid][row.status] = row.number
    return found


def open_by_status(connection: sa.Connection) -> Mapping[str, int]:
    """Open recoveries by status; those that are paused under ``paused``."""
    found: dict[str, int] = {}
    for row in connection.execute(_BY_STATUS):
        name = "paused" if row.paused else row.status
        found[name] = found.get(name, 0) + row.number
    return found


def set_paused(tx: Transaction, uuid: str | None, paused: bool, now: datetime.datetime) -> None:
    """Pause or resume one recovery, or (None) all. A held recovery begins anew when it is resumed.

    :raises errors.Conflict: it has ended
    """
    if uuid is None:
        silence.set_paused(tx, paused, now)
        return
    row = lock(tx, uuid)
    if row.open_host is None:
        raise errors.Conflict(kind="Recovery of host", name=row.host, reason=f"has ended: it is {row.status}")
    values: dict[str, object] = {"paused": paused}
    if not paused:
        values["due_at"] = now
        waiting = GUESTS.c.recovery_uuid == uuid, GUESTS.c.status == recovery_states.WAITING
        tx.execute(GUESTS.update().where(*waiting).values(due_at=now))
        if row.status == recovery_states.HELD:
            values.update(status=recovery_states.FENCING, attempt=0, lease=None, lease_until=None, problem=None)
    if paused == row.paused and len(values) == 1:
        return
    update(tx, uuid, now, **values)
    add_step(tx, uuid, "paused" if paused else "resumed", "by an operator", now)


def remove_old(tx: Transaction, now: datetime.datetime) -> int:
    """Remove recoveries that ended longer ago than KEPT. Return how many."""
    old = sa.select(RECOVERIES.c.uuid).where(RECOVERIES.c.ended_at < now - KEPT).order_by(*_IN_ORDER)
    going = tx.execute(old.limit(_MOST_REMOVED)).scalars().all()
    if going:
        for table in (GUESTS, STEPS):
            tx.execute(table.delete().where(table.c.recovery_uuid.in_(going)))
        tx.execute(RECOVERIES.delete().where(RECOVERIES.c.uuid.in_(going)))
    return len(going)


class Whereabouts(Protocol):
    """The host and the task of an instance, and whether it is deleted."""

    uuid: str
    host: str | None
    deleted: bool
    task_state: str | None


_WHEREABOUTS = (
    sa.select(*(INSTANCES.c[name] for name in ("uuid", "host", "deleted", "task_state")))
    .where(INSTANCES.c.uuid.in_(sa.bindparam("these", expanding=True)))
    .order_by(INSTANCES.c.uuid)
)


def whereabouts(tx: Transaction, uuids: Collection[str]) -> dict[str, Whereabouts]:
    found = tx.execute(_WHEREABOUTS, {"these": sorted(uuids)}) if uuids else ()
    return {row.uuid: row for row in cast("Iterable[Whereabouts]", found)}
