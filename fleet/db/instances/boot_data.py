# SPDX-License-Identifier: Apache-2.0
"""Boot data of instances. Only the host that builds one of them reads it.

The instances of a request share it. An instance that was rebuilt has its own.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleet import errors, move_states
from fleet.db.engine.database import Transaction
from fleet.db.instances import instance_values, instances
from fleet.db.tables import models
from fleet.db.tables.instances import RequestedInstance
from fleet.objects import BootData, host_name

BOOT_DATA = models.boot_data
REBUILT = models.rebuilt_boot_data
INSTANCES = models.instances
MIGRATIONS = models.migrations
_KEPT = ("key_name", "public_key", "user_data", "admin_password")
_REBUILT = sa.select(*(REBUILT.c[name] for name in _KEPT)).where(REBUILT.c.instance_uuid == sa.bindparam("wanted"))
_REQUESTED = sa.select(*(BOOT_DATA.c[name] for name in _KEPT)).where(
    BOOT_DATA.c.reservation_id == sa.bindparam("reservation")
)


def create(tx: Transaction, reservation_id: str, data: BootData) -> None:
    """Insert at the end of the transaction, after the request."""
    tx.defer_insert(BOOT_DATA, {"reservation_id": reservation_id, **_columns(data)})


def replace(tx: Transaction, uuid: str, data: BootData) -> None:
    """Replace the boot data that an instance reads by ``data``. :param uuid: of a row that this transaction has locked"""
    tx.execute(REBUILT.delete().where(REBUILT.c.instance_uuid == uuid))
    tx.insert(REBUILT, {"instance_uuid": uuid, **_columns(data)})


def of_row(connection: Transaction | sa.Connection, row: RequestedInstance) -> BootData:
    """Return the boot data of an instance: only its host name, if its request had none."""
    found = connection.execute(_REBUILT, {"wanted": row.uuid}).one_or_none()
    if found is None:
        found = connection.execute(_REQUESTED, {"reservation": row.reservation_id}).one_or_none()
    named = instance_values.spec_of(row).get("hostname") or host_name.of(row.name)
    if found is None:
        return BootData(hostname=named)
    password = found.admin_password or ""
    return BootData(found.key_name, found.public_key or None, found.user_data, password, named)


def of_instance(connection: sa.Connection, uuid: str, host: str) -> BootData:
    """:func:`of_row`, for the host of an instance.

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
    query = sa.select(INSTANCES.c.uuid).where(INSTANCES.c.uuid == uuid, sa.not_(INSTANCES.c.deleted), here)
    if connection.execute(query).one_or_none() is None:
        raise errors.NotFound(kind="Instance", name=f"{uuid} on host {host}")
    return of_row(connection, instances.get(connection, uuid))


def _columns(data: BootData) -> dict[str, str | None]:
    return {**{name: getattr(data, name) for name in _KEPT}, "admin_password": data.admin_password or None}
