# SPDX-License-Identifier: Apache-2.0
"""Migration records: moves of instances to another host or flavor.

Called by modules of :mod:`conductor_stub`. ``fleet.move_states`` draws their life.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa

from fleet import errors, move_states, stored_json
from fleet.db.catalog import groups
from fleet.db.catalog.groups import PlacedMember
from fleet.db.engine import claimed
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.instances import instance_values, instances
from fleet.db.tables import models
from fleet.db.tables.instances import RequestedInstance
from fleet.db.tables.moves import MigrationRow
from fleet.json_codec import JSONMapping
from fleet.objects import Attachment, Holding, Migration, Sizing
from fleet.objects.plans import MovePlan

MIGRATIONS = models.migrations
NOTHING_HELD: JSONMapping = {"held_host": None, "held_node": None, **claimed.NOTHING}

_FOUND = sa.select(MIGRATIONS).where(MIGRATIONS.c.uuid == sa.bindparam("wanted"))
_LOCKED = _FOUND.with_for_update()
_IN_PROGRESS = MIGRATIONS.c.status.in_(move_states.IN_PROGRESS)
_OF_INSTANCE = sa.select(MIGRATIONS).where(
    MIGRATIONS.c.instance_uuid == sa.bindparam("wanted"), sa.or_(_IN_PROGRESS, MIGRATIONS.c.held_host.is_not(None))
)
_HOST: sa.BindParameter[str] = sa.bindparam("on_host")
_OF_HOST = (
    sa.select(MIGRATIONS)
    .where(
        sa.or_(
            MIGRATIONS.c.held_host == _HOST,
            sa.and_(_IN_PROGRESS, sa.or_(MIGRATIONS.c.source_compute == _HOST, MIGRATIONS.c.dest_compute == _HOST)),
        )
    )
    .order_by(MIGRATIONS.c.uuid)
)
_THESE_OF_HOST = _OF_HOST.where(MIGRATIONS.c.instance_uuid.in_(sa.bindparam("wanted", expanding=True)))
_DUE = (
    sa.select(MIGRATIONS)
    .where(MIGRATIONS.c.status.in_(move_states.UNDER_WAY), MIGRATIONS.c.step_deadline <= sa.bindparam("now"))
    .order_by(MIGRATIONS.c.step_deadline, MIGRATIONS.c.uuid)
    .limit(sa.bindparam("at_most"))
)
#: Live migrations that a conductor has taken: those on their way to a host, or from one.
_LIVE = sa.and_(
    MIGRATIONS.c.migration_type == move_states.LIVE_MIGRATION,
    MIGRATIONS.c.status.in_([each for each in move_states.UNDER_WAY if each != move_states.ACCEPTED]),
    MIGRATIONS.c.uuid != sa.bindparam("but"),
)
_LIVE_HERE = sa.or_(MIGRATIONS.c.source_compute == _HOST, MIGRATIONS.c.dest_compute == _HOST)
_COUNTED = sa.select(
    sa.func.coalesce(sa.func.sum(sa.case((_LIVE_HERE, 1), else_=0)), 0), sa.func.count(MIGRATIONS.c.uuid)
).where(_LIVE)
#: Hosts whose agents sent a heartbeat since then.
_ALIVE = sa.select(services.SERVICES.c.host).where(
    services.SERVICES.c.binary == services.COMPUTE, services.is_alive(sa.bindparam("alive_since"))
)
_UNCONFIRMED = (
    sa.select(MIGRATIONS)
    .where(
        MIGRATIONS.c.migration_type == move_states.RESIZE,
        MIGRATIONS.c.status == move_states.FINISHED,
        # A record is not written while it waits.
        MIGRATIONS.c.updated_at <= sa.bindparam("since"),
        # Those whose guest may be lost would otherwise fill the sweep, and wait for longer than all others.
        sa.or_(MIGRATIONS.c.dest_compute.in_(_ALIVE), MIGRATIONS.c.dest_compute == MIGRATIONS.c.source_compute),
    )
    .order_by(MIGRATIONS.c.updated_at, MIGRATIONS.c.uuid)
    .limit(sa.bindparam("at_most"))
)


def find(connection: Transaction | sa.Connection, uuid: str) -> MigrationRow | None:
    return cast("MigrationRow | None", connection.execute(_FOUND, {"wanted": uuid}).one_or_none())


def lock(tx: Transaction, uuid: str) -> tuple[RequestedInstance, MigrationRow]:
    """The instance's row and the record, locked in this order. :raises errors.NotFound:"""
    found = find(tx, uuid)
    if found is None:
        raise errors.NotFound(kind="Migration", name=uuid)
    instance = instances.lock(tx, found.instance_uuid)
    record = cast("MigrationRow", tx.execute(_LOCKED, {"wanted": uuid}).one())
    return instance, record


def of_instance(connection: Transaction | sa.Connection, instance_uuid: str, *where: Any) -> MigrationRow | None:
    """The record of the instance that is in progress or holds something. There is at most one."""
    return cast(
        "MigrationRow | None", connection.execute(_OF_INSTANCE.where(*where), {"wanted": instance_uuid}).one_or_none()
    )


