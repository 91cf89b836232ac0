# SPDX-License-Identifier: Apache-2.0
"""Moves whose destination may run the guest, while the ledger still has the instance elsewhere.

Such a destination must be off for certain before the guest starts on a third host. So it has a recovery of its own, like a
host with guests. Called by modules of :mod:`conductor_stub.recovery`.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from fleet import move_states
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.moves import MigrationRow

MIGRATIONS = models.migrations
_HOSTS: sa.BindParameter[str] = sa.bindparam("hosts", expanding=True)
_NUMBERS = (
    sa.select(MIGRATIONS.c.dest_compute, sa.func.count().label("number"))
    .where(
        MIGRATIONS.c.dest_compute.in_(_HOSTS),
        MIGRATIONS.c.status.in_(sorted({status for _kind, status in move_states.MAY_RUN_THERE})),
        sa.or_(
            *(
                sa.and_(MIGRATIONS.c.migration_type == kind, MIGRATIONS.c.status == status)
                for kind, status in move_states.MAY_RUN_THERE
            )
        ),
    )
    .group_by(MIGRATIONS.c.dest_compute)
    .order_by(MIGRATIONS.c.dest_compute)
)


def numbers(tx: Transaction, hosts: Collection[str]) -> dict[str, int]:
    """Return how many such moves the hosts have, without those that have none."""
    found = tx.execute(_NUMBERS, {"hosts": sorted(hosts)}) if hosts else ()
    return {row.dest_compute: row.number for row in found}


def is_one(record: MigrationRow) -> bool:
    return (record.migration_type, record.status) in move_states.MAY_RUN_THERE
