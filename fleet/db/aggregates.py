# SPDX-License-Identifier: Apache-2.0
"""Host aggregates with their hosts and metadata."""

from __future__ import annotations

import collections
import datetime
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from oslo_db import exception as db_exception

from fleet import errors
from fleet.db import models
from fleet.db.engine import Transaction
from fleet.objects import Aggregate

AGGREGATES = models.aggregates
HOSTS = models.aggregate_hosts
METADATA = models.aggregate_metadata

_LIVE = sa.select(AGGREGATES).where(sa.not_(AGGREGATES.c.deleted)).order_by(AGGREGATES.c.id)
_CHANGED = _LIVE.where(AGGREGATES.c.generation > sa.bindparam("newer"))
_DELETED = sa.select(AGGREGATES.c.id).where(AGGREGATES.c.deleted, AGGREGATES.c.generation > sa.bindparam("newer"))


def create(tx: Transaction, uuid: str, name: str, metadata: Mapping[str, str], now: datetime.datetime) -> int:
    """The caller names the uuid, so that a commit that is repeated finds its own row. Returns the id.

    :raises errors.Conflict: the name is taken
    """
    found = tx.execute(sa.select(AGGREGATES.c.id).where(AGGREGATES.c.uuid == uuid)).scalar_one_or_none()
    if found is not None:
        return found
    try:
        key = tx.insert(AGGREGATES, {"name": name, "uuid": uuid, "created_at": now})
    except db_exception.DBDuplicateEntry:
        raise errors.Conflict(kind="Aggregate", name=name, reason="exists already") from None
    tx.touch(AGGREGATES, key)
    _set_metadata(tx, key, metadata)
    return key


def find(connection: Transaction | sa.Connection, name: str) -> Aggregate:
    """By name, uuid or id. :raises errors.NotFound:"""
    found = [each for each in list_all(connection) if name in (each.name, each.uuid, str(each.id))]
    if not found:
        raise errors.NotFound(kind="Aggregate", name=name)
    return found[0]


def add_host(tx: Transaction, name: str, host: str) -> Aggregate:
    """Adding twice is the same as once."""
    aggregate = find(tx, name)
    if host not in aggregate.hosts:
        tx.insert(HOSTS, {"aggregate_id": aggregate.id, "host": host})
        tx.touch(AGGREGATES, aggregate.id)
    return find(tx, name)


def remove_host(tx: Transaction, name: str, host: str) -> Aggregate:
    """:raises errors.NotFound: no such aggregate, or the host is not in it"""
    aggregate = find(tx, name)
    if host not in aggregate.hosts:
        raise errors.NotFound(kind="Host", name=f"{host} in aggregate {name}")
    tx.execute(HOSTS.delete().where(HOSTS.c.aggregate_id == aggregate.id, HOSTS.c.host == host))
    tx.touch(AGGREGATES, aggregate.id)
    return find(tx, name)


def set_metadata(tx: Transaction, name: str, metadata: Mapping[str, str | None]) -> Aggregate:
    """Set keys; a None value removes its key, others stay."""
    aggregate = find(tx, name)
    _set_metadata(tx, aggregate.id, metadata)
    tx.touch(AGGREGATES, aggregate.id)
    return find(tx, name)


def _set_metadata(tx: Transaction, key: int, metadata: Mapping[str, str | None]) -> None:
    tx.execute(METADATA.delete().where(METADATA.c.aggregate_id == key, METADATA.c.key.in_(list(metadata))))
    kept = [{"aggregate_id": key, "key": name, "value": value} for name, value in metadata.items() if value is not None]
    if kept:
        tx.execute(METADATA.insert(), kept)


def list_all(connection: Transaction | sa.Connection, newer_than: int | None = None) -> list[Aggregate]:
    """Live aggregates; with ``newer_than`` only those changed after that generation."""
    if newer_than is None:
        rows = connection.execute(_LIVE).all()
    else:
        rows = connection.execute(_CHANGED, {"newer": newer_than}).all()
    if not rows:
        return []
    keys = [row.id for row in rows]
    hosts: dict[int, list[str]] = collections.defaultdict(list)
    for row in connection.execute(sa.select(HOSTS).where(HOSTS.c.aggregate_id.in_(keys)).order_by(HOSTS.c.host)):
        hosts[row.aggregate_id].append(row.host)
    metadata: dict[int, dict[str, str]] = collections.defaultdict(dict)
    for row in connection.execute(sa.select(METADATA).where(METADATA.c.aggregate_id.in_(keys))):
        metadata[row.aggregate_id][row.key] = row.value
    return [Aggregate(row.id, row.name, hosts[row.id], metadata[row.id], row.uuid) for row in rows]


def deleted_since(connection: sa.Connection, generation: int) -> Sequence[int]:
    return connection.execute(_DELETED, {"newer": generation}).scalars().all()
