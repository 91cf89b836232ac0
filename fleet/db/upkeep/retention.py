# SPDX-License-Identifier: Apache-2.0
"""Deleted instances and volumes, and all rows about them: found by age, exported, and removed.

Called by :mod:`fleet_cli.upkeep.retention`.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from fleet import stored_json
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.sql_types import AnyRow
from fleet.json_codec import JSONObject

INSTANCES = models.instances
VOLUMES = models.volumes
REQUESTS = models.build_requests
BOOT_DATA = models.boot_data

#: A row that was deleted a short time ago stays, whatever age is asked for: schedulers read the deletion from the row.
YOUNGEST = seconds(3600)
#: Tables with rows about one instance.
ABOUT_ONE = tuple(table for table in models.METADATA.sorted_tables if "instance_uuid" in table.c)
#: Of them, those that are exported. User data and passwords are not.
EXPORTED = tuple(table for table in ABOUT_ONE if table is not models.rebuilt_boot_data)
#: Tables with rows about one volume or snapshot.
ABOUT_VOLUME = tuple(table for table in models.METADATA.sorted_tables if "volume_uuid" in table.c)


def cutoff(now: datetime.datetime, before: datetime.datetime | None = None) -> datetime.datetime:
    """Return the time before which deleted rows may be removed.

    :param before: what an operator asked for; None: as many as may
    """
    return now - YOUNGEST if before is None else min(before, now - YOUNGEST)


def count(connection: sa.Connection, before: datetime.datetime, table: sa.Table = INSTANCES) -> int:
    """Number of instances, or of volumes and snapshots, that were deleted before ``before``."""
    return connection.execute(sa.select(sa.func.count()).select_from(table).where(*_old(table, before))).scalar_one()


def find(connection: sa.Connection, before: datetime.datetime, limit: int, table: sa.Table = INSTANCES) -> list[str]:
    """Return the uuids of rows that were deleted before ``before``, the oldest first."""
    query = sa.select(table.c.uuid).where(*_old(table, before))
    return list(connection.execute(query.order_by(table.c.deleted_at, table.c.uuid).limit(limit)).scalars())


def read(connection: sa.Connection, uuids: Sequence[str]) -> list[JSONObject]:
    """One plain record for each instance: its row, its ``build_request``, and a list for each table about it."""
    records = _records(connection, uuids, INSTANCES, "instance", EXPORTED)
    reservations = {record["instance"]["reservation_id"] for record in records}
    found = connection.execute(sa.select(REQUESTS).where(REQUESTS.c.reservation_id.in_(reservations)))
    requests = {row.reservation_id: _plain(row) for row in found}
    for record in records:
        record["build_request"] = requests.get(record["instance"]["reservation_id"])
    return records


def read_volumes(connection: sa.Connection, uuids: Sequence[str]) -> list[JSONObject]:
    """The same of volumes and snapshots: the row, and a list for each table about it."""
    return _records(connection, uuids, VOLUMES, "volume", ABOUT_VOLUME)


def _records(
    connection: sa.Connection, uuids: Sequence[str], of: sa.Table, name: str, about: Sequence[sa.Table]
) -> list[JSONObject]:
    rows = connection.execute(sa.select(of).where(of.c.uuid.in_(uuids)).order_by(of.c.deleted_at, of.c.uuid))
    records: dict[str, JSONObject] = {
        row.uuid: {name: _plain(row), **{table.name: [] for table in about}} for row in rows
    }
    for table in about:
        key = table.c[f"{name}_uuid"]
        query = sa.select(table).where(key.in_(uuids)).order_by(*table.primary_key.columns)
        for row in connection.execute(query):
            records[row._mapping[key]][table.name].append(_plain(row))
    return list(records.values())


def remove(tx: Transaction, uuids: Sequence[str]) -> int:
    """Delete these instances, all rows about them, and requests without instances; return the number of rows."""
    query = sa.select(INSTANCES.c.uuid, INSTANCES.c.reservation_id).where(
        INSTANCES.c.uuid.in_(uuids), INSTANCES.c.deleted
    )
    found = tx.execute(query.order_by(INSTANCES.c.uuid).with_for_update()).all()
    going = [row.uuid for row in found]
    for table in reversed(ABOUT_ONE):
        tx.execute(table.delete().where(table.c.instance_uuid.in_(going)))
    tx.execute(INSTANCES.delete().where(INSTANCES.c.uuid.in_(going)))
    requests = {row.reservation_id for row in found}
    for of_request in (BOOT_DATA, REQUESTS):
        key = of_request.c.reservation_id
        left = sa.select(INSTANCES.c.uuid).where(INSTANCES.c.reservation_id == key).exists()
        tx.execute(of_request.delete().where(key.in_(requests), sa.not_(left)))
    return len(going)


def remove_volumes(tx: Transaction, uuids: Sequence[str]) -> int:
    """Delete these volumes and snapshots, and all rows about them; return the number of rows."""
    query = sa.select(VOLUMES.c.uuid).where(VOLUMES.c.uuid.in_(uuids), VOLUMES.c.deleted)
    going = list(tx.execute(query.order_by(VOLUMES.c.uuid).with_for_update()).scalars())
    for table in reversed(ABOUT_VOLUME):
        tx.execute(table.delete().where(table.c.volume_uuid.in_(going)))
    tx.execute(VOLUMES.delete().where(VOLUMES.c.uuid.in_(going)))
    return len(going)


def _old(table: sa.Table, before: datetime.datetime) -> tuple[Any, ...]:
    return table.c.deleted, table.c.deleted_at < before


def _plain(row: AnyRow) -> JSONObject:
    return {name: _exported(value) for name, value in row._mapping.items()}


def _exported(value: object) -> object:
    """Return a value for JSON. One that cannot be read is its stored text: the archive is all that is left of it."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds") + "Z"
    return value.text if isinstance(value, stored_json.Unreadable) else value


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of rows that is removed. ``noun`` is its plural.

    :param read: the records that are kept
    :param remove: deletes rows in a transaction, and returns their number
    """

    noun: str
    table: sa.Table
    read: Callable[[sa.Connection, Sequence[str]], list[dict[str, object]]]
    remove: Callable[[Transaction, Sequence[str]], int]


KINDS = (
    Kind("instances", INSTANCES, read, remove),
    Kind("volumes and snapshots", VOLUMES, read_volumes, remove_volumes),
)
