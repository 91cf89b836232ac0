# SPDX-License-Identifier: Apache-2.0
"""The identity of the ledger: a uuid in the row of generations, which every reader of changes reads. And a secret beside it.

Called by :mod:`fleet_cli.upkeep.ledger` and :mod:`conductor_stub.operators.tenancy`.
"""

from __future__ import annotations

import secrets

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


def host_key(tx: Transaction) -> str:
    """Return the secret from which ids of hosts are made. The first process that needs it writes it, for all of them."""
    without = _ROW.c.id == 1, _ROW.c.host_key.is_(None)
    tx.execute(_ROW.update().where(*without).values(host_key=secrets.token_hex(32)))
    found: str = tx.execute(sa.select(_ROW.c.host_key).where(_ROW.c.id == 1)).scalar_one()
    return found


def adopt(tx: Transaction, uuid: str) -> None:
    """Make the database the ledger ``uuid``. :raises errors.Conflict: it has lost the row of its generations"""
    if not tx.execute(_ROW.update().where(_ROW.c.id == 1).values(ledger=uuid)).rowcount:
        raise errors.Conflict(kind="Table", name=_ROW.name, reason="has lost its row: restore the whole database")
