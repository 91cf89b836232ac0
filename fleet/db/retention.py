# SPDX-License-Identifier: Apache-2.0
"""Deleted instances and all rows about them: found by age, exported, and removed."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from fleet.clock import seconds
from fleet.db import models
from fleet.db.engine import Transaction

INSTANCES = models.instances
REQUESTS = models.build_requests

#: A row that was deleted a short time ago stays, whatever age is asked for: schedulers read the deletion from the row.
YOUNGEST = seconds(3600)
#: Tables with rows about one instance.
ABOUT_ONE = tuple(table for table in models.METADATA.sorted_tables if "instance_uuid" in table.c)


def cutoff(now: datetime.datetime, before: datetime.datetime | None = None) -> datetime.datetime:
    """Instances deleted before this time may be removed. :param before: what an operator asked for; None: as many as may"""
    return now - YOUNGEST if before is None else min(before, now - YOUNGEST)


def count(connection: sa.Connection, before: datetime.datetime) -> int:
    """Number of instances that were deleted before ``before``."""
    return connection.execute(sa.select(sa.func.count()).select_from(INSTANCES).where(*_old(before))).scalar_one()


def find(connection: sa.Connection, before: datetime.datetime, limit: int) -> list[str]:
    """Uuids of instances that were deleted before ``before``, the oldest first."""
    query = sa.select(INSTANCES.c.uuid).where(*_old(before))
    return list(connection.execute(query.order_by(INSTANCES.c.deleted_at, INSTANCES.c.uuid).limit(limit)).scalars())


def read(connection: sa.Connection, uuids: Sequence[str]) -> list[dict[str, Any]]:
    """One plain record for each instance: its row, its ``build_request``, and a list for each table about it."""
    rows = connection.execute(sa.select(INSTANCES).where(INSTANCES.c.uuid.in_(uuids)).order_by(INSTANCES.c.deleted_at))
    records: dict[str, dict[str, Any]] = {
        row.uuid: {"instance": _plain(row), **{table.name: [] for table in ABOUT_ONE}} for row in rows
    }
    for table in ABOUT_ONE:
        query = sa.select(table).where(table.c.instance_uuid.in_(uuids)).order_by(*table.primary_key.columns)
        for row in connection.execute(query):
            records[row.instance_uuid][table.name].append(_plain(row))
    reservations = {record["instance"]["reservation_id"] for record in records.values()}
    found = connection.execute(sa.select(REQUESTS).where(REQUESTS.c.reservation_id.in_(reservations)))
    requests = {row.reservation_id: _plain(row) for row in found}
    for record in records.values():
        record["build_request"] = requests.get(record["instance"]["reservation_id"])
    return list(records.values())


def remove(tx: Transaction, uuids: Sequence[str]) -> int:
    """Delete these instances, all rows about them, and requests without instances; return the number of rows."""
    query = sa.select(INSTANCES.c.uuid, INSTANCES.c.reservation_id).where(
        INSTANCES.c.uuid.in_(uuids), INSTANCES.c.deleted
    )
    found = tx.execute(query.with_for_update()).all()
    going = [row.uuid for row in found]
    for table in reversed(ABOUT_ONE):
        tx.execute(table.delete().where(table.c.instance_uuid.in_(going)))
    tx.execute(INSTANCES.delete().where(INSTANCES.c.uuid.in_(going)))
    left = sa.select(INSTANCES.c.uuid).where(INSTANCES.c.reservation_id == REQUESTS.c.reservation_id).exists()
    tx.execute(
        REQUESTS.delete().where(REQUESTS.c.reservation_id.in_({row.reservation_id for row in found}), sa.not_(left))
    )
    return len(going)


def _old(before: datetime.datetime) -> tuple[Any, ...]:
    return INSTANCES.c.deleted, INSTANCES.c.deleted_at < before


def _plain(row: sa.Row) -> dict[str, Any]:
    return {
        name: value.isoformat(timespec="microseconds") + "Z" if isinstance(value, datetime.datetime) else value
        for name, value in row._mapping.items()
    }
