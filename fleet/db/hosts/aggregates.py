# SPDX-License-Identifier: Apache-2.0
"""Host aggregates with their hosts and metadata. Conductors read and write them."""

from __future__ import annotations

import collections
import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import cast

import sqlalchemy as sa

from fleet import balance_states, errors
from fleet.db.engine.database import Transaction
from fleet.db.hosts import lookup
from fleet.db.tables import models
from fleet.db.tables.hosts import AggregateRow, MetadataRow
from fleet.db.tables.sql_types import AnyRow
from fleet.objects import Aggregate
from fleet.objects.aggregate import ZONE, require_zones, zones_of

AGGREGATES = models.aggregates
HOSTS = models.aggregate_hosts
METADATA = models.aggregate_metadata

#: Their rows have the name of an aggregate.
_BALANCING = (models.balances, models.balance_rounds)

#: Hosts, each with the value of a live aggregate that names its zones.
ZONED = (
    sa.select(HOSTS.c.host, METADATA.c.value)
    .join_from(HOSTS, METADATA, HOSTS.c.aggregate_id == METADATA.c.aggregate_id)
    .join(AGGREGATES, AGGREGATES.c.id == HOSTS.c.aggregate_id)
    .where(METADATA.c.key == ZONE, sa.not_(AGGREGATES.c.deleted))
    .order_by(HOSTS.c.host, HOSTS.c.aggregate_id)
)
_LIVE = sa.select(AGGREGATES).where(sa.not_(AGGREGATES.c.deleted)).order_by(AGGREGATES.c.id)
_CHANGED = _LIVE.where(AGGREGATES.c.generation > sa.bindparam("newer"))
_DELETED = (
    sa.select(AGGREGATES.c.id)
    .where(AGGREGATES.c.deleted, AGGREGATES.c.generation > sa.bindparam("newer"))
    .order_by(AGGREGATES.c.id)
)


def create(tx: Transaction, uuid: str, name: str, metadata: Mapping[str, str], now: datetime.datetime) -> int:
    """Return the id. The caller chooses the uuid, so that a repeated commit finds its own row.

    :raises errors.Conflict: the name is taken
    """
    found: int | None = tx.execute(sa.select(AGGREGATES.c.id).where(AGGREGATES.c.uuid == uuid)).scalar_one_or_none()
    if found is not None:
        return found
    with lookup.naming("Aggregate", name):
        key: int = tx.insert(AGGREGATES, {"name": name, "uuid": uuid, "created_at": now})
    tx.touch(AGGREGATES, key)
    _make_way(tx, name)
    _set_metadata(tx, key, metadata)
    return key


def named(connection: Transaction | sa.Connection, name: str) -> Aggregate:
    """Find an aggregate by its name only: a name may be the id of another aggregate. :raises errors.NotFound:"""
    rows = [row for row in connection.execute(_LIVE.where(AGGREGATES.c.name == name)) if row.name == name]
    if not rows:
        raise errors.NotFound(kind="Aggregate", name=name)
    return _whole(connection, rows)[0]


def find(connection: Transaction | sa.Connection, name: str) -> Aggregate:
    """Find an aggregate by uuid, name, id or the beginning of a uuid. This order counts: a name may be another one's id.

    :raises errors.NotFound: errors.Conflict: several uuids begin so
    """
    texts = (AGGREGATES.c.uuid, AGGREGATES.c.name, sa.cast(AGGREGATES.c.id, sa.String(20)))
    rows = connection.execute(_LIVE.where(sa.or_(*(text == name for text in texts)))).all()
    for known in ("uuid", "name", "id"):
        for row in rows:
            if name == str(getattr(row, known)):
                return _whole(connection, [row])[0]
    uuid = lookup.find(connection, "Aggregate", AGGREGATES, name, sa.not_(AGGREGATES.c.deleted))
    rows = connection.execute(_LIVE.where(AGGREGATES.c.uuid == uuid)).all()
    if not rows:
        raise errors.NotFound(kind="Aggregate", name=name)
    return _whole(connection, rows)[0]


