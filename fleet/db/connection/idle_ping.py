# SPDX-License-Identifier: Apache-2.0
"""Pings a pooled connection only if it was idle for a while.

SQLAlchemy's ping before every use (``pool_pre_ping``) costs two round trips per transaction. A connection that was used
a moment ago is nearly always alive. If it is not, the transaction fails and is run again, like any that loses its
connection. Called by :mod:`fleet.db.engine.database`.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

#: Seconds. Under load no connection is idle for so long.
RESTED_S = 1.0
_GIVEN_BACK = "given_back_at"


def instead_of_every_time(engine: sa.Engine) -> None:
    # oslo.db has no option to turn it off.
    engine.pool._pre_ping = False

    def given_back(_connection: object, record: ConnectionPoolEntry) -> None:
        record.info[_GIVEN_BACK] = time.monotonic()

    def taken(connection: DBAPIConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
        at = record.info.get(_GIVEN_BACK)
        if at is None or time.monotonic() - at < RESTED_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as lost:
            # Drop the other connections too, which are as old, instead of pinging them one by one.
            raise sa.exc.InvalidatePoolError from lost

    sa.event.listen(engine, "checkin", given_back)
    sa.event.listen(engine, "checkout", taken)
