# SPDX-License-Identifier: Apache-2.0
"""Maintenances of hosts in waves (``fleet.maintenance_states``).

The room :mod:`conductor_stub.maintenance` reads and writes them.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import sqlalchemy as sa

from fleet import errors, maintenance_states, move_states, states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.tables import models
from fleet.db.tables.moves import MigrationRow
from fleet.db.tables.operations.maintenance import MaintenanceHostRow, MaintenanceRow
from fleet.db.tables.sql_types import Values
from fleet.objects import uuid_like

MAINTENANCES = models.maintenances
HOSTS = models.maintenance_hosts
GUESTS = models.maintenance_guests
INSTANCES = models.instances
MIGRATIONS = models.migrations
#: States of instances whose guests may stay on a host in a maintenance, as long as they have no task.
RESTING = (*states.AT_REST, states.SHELVED_OFFLOADED)
#: Maintenances that have ended are kept for this time.
KEPT = seconds(400 * 24 * 3600)
_MOST_REMOVED = 100

_WANTED = sa.bindparam("wanted", type_=sa.String)
_KEY = sa.bindparam("key", type_=sa.BigInteger)
_NOW: sa.BindParameter[datetime.datetime] = sa.bindparam("now", type_=models.Timestamp)
_ONE = sa.select(MAINTENANCES).where(MAINTENANCES.c.uuid == _WANTED)
_IN_ORDER = MAINTENANCES.c.created_at, MAINTENANCES.c.uuid
_GOING_ON = (
    sa.select(MAINTENANCES)
    .where(
        MAINTENANCES.c.status == maintenance_states.RUNNING,
        sa.or_(
            sa.not_(MAINTENANCES.c.paused),
            # An operator has left out the last host.
            sa.not_(
                sa.exists(
                    sa.select(HOSTS.c.id).where(
                        HOSTS.c.maintenance_uuid == MAINTENANCES.c.uuid, HOSTS.c.open_host.is_not(None)
                    )
                )
            ),
        ),
    )
    .order_by(*_IN_ORDER)
)
_HOSTS = sa.select(HOSTS).where(HOSTS.c.maintenance_uuid == _WANTED).order_by(HOSTS.c.wave, HOSTS.c.id)
_HOST = sa.select(HOSTS).where(HOSTS.c.id == _KEY)
_LEFT = HOSTS.alias()
#: The hosts of the first wave that has not ended. A maintenance may have all hosts of the fleet.
_WAVE = _HOSTS.where(
    HOSTS.c.open_host.is_not(None),
    HOSTS.c.wave
    == sa.select(sa.func.min(_LEFT.c.wave))
    .where(_LEFT.c.maintenance_uuid == _WANTED, _LEFT.c.open_host.is_not(None))
    .scalar_subquery(),
)
_TAKEN = (
    sa.select(HOSTS.c.host)
    .where(HOSTS.c.maintenance_uuid == _WANTED, HOSTS.c.status.in_(maintenance_states.TAKEN))
    .order_by(HOSTS.c.host)
)
#: The guest of an instance runs, or is about to.
RUNS = sa.or_(
    INSTANCES.c.vm_state.not_in(RESTING),
    INSTANCES.c.task_state.is_not(None),
    INSTANCES.c.power_state == states.RUNNING,
)
#: A guest that was at rest when the host was emptied runs again.
_RUNS_THERE = sa.exists(
    sa.select(INSTANCES.c.uuid).where(INSTANCES.c.host == HOSTS.c.open_host, sa.not_(INSTANCES.c.deleted), RUNS)
)
_ALL_TAKEN = (
    sa.select(HOSTS.c.open_host)
    .where(
        HOSTS.c.open_host.is_not(None),
        sa.or_(
            HOSTS.c.status.in_((maintenance_states.WORKING, maintenance_states.RETURNING)),
            # Its hook has failed, as at the end of its time: a fence would break into work that goes on. One that has done
            # its work and does not return may be dead.
            sa.and_(HOSTS.c.status == maintenance_states.FAILED, HOSTS.c.worked_at.is_(None)),
        ),
        HOSTS.c.emptied_at.is_not(None),
        sa.or_(
            sa.and_(HOSTS.c.status == maintenance_states.WORKING, HOSTS.c.lease_until > _NOW),
            sa.not_(_RUNS_THERE),
        ),
    )
    .order_by(HOSTS.c.open_host)
)
_OPEN_BY_STATUS = (
    sa.select(HOSTS.c.status, sa.func.count().label("number"))
    .where(HOSTS.c.open_host.is_not(None))
    .group_by(HOSTS.c.status)
    .order_by(HOSTS.c.status)
)
_DESTINATIONS = (
    sa.select(GUESTS.c.instance_uuid, GUESTS.c.destination)
    .where(GUESTS.c.maintenance_uuid == _WANTED, GUESTS.c.host == sa.bindparam("on_host"))
    .order_by(GUESTS.c.id)
)
_UNDER_WAY = (
    sa.select(sa.func.count())
    .select_from(MIGRATIONS)
    .where(
        MIGRATIONS.c.status.in_(move_states.UNDER_WAY),
        MIGRATIONS.c.source_compute.in_(sa.bindparam("hosts", expanding=True)),
    )
)
_BUSY = (
    sa.select(MIGRATIONS)
    .where(
        MIGRATIONS.c.status.in_(move_states.IN_PROGRESS),
        sa.or_(
            MIGRATIONS.c.source_compute == sa.bindparam("on_host"), MIGRATIONS.c.dest_compute == sa.bindparam("on_host")
        ),
    )
    .order_by(MIGRATIONS.c.created_at, MIGRATIONS.c.uuid)
)
_UNPLACED = (
    sa.select(MIGRATIONS.c.uuid)
    .where(
        MIGRATIONS.c.status.in_(move_states.UNCLAIMED),
        MIGRATIONS.c.dest_compute.is_(None),
        MIGRATIONS.c.created_at <= sa.bindparam("before"),
    )
    .order_by(MIGRATIONS.c.uuid)
    .limit(1)
)
_AWAY = (
    sa.select(MIGRATIONS)
    .where(
        # By the index of instances: records of moves that have ended are many.
        MIGRATIONS.c.instance_uuid.in_(sa.select(INSTANCES.c.uuid).where(INSTANCES.c.host == sa.bindparam("on_host"))),
        MIGRATIONS.c.source_compute == sa.bindparam("on_host"),
        MIGRATIONS.c.created_at >= sa.bindparam("since"),
    )
    .order_by(MIGRATIONS.c.created_at, MIGRATIONS.c.uuid)
)
_PLACING_SINCE = (
    sa.select(INSTANCES.c.uuid)
    .where(
        sa.or_(
            # The index begins with the vm_state.
            sa.and_(INSTANCES.c.vm_state == states.BUILDING, INSTANCES.c.task_state == states.PLACING),
            sa.and_(INSTANCES.c.vm_state == states.SHELVED_OFFLOADED, INSTANCES.c.task_state.is_not(None)),
        ),
        sa.not_(INSTANCES.c.deleted),
        INSTANCES.c.created_at <= sa.bindparam("before"),
    )
    .order_by(INSTANCES.c.uuid)
    .limit(1)
)


class Summary(NamedTuple):
    """The number of hosts of a maintenance with one status, and the first and the last wave that has such a host."""

    status: str
    number: int
    first: int
    last: int


def going_on(connection: sa.Connection) -> Sequence[MaintenanceRow]:
    """Maintenances that are neither paused nor over, or have no host left, the oldest first."""
    return cast("Sequence[MaintenanceRow]", connection.execute(_GOING_ON).all())


def get(connection: Transaction | sa.Connection, uuid: str) -> MaintenanceRow:
    """:raises errors.NotFound:"""
    row = connection.execute(_ONE, {"wanted": uuid}).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Maintenance", name=uuid)
    return cast("MaintenanceRow", row)


def lock(tx: Transaction, uuid: str) -> MaintenanceRow:
    """:raises errors.NotFound:"""
    row = tx.execute(_ONE.with_for_update(), {"wanted": uuid}).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Maintenance", name=uuid)
    return cast("MaintenanceRow", row)


def find(connection: sa.Connection, name: str) -> MaintenanceRow:
    """:param name: a uuid, or a name: the one that has not ended, or the newest. :raises errors.NotFound:"""
    uuid = uuid_like.canonical(name)
    if uuid is not None:
        return get(connection, uuid)
    of_name = sa.select(MAINTENANCES).where(MAINTENANCES.c.name == name)
    is_open = sa.case((MAINTENANCES.c.open_name.is_not(None), 0), else_=1)
    newest = of_name.order_by(is_open, MAINTENANCES.c.created_at.desc(), MAINTENANCES.c.uuid.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Maintenance", name=name)
    return cast("MaintenanceRow", row)


def newest(connection: sa.Connection, limit: int) -> Sequence[MaintenanceRow]:
    """Return the maintenances that have not ended, then the others, each group the newest first."""
    is_open = MAINTENANCES.c.open_name.is_not(None)
    order = sa.case((is_open, 0), else_=1), MAINTENANCES.c.created_at.desc(), MAINTENANCES.c.uuid.desc()
    query = sa.select(MAINTENANCES).order_by(*order).limit(limit)
    return cast("Sequence[MaintenanceRow]", connection.execute(query).all())


def hosts(connection: Transaction | sa.Connection, uuid: str) -> Sequence[MaintenanceHostRow]:
    """All hosts of a maintenance, by wave."""
    return cast("Sequence[MaintenanceHostRow]", connection.execute(_HOSTS, {"wanted": uuid}).all())


def wave(connection: Transaction | sa.Connection, uuid: str) -> Sequence[MaintenanceHostRow]:
    """Return the hosts of the present wave whose maintenance has not ended."""
    return cast("Sequence[MaintenanceHostRow]", connection.execute(_WAVE, {"wanted": uuid}).all())


def taken_hosts(connection: Transaction | sa.Connection, now: datetime.datetime) -> set[str]:
    """Return the hosts that a maintenance has emptied and not returned. Their agents may be away, for a time.

    One that has failed to return is left out, and one whose hook does not run as soon as a guest runs there again.
    """
    return set(connection.execute(_ALL_TAKEN, {"now": now}).scalars())


def lock_host(tx: Transaction, key: int) -> MaintenanceHostRow:
    return cast("MaintenanceHostRow", tx.execute(_HOST.with_for_update(), {"key": key}).one())


def create(
    tx: Transaction,
    values: Values,
    waves: Sequence[Sequence[str]],
    destinations: Mapping[str, Mapping[str, str]],
    left_out: Mapping[str, str],
) -> None:
    """
    :param waves: hosts of each wave
    :param destinations: by host, by uuid of a guest
    :param left_out: by host that is in no wave, why

    :raises errors.Conflict: the name, or a host, is in a maintenance that has not ended
    """
    if tx.execute(_ONE, {"wanted": values["uuid"]}).first() is not None:
        return
    names = [host for each in waves for host in each]
    taken = sa.select(HOSTS.c.open_host).where(HOSTS.c.open_host.in_(names)).order_by(HOSTS.c.open_host)
    for host in tx.execute(taken.limit(1)).scalars():
        raise errors.Conflict(kind="Host", name=host, reason="is in a maintenance that has not ended")
    named = sa.select(MAINTENANCES.c.uuid).where(MAINTENANCES.c.open_name == values["name"])
    if tx.execute(named).first() is not None:
        raise errors.Conflict(kind="Maintenance", name=values["name"], reason="has not ended: choose another name")
    tx.insert(MAINTENANCES, {**values, "open_name": values["name"], "status": maintenance_states.RUNNING})
    shared = {"maintenance_uuid": values["uuid"]}
    rows = [
        {**shared, "host": host, "open_host": host, "wave": number, "status": maintenance_states.WAITING}
        for number, each in enumerate(waves, 1)
        for host in each
    ]
    tx.insert_all(HOSTS, rows)
    skipped = {**shared, "wave": 0, "status": maintenance_states.SKIPPED, "ended_at": values["created_at"]}
    if left_out:
        tx.insert_all(HOSTS, [{**skipped, "host": host, "problem": why} for host, why in left_out.items()])
    guests = [
        {**shared, "host": host, "instance_uuid": uuid, "destination": destination}
        for host, of_host in destinations.items()
        for uuid, destination in of_host.items()
    ]
    if guests:
        tx.insert_all(GUESTS, guests)


def update(tx: Transaction, uuid: str, now: datetime.datetime, **values: object) -> None:
    tx.update(MAINTENANCES, uuid, {"updated_at": now, **values})


def update_host(tx: Transaction, key: int, now: datetime.datetime, **values: object) -> None:
    tx.update(HOSTS, key, {"updated_at": now, **values})


def destinations(connection: Transaction | sa.Connection, uuid: str, host: str) -> dict[str, str]:
    """Return, by instance, the destinations of a host's guests in the plan."""
    found = connection.execute(_DESTINATIONS, {"wanted": uuid, "on_host": host})
    return {row.instance_uuid: row.destination for row in found}


