# SPDX-License-Identifier: Apache-2.0
"""Signatures of messages that any conductor has accepted.

Called by :mod:`conductor_stub.main`. A row is kept until the signature has expired.
"""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from fleet.clock import Clock, seconds
from fleet.db.engine.database import Database, Transaction
from fleet.db.tables import models

_TAKEN = models.taken_signatures
_KNOWN = sa.select(_TAKEN.c.signature).where(_TAKEN.c.signature == sa.bindparam("wanted"))


def take(tx: Transaction, signature: str, until: datetime.datetime) -> bool:
    """Return False if the signature was taken already. The primary key decides between two conductors."""
    if tx.execute(_KNOWN, {"wanted": signature}).first() is not None:
        return False
    tx.insert(_TAKEN, {"signature": signature, "good_until": until})
    return True


def prune(tx: Transaction, now: datetime.datetime) -> int:
    """Delete expired signatures; return their number."""
    return tx.execute(_TAKEN.delete().where(_TAKEN.c.good_until < now)).rowcount


class TakenSignatures:
    """Implements :class:`fleet.rpc.trust.replay_protection.Record`.

    :param clock: the database's: a conductor whose own clock is ahead would delete signatures that are still valid
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def take(self, signature: str, good_for_s: float) -> bool:
        return self._database.write(take, signature, self._clock() + seconds(good_for_s))

    def prune(self) -> int:
        """Remove expired rows. A periodic task calls it."""
        return self._database.write(prune, self._clock())
