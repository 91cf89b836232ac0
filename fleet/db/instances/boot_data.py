# SPDX-License-Identifier: Apache-2.0
"""What the instances of a request find at their first boot. Only the host that builds one of them reads it."""

from __future__ import annotations

import sqlalchemy as sa

from fleet import errors, move_states
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.objects import BootData

BOOT_DATA = models.boot_data
INSTANCES = models.instances
MIGRATIONS = models.migrations
_KEPT = ("key_name", "public_key", "user_data")


def create(tx: Transaction, reservation_id: str, data: BootData) -> None:
    """Insert at the end of the transaction, after the request."""
    tx.defer_insert(BOOT_DATA, {"reservation_id": reservation_id, **data.to_wire()})


def of_instance(connection: sa.Connection, uuid: str, host: str) -> BootData:
    """Return what an instance finds; empty if its request named nothing.

    :param host: that the instance is on, or on its way to
    :raises errors.NotFound: it is not
    """
    arrives = (
        sa.select(MIGRATIONS.c.uuid)
        .where(
            MIGRATIONS.c.instance_uuid == INSTANCES.c.uuid,
            MIGRATIONS.c.dest_compute == host,
            MIGRATIONS.c.status.in_(move_states.IN_PROGRESS),
        )
        .exists()
    )
    here = sa.or_(INSTANCES.c.host == host, arrives)
    query = sa.select(INSTANCES.c.uuid, *(BOOT_DATA.c[name] for name in _KEPT)).select_from(
        INSTANCES.outerjoin(BOOT_DATA, BOOT_DATA.c.reservation_id == INSTANCES.c.reservation_id)
    )
    row = connection.execute(query.where(INSTANCES.c.uuid == uuid, sa.not_(INSTANCES.c.deleted), here)).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Instance", name=f"{uuid} on host {host}")
    return BootData(row.key_name or "", row.public_key or None, row.user_data or "")