def under_way(tx: Transaction, uuid: str, now: datetime.datetime, down_time_s: float) -> int:
    """Return the number of moves away from hosts that the maintenance has taken.

    Those of hosts that are down are left out: they wait, some until their deadlines, and the other hosts go on.
    """
    taken = tx.execute(_TAKEN, {"wanted": uuid}).scalars().all()
    alive = sorted(set(taken) - services.silent(tx, taken, now, down_time_s))
    number: int = tx.execute(_UNDER_WAY, {"hosts": alive}).scalar_one() if alive else 0
    return number


def busy(tx: Transaction, host: str) -> Sequence[MigrationRow]:
    """Moves to or from a host that are in progress, the oldest first."""
    return cast("Sequence[MigrationRow]", tx.execute(_BUSY, {"on_host": host}).all())


def away(tx: Transaction, host: str, since: datetime.datetime) -> Sequence[MigrationRow]:
    """Return the moves of guests of a host away from it that were requested since then, the oldest first."""
    return cast("Sequence[MigrationRow]", tx.execute(_AWAY, {"on_host": host, "since": since}).all())


def is_placing(tx: Transaction, before: datetime.datetime) -> bool:
    """Return True if an instance, or a move, that was accepted before this time is being placed: it may arrive anywhere."""
    found = (tx.execute(each, {"before": before}).first() for each in (_PLACING_SINCE, _UNPLACED))
    return any(each is not None for each in found)