def of_host(
    connection: sa.Connection, host: str, instance_uuids: Sequence[str] | None = None
) -> list[tuple[RequestedInstance, MigrationRow]]:
    """Moves to and from ``host`` that are in progress or hold something: the instance's row and the record."""
    if instance_uuids is None:
        records = cast("Sequence[MigrationRow]", connection.execute(_OF_HOST, {"on_host": host}).all())
    else:
        records = cast(
            "Sequence[MigrationRow]",
            connection.execute(_THESE_OF_HOST, {"on_host": host, "wanted": list(instance_uuids)}).all(),
        )
    return _with_instances(connection, records)


def due(connection: sa.Connection, now: datetime.datetime, limit: int) -> list[tuple[RequestedInstance, MigrationRow]]:
    """Moves whose step is overdue, the most urgent first: the instance's row and the record."""
    return _with_instances(connection, connection.execute(_DUE, {"now": now, "at_most": limit}).all())


_SENT = (
    sa.select(MIGRATIONS.c.instance_uuid.label("uuid"), MIGRATIONS.c.dest_compute.label("host"))
    .join(groups.MEMBERS, groups.MEMBERS.c.instance_uuid == MIGRATIONS.c.instance_uuid)
    .where(
        groups.MEMBERS.c.group_uuid == sa.bindparam("of_group"),
        MIGRATIONS.c.migration_type == move_states.EVACUATION,
        MIGRATIONS.c.status == move_states.PREPARING,
        MIGRATIONS.c.dest_compute.is_not(None),
    )
    .order_by(MIGRATIONS.c.uuid)
)
_NOT_CLEANED = (
    sa.select(MIGRATIONS.c.instance_uuid, MIGRATIONS.c.source_compute)
    .where(
        MIGRATIONS.c.instance_uuid.in_(sa.bindparam("of_instances", expanding=True)),
        MIGRATIONS.c.migration_type == move_states.EVACUATION,
        MIGRATIONS.c.status == move_states.DONE,
    )
    .order_by(MIGRATIONS.c.created_at, MIGRATIONS.c.uuid)
)


def unconfirmed(
    connection: sa.Connection, since: datetime.datetime, alive_since: datetime.datetime, limit: int
) -> list[tuple[RequestedInstance, MigrationRow]]:
    """Resizes that have waited for their confirmation since ``since`` or longer, the longest first, as in :func:`due`.

    :param alive_since: only those whose guest is on a host with a heartbeat since then
    """
    given = {"since": since, "alive_since": alive_since, "at_most": limit}
    return _with_instances(connection, connection.execute(_UNCONFIRMED, given).all())


def _with_instances(
    connection: sa.Connection, records: Sequence[MigrationRow]
) -> list[tuple[RequestedInstance, MigrationRow]]:
    """Each record after the row of its instance, if that is not deleted."""
    by_uuid = {row.uuid: row for row in instances.of_uuids(connection, {each.instance_uuid for each in records})}
    return [(by_uuid[each.instance_uuid], each) for each in records if each.instance_uuid in by_uuid]


def destinations_of_group(connection: Transaction | sa.Connection, group_uuid: str) -> Sequence[PlacedMember]:
    """``uuid`` and ``host`` of the group's evacuated members that were sent to a destination, which has not claimed yet."""
    return cast("Sequence[PlacedMember]", connection.execute(_SENT, {"of_group": group_uuid}).all())


_FILTERS: Mapping[str, Callable[[Any], Any]] = {
    "uuids": MIGRATIONS.c.uuid.in_,
    "instance_uuid": lambda uuid: MIGRATIONS.c.instance_uuid == uuid,
    "project_id": lambda project: MIGRATIONS.c.instance_uuid.in_(
        sa.select(models.instances.c.uuid).where(models.instances.c.project_id == project)
    ),
    "status": lambda status: MIGRATIONS.c.status == status,
    "migration_type": lambda kind: MIGRATIONS.c.migration_type == kind,
    "host": lambda host: sa.or_(MIGRATIONS.c.source_compute == host, MIGRATIONS.c.dest_compute == host),
}
FILTERS = tuple(sorted(_FILTERS))


_WITH_OWNERS = (
    sa.select(MIGRATIONS, models.instances.c.project_id, models.instances.c.user_id)
    .join(models.instances, models.instances.c.uuid == MIGRATIONS.c.instance_uuid)
    .order_by(MIGRATIONS.c.created_at.desc(), MIGRATIONS.c.uuid)
)


