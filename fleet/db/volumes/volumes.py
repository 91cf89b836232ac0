# SPDX-License-Identifier: Apache-2.0
"""Rows of volumes and snapshots: find, list, lock and write them.

Called by modules of :mod:`conductor_stub`. ``fleet.volume_states`` draws their life, ``pools`` has their claims.
"""

from __future__ import annotations

import datetime
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, cast

import sqlalchemy as sa

from fleet import errors, stored_json, volume_states
from fleet.db.engine.database import Transaction
from fleet.db.engine.under_way import UnderWay
from fleet.db.hosts import lookup
from fleet.db.tables import models
from fleet.db.tables.sql_types import Columns, Values
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import volume_history
from fleet.objects import Volume, VolumeImage, VolumeType, fields, location

VOLUMES = models.volumes
#: Columns of the claim on the volume's own pool, and of that on the pool that it holds: host, pool and GiB.
OWN, HELD = ("host", "pool", "claimed_gb"), ("held_host", "held_pool", "held_gb")
Claim = tuple[str, str, str]
FILTERS = ("host", "name", "pool", "project_id", "snapshot_of", "status", "uuids", "volume_type")
Kind = Literal["Volume", "Snapshot"]

_DEFAULTS: Values = {column.name: getattr(column.default, "arg", None) for column in VOLUMES.columns}
#: Columns of a volume on its way to a pool that no scheduler reads.
_UNREAD = frozenset(("attempt", "deadline", "plan", "step", "step_deadline", "updated_at"))
_LIVE = sa.not_(VOLUMES.c.deleted)
_THESE = VOLUMES.c.uuid.in_(sa.bindparam("wanted", expanding=True))
_THESE_LIVE = sa.select(VOLUMES).where(_THESE, _LIVE).order_by(VOLUMES.c.uuid)
_FOUND = sa.select(VOLUMES).where(VOLUMES.c.uuid == sa.bindparam("one"))
_LOCKED = sa.select(VOLUMES).where(_THESE).order_by(VOLUMES.c.uuid).with_for_update()
_OF_KIND: Mapping[Kind, Any] = {
    "Volume": VOLUMES.c.snapshot_of.is_(None),
    "Snapshot": VOLUMES.c.snapshot_of.is_not(None),
}
_SNAPSHOTS = (
    sa.select(VOLUMES.c.name).where(VOLUMES.c.snapshot_of == sa.bindparam("one"), _LIVE).order_by(VOLUMES.c.name)
)
_SNAPSHOT_UUIDS = (
    sa.select(VOLUMES.c.uuid).where(VOLUMES.c.snapshot_of == sa.bindparam("one"), _LIVE).order_by(VOLUMES.c.uuid)
)
#: Key of ``spec``: the volume is deleted as soon as the last of its snapshots is gone.
WITH_SNAPSHOTS = "deleted_with_snapshots"
#: Key of ``spec``: the deletion waits for no backend whose agent is down or removed.
FORCED = "deletion_forced"
#: Key of ``spec``: pools (``machine@backend#pool``) on which a lost attempt, or a migration, may have left data.
#: A backend removes data of a live volume only from these pools. On any other pool the data may be the only copy, even if
#: the row names another pool.
LEFT = "left_on"
#: Key of ``spec`` of a deleted volume: it was unmanaged, and its data stay.
KEPT = "data_kept"
#: Key of ``spec``: volumes that are created as copies of this one. A new copy removes those that are finished.
COPIED_TO = "copied_to"
_BEING_COPIED = (
    sa.select(VOLUMES.c.uuid)
    .where(sa.or_(VOLUMES.c.snapshot_of == sa.bindparam("one"), _THESE))
    .where(VOLUMES.c.status == volume_states.CREATING, _LIVE)
    .order_by(VOLUMES.c.uuid)
)
#: Columns that never change, so that a list which is read by several calls has each volume once, also if one of them is
#: renamed between two calls.
_ORDER = VOLUMES.c.created_at, VOLUMES.c.uuid
_HERE = sa.or_(*(VOLUMES.c[name] == sa.bindparam("on_host") for name in ("host", "held_host")))
_ON_HOST = sa.select(VOLUMES).where(_HERE, _LIVE).order_by(VOLUMES.c.uuid)
#: Volumes that are deleted, or on no pool of a backend. Each agent asks once a minute about all that it has. Nearly all of
#: these are where they belong: their rows are not read.
_NOT_HERE = (
    sa.select(*(VOLUMES.c[name] for name in ("uuid", "deleted", "host", "held_host", "spec")))
    .where(_THESE, sa.or_(VOLUMES.c.deleted, sa.not_(sa.func.coalesce(_HERE, sa.false()))))
    .order_by(VOLUMES.c.uuid)
)
_DUE = (
    sa.select(VOLUMES)
    .where(VOLUMES.c.step_deadline <= sa.bindparam("now"), _LIVE)
    .order_by(VOLUMES.c.step_deadline, VOLUMES.c.uuid)
    .limit(sa.bindparam("at_most"))
)

