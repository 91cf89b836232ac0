# SPDX-License-Identifier: Apache-2.0
"""The identity of the ledger: a uuid in the row of generations, which every reader of changes reads.

Called by :mod:`fleet_cli.upkeep.ledger`.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.tables import models

#: The first revision of the schema that has it.
SINCE = "0009"
_ROW = models.generations
_UUID = sa.select(_ROW.c.ledger).where(_ROW.c.id == 1)


def read(connection: Transaction | sa.Connection) -> str | None:
    """The uuid; None until the next migration, or :func:`adopt`, writes one."""
    found: str | None = connection.execute(_UUID).scalar_one_or_none()
    return found


def adopt(tx: Transaction, uuid: str) -> None:
    """Make the database the ledger ``uuid``. :raises errors.Conflict: it has lost the row of its generations"""
    if not tx.execute(_ROW.update().where(_ROW.c.id == 1).values(ledger=uuid)).rowcount:
        raise errors.Conflict(kind="Table", name=_ROW.name, reason="has lost its row: restore the whole database")