def list_all(
    connection: sa.Connection, /, *where: Any, limit: int | None = None, marker: str | None = None, **filters: Any
) -> Sequence[MigrationRow]:
    """Records, the newest first, with ``project_id`` and ``user_id`` of the instance.

    :param marker: uuid of a record: only those after it
    :param filters: named in FILTERS
    :raises errors.NotFound: an unknown marker
    """
    named = [*where, *(_FILTERS[name](value) for name, value in filters.items())]
    if marker is not None:
        own = [_FILTERS[name](filters[name]) for name in ("project_id",) if name in filters]
        place = sa.select(MIGRATIONS.c.created_at).where(MIGRATIONS.c.uuid == marker, *own)
        last = connection.execute(place).one_or_none()
        if last is None:
            raise errors.NotFound(kind="Migration", name=marker)
        as_old = sa.and_(MIGRATIONS.c.created_at == last.created_at, MIGRATIONS.c.uuid > marker)
        named.append(sa.or_(MIGRATIONS.c.created_at < last.created_at, as_old))
    return cast("Sequence[MigrationRow]", connection.execute(_WITH_OWNERS.where(*named).limit(limit)).all())


def count_live(tx: Transaction, host: str | None, but: str) -> tuple[int, int]:
    """Return how many live migrations are under way from or to ``host``, and in all, without the record ``but``.

    The count stays true until the commit: the last lock of every transaction is taken.
    """
    tx.lock_last()
    there, all_of_them = tx.execute(_COUNTED, {"on_host": host, "but": but}).one()
    return int(there), int(all_of_them)


def update(tx: Transaction, uuid: str, now: datetime.datetime, **values: object) -> None:
    """Set ``values`` on a locked record. A plan is changed by :func:`change_plan`."""
    tx.update(MIGRATIONS, uuid, {"updated_at": now, **values})


def change_plan(
    tx: Transaction, record: MigrationRow, now: datetime.datetime, changes: MovePlan, **values: object
) -> None:
    """Set some keys in the plan of a locked record, which keeps the others, and ``values`` on the record.

    The plan has what the move was asked for, which each attempt must find again.
    """
    update(tx, record.uuid, now, plan={**record.plan, **changes}, **values)


def abandon(tx: Transaction, instance_uuid: str, now: datetime.datetime) -> str | None:
    """End the move of an instance that is being deleted; return the host on which the record still holds something."""
    record = of_instance(tx, instance_uuid)
    if record is None:
        return None
    if record.status in move_states.IN_PROGRESS:
        failure = {"error": "Deleted", "message": "The instance was deleted.", "details": {}}
        update(tx, record.uuid, now, status=move_states.ERROR, failure=failure, step_deadline=None)
    return record.held_host


def complete_evacuations(tx: Transaction, instance_uuid: str, host: str, now: datetime.datetime) -> None:
    """``done → completed``: the guest that an evacuated instance left on ``host`` is destroyed."""
    left = (MIGRATIONS.c.instance_uuid == instance_uuid, MIGRATIONS.c.source_compute == host)
    done = (MIGRATIONS.c.migration_type == move_states.EVACUATION, MIGRATIONS.c.status == move_states.DONE)
    tx.execute(MIGRATIONS.update().where(*left, *done).values(status=move_states.COMPLETED, updated_at=now))


def not_cleaned(connection: sa.Connection, instance_uuids: Sequence[str]) -> dict[str, list[str]]:
    """Return, by instance, the hosts from which it was evacuated, and which have not destroyed its old guest yet."""
    found: dict[str, list[str]] = {}
    for row in connection.execute(_NOT_CLEANED, {"of_instances": list(instance_uuids)}) if instance_uuids else ():
        found.setdefault(row.instance_uuid, []).append(row.source_compute)
    return found


def vacated(connection: sa.Connection, instance_uuid: str) -> list[str]:
    """Return the hosts that every placement of the instance leaves out: its old guest may still be there.

    Its cleaning would otherwise be taken for the removal of the new guest.
    """
    return not_cleaned(connection, [instance_uuid]).get(instance_uuid, [])


def to_migration(
    instance: RequestedInstance,
    record: MigrationRow,
    step_within_s: float | None = None,
    volumes: Sequence[Attachment] = (),
) -> Migration:
    """The value that is sent."""
    return Migration(
        uuid=record.uuid,
        instance=instance_values.to_instance(instance),
        migration_type=record.migration_type,
        status=record.status,
        attempt=record.attempt,
        source_compute=record.source_compute,
        source_node=record.source_node,
        dest_compute=record.dest_compute,
        dest_node=record.dest_node,
        old=_sizing(record.old_spec, instance, record),
        new=_sizing(record.new_spec, instance, record),
        limits=record.plan.get("limits"),
        held=_holding(record),
        failure=None if record.failure is None else {**record.failure},
        step_within_s=step_within_s,
        volumes=list(volumes),
    )


def _sizing(spec: JSONMapping, instance: RequestedInstance, record: MigrationRow) -> Sizing:
    """A size that cannot be read counts as the present one, so that the host can end the move."""
    if stored_json.is_unreadable(spec):
        stored_json.note(spec, "migrations", record.uuid)
        return Sizing(flavor=instance_values.to_instance(instance).flavor)
    return Sizing.from_wire(spec)


def _holding(record: MigrationRow) -> Holding | None:
    if record.held_host is None:
        return None
    return Holding(record.instance_uuid, record.held_host, record.held_node, claimed.held(record))