_UNDER_WAY = (
    sa.select(
        VOLUMES.c.step,
        sa.func.count().label("number"),
        sa.func.min(sa.func.coalesce(VOLUMES.c.updated_at, VOLUMES.c.created_at)).label("oldest"),
    )
    # By the index of step deadlines: volumes under way have one.
    .where(VOLUMES.c.step_deadline.is_not(None), VOLUMES.c.step.is_not(None), _LIVE)
    .group_by(VOLUMES.c.step)
    .order_by(VOLUMES.c.step)
)


def create(tx: Transaction, rows: Sequence[Values]) -> None:
    """Insert volumes at the end of the transaction."""
    for row in rows:
        tx.defer_insert(VOLUMES, row)
    volume_history.created(tx, rows)


def accepted(row: Mapping[str, object]) -> VolumeRow:
    """A volume as :func:`create` writes it, in the form of a row that was read."""
    return cast("VolumeRow", types.SimpleNamespace(**{**_DEFAULTS, **row}))


def get(connection: Transaction | sa.Connection, uuid: str) -> VolumeRow:
    """The row, also of a deleted volume. :raises errors.NotFound:"""
    row = cast("VolumeRow | None", connection.execute(_FOUND, {"one": uuid}).one_or_none())
    if row is None:
        raise errors.NotFound(kind="Volume", name=uuid)
    return row


def find(connection: sa.Connection, name: str, kind: Kind = "Volume", project: str | None = None) -> VolumeRow:
    """Find a volume or snapshot by uuid, by the name of a live one of this kind, or by the beginning of a uuid.

    :param project: look only at its volumes; None: at all
    :raises errors.NotFound: errors.Conflict: several match; the message lists them
    """
    of_kind = _OF_KIND[kind]
    among = of_kind, *lookup.of_project(VOLUMES, project)
    uuid = lookup.find(connection, kind, VOLUMES, name, _LIVE, among=among)
    row = cast("VolumeRow | None", connection.execute(_FOUND.where(of_kind), {"one": uuid}).one_or_none())
    if row is None:
        raise errors.NotFound(kind=kind, name=name)
    lookup.require_visible(row, kind, name, project)
    return row


def summaries(connection: sa.Connection, uuids: Collection[str]) -> Sequence[VolumeRow]:
    """The rows of these volumes and snapshots, also of deleted ones, oldest first."""
    query = sa.select(VOLUMES).where(_THESE).order_by(*_ORDER)
    return cast("Sequence[VolumeRow]", connection.execute(query, {"wanted": list(uuids)}).all())


def of_project(connection: sa.Connection, uuids: Collection[str], project_id: str) -> set[str]:
    """Return the uuids of volumes, also of deleted ones, that belong to the project."""
    query = sa.select(VOLUMES.c.uuid).where(_THESE, VOLUMES.c.project_id == project_id)
    return set(connection.execute(query.order_by(VOLUMES.c.uuid), {"wanted": list(uuids)}).scalars())


def require_known(filters: Mapping[str, object] | None) -> None:
    """:raises errors.InvalidInput: a filter that is not in FILTERS, or has a value of a wrong type"""
    for name, value in (filters or {}).items():
        if name not in FILTERS:
            raise errors.InvalidInput(field=f"filters.{name}", reason=f"must be one of {', '.join(FILTERS)}")
        wanted: Any = list[fields.Text] if name == "uuids" else fields.Text | None
        fields.parse(wanted, value, f"filters.{name}")


def list_all(
    connection: sa.Connection,
    kind: Kind = "Volume",
    limit: int | None = None,
    marker: str | None = None,
    **filters: Any,
) -> Sequence[VolumeRow]:
    """Live volumes or snapshots, oldest first.

    :param marker: uuid of one; only those after it
    :param filters: named in FILTERS; None does not filter
    :raises errors.NotFound: an unknown marker
    """
    where = [
        VOLUMES.c.uuid.in_(value) if name == "uuids" else VOLUMES.c[name] == value
        for name, value in filters.items()
        if value is not None
    ]
    if marker is not None:
        last = get(connection, marker)
        if filters.get("project_id") not in (None, last.project_id):
            raise errors.NotFound(kind="Volume", name=marker)
        where.append(sa.tuple_(*_ORDER) > sa.tuple_(last.created_at, last.uuid))
    query = sa.select(VOLUMES).where(_LIVE, _OF_KIND[kind], *where).order_by(*_ORDER).limit(limit)
    return cast("Sequence[VolumeRow]", connection.execute(query).all())


