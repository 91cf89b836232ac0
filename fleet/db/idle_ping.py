# SPDX-License-Identifier: Apache-2.0
"""Tries a pooled connection only when it has rested for a while.

SQLAlchemy's own try before every use (``pool_pre_ping``) costs two questions to the database a transaction. One that was
used a moment ago lives, as good as always; where it does not, the transaction fails and is run again, as any that loses its
connection in the middle.
"""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa

#: Seconds. Under load none rests so long; after a while without any, the database may have been restarted.
RESTED_S = 1.0
_GIVEN_BACK = "given_back_at"


def instead_of_every_time(engine: sa.Engine) -> None:
    # oslo.db offers no way to leave it out.
    engine.pool._pre_ping = False

    def given_back(_connection: Any, record: Any) -> None:
        record.info[_GIVEN_BACK] = time.monotonic()

    def taken(connection: Any, record: Any, _proxy: Any) -> None:
        at = record.info.get(_GIVEN_BACK)
        if at is None or time.monotonic() - at < RESTED_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as lost:
            # The others, which are as old, are not tried one by one.
            raise sa.exc.InvalidatePoolError from lost

    sa.event.listen(engine, "checkin", given_back)
    sa.event.listen(engine, "checkout", taken)