def summaries(connection: Transaction | sa.Connection, uuids: Collection[str]) -> dict[str, list[Summary]]:
    """Return, by the uuid of a maintenance, one :class:`Summary` for each status of its hosts."""
    found: dict[str, list[Summary]] = {uuid: [] for uuid in uuids}
    query = (
        sa.select(
            *(HOSTS.c.maintenance_uuid, HOSTS.c.status, sa.func.count().label("number")),
            *(sa.func.min(HOSTS.c.wave).label("first"), sa.func.max(HOSTS.c.wave).label("last")),
        )
        .where(HOSTS.c.maintenance_uuid.in_(sorted(uuids)))
        .group_by(HOSTS.c.maintenance_uuid, HOSTS.c.status)
        .order_by(HOSTS.c.maintenance_uuid, HOSTS.c.status)
    )
    for row in connection.execute(query) if uuids else ():
        found[row.maintenance_uuid].append(Summary(row.status, row.number, row.first, row.last))
    return found


def open_by_status(connection: sa.Connection) -> dict[str, int]:
    """Hosts that are in a maintenance, by status."""
    return {row.status: row.number for row in connection.execute(_OPEN_BY_STATUS)}


def remove_old(tx: Transaction, now: datetime.datetime) -> int:
    """Remove maintenances that ended longer ago than KEPT. Return how many."""
    old = sa.select(MAINTENANCES.c.uuid).where(MAINTENANCES.c.ended_at < now - KEPT).order_by(*_IN_ORDER)
    going: Iterable[str] = tx.execute(old.limit(_MOST_REMOVED)).scalars().all()
    gone = list(going)
    if gone:
        for table in (GUESTS, HOSTS):
            tx.execute(table.delete().where(table.c.maintenance_uuid.in_(gone)))
        tx.execute(MAINTENANCES.delete().where(MAINTENANCES.c.uuid.in_(gone)))
    return len(gone)