def snapshots(connection: sa.Connection, filters: Mapping[str, Any]) -> Sequence[VolumeRow]:
    """Live snapshots; as :func:`list_all`."""
    return list_all(connection, "Snapshot", **filters)


def snapshots_of(connection: Transaction | sa.Connection, uuid: str) -> list[str]:
    """The names of the snapshots of a volume."""
    return list(connection.execute(_SNAPSHOTS, {"one": uuid}).scalars())


def snapshot_uuids(connection: Transaction | sa.Connection, uuid: str) -> list[str]:
    """The snapshots of a volume."""
    return list(connection.execute(_SNAPSHOT_UUIDS, {"one": uuid}).scalars())


def being_copied_to(tx: Transaction, row: VolumeRow) -> list[str]:
    """The snapshots and volumes that a backend still copies a locked volume to."""
    known = {"one": row.uuid, "wanted": row.spec.get(COPIED_TO, [])}
    return list(tx.execute(_BEING_COPIED, known).scalars())


def note_copies(tx: Transaction, row: VolumeRow, uuids: Collection[str]) -> None:
    """Volumes are created as copies of a locked one: as long as one is being made, no guest may write to it."""
    making = sorted({*being_copied_to(tx, row), *uuids})
    note(tx, row, spec={**row.spec, COPIED_TO: making})


def on_host(
    connection: Transaction | sa.Connection,
    host: str,
    uuids: Collection[str] | None = None,
    limit: int | None = None,
    marker: str | None = None,
) -> Sequence[VolumeRow]:
    """Live volumes and snapshots that claim or hold space of a backend, by uuid.

    :param uuids: only these of them
    :param marker: a uuid; only those after it
    """
    query = _ON_HOST.limit(limit)
    if uuids is not None:
        query = query.where(VOLUMES.c.uuid.in_(uuids))
    if marker is not None:
        query = query.where(VOLUMES.c.uuid > marker)
    return cast("Sequence[VolumeRow]", connection.execute(query, {"on_host": host}).all())


def live(connection: sa.Connection, uuids: Collection[str]) -> Sequence[VolumeRow]:
    """The rows of these volumes and snapshots, without deleted ones."""
    return cast("Sequence[VolumeRow]", connection.execute(_THESE_LIVE, {"wanted": list(uuids)}).all())


def removable(connection: sa.Connection, host: str, uuids: Collection[str], pool: str | None = None) -> list[str]:
    """Return the volumes that are deleted, or live elsewhere and have left data on the pool.

    Data of unmanaged volumes are not removed, even if they still have the name of a volume.

    :param pool: of the backend; None: any of its pools, for an agent that names none
    """
    found = connection.execute(_NOT_HERE, {"wanted": list(uuids), "on_host": host})
    return [row.uuid for row in found if _is_removable(cast("VolumeRow", row), host, pool)]


def _is_removable(row: VolumeRow, host: str, pool: str | None) -> bool:
    """:param row: of a volume that is deleted, or on no pool of the backend"""
    if row.deleted and not row.spec.get(KEPT):
        return True
    if host in (row.host, row.held_host):
        return False
    if pool is not None:
        return may_have_left(row, host, pool)
    return any(location.extract_host(place, "backend") == host for place in row.spec.get(LEFT, ()))


def leaves(row: VolumeRow, host: str | None, pool: str | None) -> Values:
    """Columns of a volume that may have left data on a pool."""
    place = location.append_host(host, pool)
    return {"spec": {**row.spec, LEFT: sorted({*row.spec.get(LEFT, ()), place})}}


def may_have_left(row: VolumeRow, host: str, pool: str) -> bool:
    """Return True if data of the volume may be on a pool, where it is not."""
    return location.append_host(host, pool) in row.spec.get(LEFT, ())


def returns(row: VolumeRow, host: str, pool: str) -> Values:
    """Return the columns of a volume that gets space of a pool, on which its data no longer count as left."""
    places = set(row.spec.get(LEFT, ())) - {location.append_host(host, pool)}
    spec = {name: value for name, value in row.spec.items() if name != LEFT}
    return {"spec": {**spec, LEFT: sorted(places)} if places else spec}


def due(connection: sa.Connection, now: datetime.datetime, limit: int) -> Sequence[VolumeRow]:
    """Volumes whose step is overdue, the most urgent first."""
    return cast("Sequence[VolumeRow]", connection.execute(_DUE, {"now": now, "at_most": limit}).all())


def under_way(connection: sa.Connection) -> dict[str, UnderWay]:
    """Return, by step, the ``number`` of volumes and snapshots, and the time of the ``oldest`` change among them."""
    return cast("dict[str, UnderWay]", {row.step: row for row in connection.execute(_UNDER_WAY)})


