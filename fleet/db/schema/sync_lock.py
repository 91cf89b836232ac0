# SPDX-License-Identifier: Apache-2.0
"""The lock of a migration: only one program at a time changes the schema of a database.

Called by :mod:`fleet.db.schema.migration`. Machines that start together may all run ``fleet-manage db sync``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import sqlalchemy as sa

#: Of a PostgreSQL advisory lock; the number has no meaning.
_NUMBER = 7_230_518_264
#: MariaDB's lock names are those of the whole server, so this is combined with the name of the database.
_NAME = "fleet db sync "
#: Seconds to wait for it. MariaDB has no value for any time: this is ten years.
_WAIT_S = 315_360_000
#: MariaDB: some releases refuse such locks on Galera. Others lock the node only.
_NOT_SUPPORTED = 1235


@contextlib.contextmanager
def held(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that begins when no other program migrates this database. It sees what the other one has done."""
    if engine.dialect.name == "postgresql":
        # At a higher level the snapshot would be older than the lock.
        engine = engine.execution_options(isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        try:
            _take(connection)
            yield connection
            connection.commit()
        finally:
            if engine.dialect.name == "mysql":
                # The lock ends with its session.
                connection.invalidate()


def _take(connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif connection.dialect.name == "mysql":
        # Each statement that changes a table commits. That would release a row lock, but does not release a named one.
        name = sa.func.left(sa.func.concat(_NAME, sa.func.database()), 64)
        try:
            connection.execute(sa.select(sa.func.get_lock(name, _WAIT_S)))
        except sa.exc.DBAPIError as refused:
            if not refused.orig or refused.orig.args[0] != _NOT_SUPPORTED:
                raise
    else:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_NUMBER)))