def add_host(tx: Transaction, name: str, host: str) -> Aggregate:
    """Add the host; adding it twice changes nothing.

    :raises errors.NotFound: no such aggregate, or no such host; errors.Conflict: the host is in another zone
    """
    _lock_all(tx)
    aggregate = find(tx, name)
    if host not in aggregate.hosts:
        _require_known(tx, host)
        _require_one_zone(tx, aggregate, [host], aggregate.metadata.get(ZONE))
        tx.insert(HOSTS, {"aggregate_id": aggregate.id, "host": host})
        tx.touch(AGGREGATES, aggregate.id)
    return find(tx, name)


def rename(tx: Transaction, uuid: str, name: str, now: datetime.datetime) -> Aggregate:
    """:raises errors.NotFound: errors.Conflict: the name is taken"""
    before = find(tx, uuid)
    with lookup.naming("Aggregate", name):
        tx.update(AGGREGATES, before.id, {"name": name, "updated_at": now})
    tx.touch(AGGREGATES, before.id)
    if before.name != name:
        _follow(tx, before.name, name)
    return find(tx, uuid)


def _follow(tx: Transaction, before: str, name: str) -> None:
    """Rename an aggregate in the rows of balancing. Rows of a former aggregate with the new name are removed."""
    _make_way(tx, name)
    for table in _BALANCING:
        tx.execute(table.update().where(table.c.aggregate == before).values(aggregate=name))


def _make_way(tx: Transaction, name: str) -> None:
    """Remove the rows of balancing of a former aggregate with this name. It had other hosts, and may have been paused."""
    for table in _BALANCING:
        tx.execute(table.delete().where(table.c.aggregate == name))


def _lock_all(tx: Transaction) -> None:
    """Lock the aggregates: two concurrent changes might each see a host without a zone."""
    tx.execute(_LIVE.with_for_update())


def _require_known(tx: Transaction, host: str) -> None:
    live = sa.not_(models.services.c.deleted)
    agent = (models.services.c.host == host, models.services.c.binary == "fleet-compute", live)
    if not tx.execute(sa.select(models.services.c.id).where(*agent)).first():
        raise errors.NotFound(kind="Host", name=host)


def _require_one_zone(tx: Transaction, aggregate: Aggregate, hosts: Sequence[str], zone: str | None) -> None:
    """Check that ``hosts`` may be in ``zone``. :raises errors.Conflict: one of them is in another zone"""
    wanted = zones_of({ZONE: zone or ""})
    if not wanted:
        return
    for other in list_all(tx):
        there = zones_of(other.metadata)
        both = sorted(set(hosts) & set(other.hosts))
        if other.id != aggregate.id and there and there != wanted and both:
            other_zone = other.metadata[ZONE]
            raise errors.Conflict(
                kind="Host",
                name=both[0],
                reason=f"is in zone {other_zone} by aggregate {other.name}, and cannot be in zone {zone} as well",
            )


def remove_host(tx: Transaction, name: str, host: str) -> Aggregate:
    """:raises errors.NotFound: no such aggregate, or the host is not in it"""
    aggregate = find(tx, name)
    if host not in aggregate.hosts:
        raise errors.NotFound(kind="Host", name=f"{host} in aggregate {name}")
    tx.execute(HOSTS.delete().where(HOSTS.c.aggregate_id == aggregate.id, HOSTS.c.host == host))
    tx.touch(AGGREGATES, aggregate.id)
    return find(tx, name)


def set_metadata(tx: Transaction, name: str, metadata: Mapping[str, str | None]) -> Aggregate:
    """Set these keys, and remove those whose value is None.

    :raises errors.NotFound: errors.Conflict: hosts of the aggregate are in another zone
    """
    _lock_all(tx)
    aggregate = find(tx, name)
    _require_one_zone(tx, aggregate, aggregate.hosts, metadata.get(ZONE))
    _set_metadata(tx, aggregate.id, metadata)
    tx.touch(AGGREGATES, aggregate.id)
    return find(tx, name)