def lock_all(tx: Transaction, uuids: Collection[str]) -> list[VolumeRow]:
    """The rows that exist, locked in one order for all transactions until this one ends."""
    wanted, known = sorted(set(uuids)), tx.locked[VOLUMES]
    unread = [uuid for uuid in wanted if uuid not in known]
    if unread:
        known.update({row.uuid: row for row in tx.execute(_LOCKED, {"wanted": unread})})
    return [known[uuid] for uuid in wanted if uuid in known]


def lock(tx: Transaction, uuid: str) -> VolumeRow:
    """:raises errors.NotFound:"""
    rows = lock_all(tx, [uuid])
    if not rows:
        raise errors.NotFound(kind="Volume", name=uuid)
    return rows[0]


def write(tx: Transaction, row: VolumeRow, now: datetime.datetime, **values: object) -> VolumeRow:
    """Set ``values`` on a locked row; return the row as it is then. Schedulers read it again if they need to.

    The history of the volume gets the event that this makes.
    """
    volume_history.changed(tx, row, values, now)
    values = {"updated_at": now, **values}
    if _is_read(values):
        tx.defer_update(VOLUMES, row.uuid, values)
    else:
        tx.update(VOLUMES, row.uuid, values)
    written = tx.locked[VOLUMES][row.uuid] = changed(row, values)
    return written


def note(tx: Transaction, row: VolumeRow, **values: object) -> VolumeRow:
    """Set ``values`` on a locked row, which only users read: its step goes on as before. Return the row as it is then."""
    tx.update(VOLUMES, row.uuid, values)
    noted = tx.locked[VOLUMES][row.uuid] = changed(row, values)
    return noted


def _is_read(values: Mapping[str, object]) -> bool:
    """Return True if schedulers must read what is written. Otherwise its transaction waits for no generation."""
    unclaimed = values.get("step", volume_states.PLACING) in (volume_states.SCHEDULING, volume_states.PLACING)
    return not (unclaimed and values.keys() <= _UNREAD)


def changed(row: VolumeRow, values: Mapping[str, object]) -> VolumeRow:
    """The locked ``row`` with ``values``, which were written, without another query."""
    known = row._mapping if isinstance(row, sa.Row) else vars(row)
    return cast("VolumeRow", types.SimpleNamespace(**{**known, **values}))


def placed(of: Claim, host: str | None, pool: str | None, size_gb: int) -> Columns:
    """Columns of a claim."""
    return dict(zip(of, (host, pool, size_gb), strict=True))


def place_of(row: VolumeRow) -> tuple[str, str]:
    """Host and pool of a volume that has a pool."""
    assert row.host is not None, "the volume has a backend"
    assert row.pool is not None, "the volume has a pool"
    return row.host, row.pool


def acting_place(row: VolumeRow) -> tuple[str | None, str | None]:
    """The backend that must act, and the pool that it is about; (None, None) if none must."""
    if row.step in volume_states.HOLDING:
        return row.held_host, row.held_pool
    return (row.host, row.pool) if row.step == volume_states.WORKING else (None, None)


def require_readable(row: VolumeRow) -> None:
    """:raises errors.RequestUnreadable: the stored request cannot be read: the volume would get other data"""
    if stored_json.is_unreadable(row.spec):
        stored_json.note(row.spec, "volumes", row.uuid)
        raise errors.RequestUnreadable(kind="volume", uuid=row.uuid)


def acting_host(row: VolumeRow) -> str | None:
    """Return the backend that must act; None if no backend must."""
    return acting_place(row)[0]


def type_of(row: VolumeRow) -> VolumeType | None:
    """Return the type of the volume; during a retype, its new type."""
    spec = row.spec["retype"] if row.status == volume_states.RETYPING else row.spec
    found = spec.get("volume_type")
    return None if found is None else VolumeType.from_wire(found)


def to_volume(row: VolumeRow) -> Volume:
    """The value that is sent."""
    return Volume(
        uuid=row.uuid,
        name=row.name,
        size_gb=row.size_gb,
        status=row.status,
        step=row.step,
        attempt=row.attempt,
        host=row.host,
        pool=row.pool,
        claimed_gb=row.claimed_gb,
        held_host=row.held_host,
        held_pool=row.held_pool,
        copy_from=row.plan.get("copy_from"),
        old_copy=row.plan.get("old_copy", False),
        source_uuid=(row.spec.get("source") or {}).get("uuid"),
        image=VolumeImage(**row.spec["image"]) if row.spec.get("image") else None,
        reference=row.spec.get("reference"),
        snapshot_of=row.snapshot_of,
        volume_type=type_of(row),
        metadata=row.spec.get("metadata", {}),
        request_id=row.request_id,
    )
