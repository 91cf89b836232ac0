# SPDX-License-Identifier: Apache-2.0
"""Drops the sessions of a server that was demoted: it answers, but accepts no writes any more.

The error of a write on such a server counts as the loss of its connection: the transaction runs again on a new one, and
all other connections of the pool, which are as old, are replaced.
"""

from __future__ import annotations

import sqlalchemy as sa
from oslo_db import exception as db_exception

#: SQLSTATE "read only SQL transaction"; MariaDB: --read-only, and a transaction that is read only.
_STATE, _NUMBERS = "25006", (1290, 1792, 1836)


def is_loss(engine: sa.Engine) -> None:
    """Let each connection of ``engine`` to a server that is read only count as lost."""
    # Before oslo.db's own, which has another error for it.
    sa.event.listen(engine, "handle_error", _look, insert=True)


def _look(context: sa.engine.ExceptionContext) -> None:
    failure = context.original_exception
    number = failure.args[0] if failure.args else None
    if getattr(failure, "pgcode", None) == _STATE or number in _NUMBERS:
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = True
        raise db_exception.DBConnectionError(failure)
