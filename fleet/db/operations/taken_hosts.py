# SPDX-License-Identifier: Apache-2.0
"""Finds the maintenance that keeps a host out of use. :mod:`conductor_stub.operators.hosts` asks before it enables one."""

from __future__ import annotations

import sqlalchemy as sa

from fleet import maintenance_states
from fleet.db.engine.database import Transaction
from fleet.db.tables import models

_NAME = (
    sa.select(models.maintenances.c.name)
    .join_from(
        models.maintenance_hosts,
        models.maintenances,
        models.maintenances.c.uuid == models.maintenance_hosts.c.maintenance_uuid,
    )
    .where(
        models.maintenance_hosts.c.open_host == sa.bindparam("on_host"),
        models.maintenance_hosts.c.status.in_(maintenance_states.TAKEN),
    )
    .order_by(models.maintenances.c.uuid)
)


def maintenance_of(tx: Transaction, host: str) -> str | None:
    """Return the name of the maintenance in which a host takes no builds; None if there is none, or the host only waits."""
    name: str | None = tx.execute(_NAME, {"on_host": host}).scalar_one_or_none()
    return name