def _set_metadata(tx: Transaction, key: int, metadata: Mapping[str, str | None]) -> None:
    """:raises errors.InvalidInput: the mode of balancing is none, or a request cannot name a zone"""
    require_zones(metadata)
    mode = metadata.get(balance_states.METADATA)
    modes = (*balance_states.MODES, balance_states.OFF)
    if mode is not None and mode not in modes:
        raise errors.InvalidInput(
            field=f"metadata.{balance_states.METADATA}", reason=f"must be one of {', '.join(modes)}, got {mode!r}"
        )
    tx.execute(METADATA.delete().where(METADATA.c.aggregate_id == key, METADATA.c.key.in_(list(metadata))))
    kept = [{"aggregate_id": key, "key": name, "value": value} for name, value in metadata.items() if value is not None]
    if kept:
        tx.execute(METADATA.insert(), kept)


def list_all(connection: Transaction | sa.Connection, newer_than: int | None = None) -> list[Aggregate]:
    """Live aggregates. :param newer_than: only those that changed after this generation"""
    if newer_than is None:
        rows = connection.execute(_LIVE).all()
    else:
        rows = connection.execute(_CHANGED, {"newer": newer_than}).all()
    return _whole(connection, rows)


def having(connection: Transaction | sa.Connection, key: str) -> list[Aggregate]:
    """Live aggregates whose metadata have a key."""
    theirs = sa.select(METADATA.c.aggregate_id).where(METADATA.c.key == key)
    return _whole(connection, connection.execute(_LIVE.where(AGGREGATES.c.id.in_(theirs))).all())


def metadata_under(connection: Transaction | sa.Connection, key: str) -> dict[str, dict[str, str]]:
    """Return the metadata of live aggregates that have a key, by name, with this key alone. Their hosts are not read."""
    query = (
        sa.select(AGGREGATES.c.name, METADATA.c.value)
        .join_from(AGGREGATES, METADATA, AGGREGATES.c.id == METADATA.c.aggregate_id)
        .where(METADATA.c.key == key, sa.not_(AGGREGATES.c.deleted))
        .order_by(AGGREGATES.c.name)
    )
    return {row.name: {key: row.value} for row in connection.execute(query)}


def names(connection: Transaction | sa.Connection) -> dict[str, str]:
    """Return the names of live aggregates by uuid."""
    return {row.uuid: row.name for row in connection.execute(_LIVE)}


def _whole(connection: Transaction | sa.Connection, found: Sequence[AnyRow]) -> list[Aggregate]:
    """:param found: rows of aggregates. Their hosts and metadata are read"""
    rows = cast("Sequence[AggregateRow]", found)
    if not rows:
        return []
    keys = [row.id for row in rows]
    hosts: dict[int, list[str]] = collections.defaultdict(list)
    members = sa.select(HOSTS).where(HOSTS.c.aggregate_id.in_(keys)).order_by(HOSTS.c.host, HOSTS.c.aggregate_id)
    for row in connection.execute(members):
        hosts[row.aggregate_id].append(row.host)
    metadata: dict[int, dict[str, str]] = collections.defaultdict(dict)
    said = (
        sa.select(METADATA).where(METADATA.c.aggregate_id.in_(keys)).order_by(METADATA.c.aggregate_id, METADATA.c.key)
    )
    for each in cast("Sequence[MetadataRow]", connection.execute(said).all()):
        metadata[each.aggregate_id][each.key] = each.value
    return [
        Aggregate(
            row.id, row.name, hosts[row.id], metadata[row.id], row.uuid, _text(row.created_at), _text(row.updated_at)
        )
        for row in rows
    ]


def zones(connection: Transaction | sa.Connection, names: Collection[str] | None = None) -> dict[str, frozenset[str]]:
    """Return the availability zones of each host that is in one. :param names: only of these hosts"""
    query = ZONED
    if names is not None:
        query = query.where(HOSTS.c.host.in_(sorted(names)))
    found: dict[str, frozenset[str]] = {}
    for host, value in connection.execute(query):
        named = found.get(host, frozenset()) | zones_of({ZONE: value})
        if named:
            found[host] = named
    return found


def _text(moment: datetime.datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None


def deleted_since(connection: sa.Connection, generation: int) -> Sequence[int]:
    return connection.execute(_DELETED, {"newer": generation}).scalars().all()
