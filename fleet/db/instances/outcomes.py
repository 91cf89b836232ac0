# SPDX-License-Identifier: Apache-2.0
"""Changes that any conductor has begun, and their outcomes.

Called by :mod:`conductor_stub.main`. A row is kept for some minutes, and of all rows the newest only.
"""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from fleet.clock import Clock, seconds
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.tables import models

#: Rows that a removal leaves.
MOST = 50_000
_KEPT = models.message_outcomes
_KNOWN = sa.select(_KEPT.c.holder, _KEPT.c.outcome).where(_KEPT.c.message == sa.bindparam("wanted"))
_NEWEST_FIRST = sa.select(_KEPT.c.good_until).order_by(_KEPT.c.good_until.desc(), _KEPT.c.message).limit(1)


def take(tx: Transaction, message: str, holder: str, until: datetime.datetime) -> bool:
    """Return False if another holder has taken the message. The primary key decides between two conductors.

    A transaction that is run again finds its own row.
    """
    found = tx.execute(_KNOWN, {"wanted": message}).first()
    if found is None:
        tx.insert(_KEPT, {"message": message, "holder": holder, "good_until": until})
    return found is None or bool(found.holder == holder)


def keep(tx: Transaction, message: str, outcome: str) -> None:
    tx.update(_KEPT, message, {"outcome": outcome})


def read(connection: Connection, message: str) -> str | None:
    found = connection.execute(_KNOWN, {"wanted": message}).first()
    return None if found is None else found.outcome


def prune(tx: Transaction, now: datetime.datetime, most: int = MOST) -> int:
    """Delete expired rows, and the oldest of more than ``most``; return their number."""
    too_old = tx.execute(_NEWEST_FIRST.offset(most)).scalar()
    limit = _KEPT.c.good_until < now
    if too_old is not None:
        limit |= _KEPT.c.good_until <= too_old
    return tx.execute(_KEPT.delete().where(limit)).rowcount


class KeptOutcomes:
    """Implements :class:`fleet.rpc.trust.repeated_changes.Record`.

    :param clock: the database's, as for :class:`fleet.db.instances.signatures.TakenSignatures`
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def take(self, key: str, holder: str, good_for_s: float) -> bool:
        return self._database.write(take, key, holder, self._clock() + seconds(good_for_s))

    def keep(self, key: str, outcome: str) -> None:
        self._database.write(keep, key, outcome)

    def outcome(self, key: str) -> str | None:
        return self._database.read(read, key)

    def prune(self) -> int:
        """Remove rows. A periodic task calls it."""
        return self._database.write(prune, self._clock())
