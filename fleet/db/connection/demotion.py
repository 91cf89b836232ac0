# SPDX-License-Identifier: Apache-2.0
"""Drops the sessions of a server that answers and accepts no writes any more.

It was demoted, is about to stop, or is a Galera node that has left its cluster. The error of a write on such a server
counts as the loss of its connection: the transaction runs again on a new one, and all other connections of the pool,
which are as old, are replaced. Called by :mod:`fleet.db.engine.database`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception
from oslo_log import log as logging

from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)

#: SQLSTATE "read only SQL transaction".
_STATE = "25006"
#: MariaDB: --read-only, and transactions that are read only; a shutdown; a Galera node without its cluster, at a commit and
#: at any other statement.
_NUMBERS = (1290, 1792, 1836, 1053, 1180, 1047)
_said = rate_limited_log.RateLimit()


def is_loss(engine: sa.Engine) -> None:
    """Let each connection of ``engine`` to a server that takes no writes count as lost."""
    dialect: Any = engine.dialect
    known = dialect.is_disconnect

    def is_disconnect(failure: Exception, connection: object, cursor: Any) -> bool:
        return _takes_no_writes(failure) or known(failure, connection, cursor)

    # oslo.db's handler comes before any other, and asks the dialect; but it does not for all classes of errors.
    vars(dialect).update(is_disconnect=is_disconnect)
    sa.event.listen(engine, "handle_error", _look, insert=True)
    if dialect.name == "mysql":
        vars(dialect).update(do_ping=_commit_nothing, set_isolation_level=_checked(dialect))


def _commit_nothing(connection: Any) -> bool:
    """Ping by a statement that a Galera node refuses if it is without its cluster. It answers the driver's own ping."""
    connection.commit()
    return True


def _checked(dialect: Any) -> Callable[[Any, Any], None]:
    """SQLAlchemy does not handle errors of setting the isolation level. The connection may be lost then, too."""
    unchecked = dialect.set_isolation_level

    def set_isolation_level(connection: object, level: Any) -> None:
        try:
            unchecked(connection, level)
        except dialect.loaded_dbapi.Error as failure:
            if not dialect.is_disconnect(failure, connection, None):
                raise
            raise db_exception.DBConnectionError(failure) from failure

    return set_isolation_level


def _takes_no_writes(failure: BaseException) -> bool:
    number = failure.args[0] if failure.args else None
    if getattr(failure, "pgcode", None) != _STATE and number not in _NUMBERS:
        return False
    left_out = _said.due("")
    if left_out is not None:
        LOG.warning(
            "A session of the database is dropped: its server takes no writes (%d more since the last such line)",
            left_out,
        )
    return True


def _look(context: sa.engine.ExceptionContext) -> None:
    if _takes_no_writes(context.original_exception):
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = True
        raise db_exception.DBConnectionError(context.original_exception)
