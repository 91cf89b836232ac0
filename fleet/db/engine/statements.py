# SPDX-License-Identifier: Apache-2.0
"""Single statements on a database server, for programs that start one: no pool, no transaction.

Called by modules of :mod:`fleet_trial.private_servers`, and by the tests.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


def execute(url: str | sa.URL, statement: str) -> None:
    """Run ``statement`` on a connection of its own, and commit."""
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(statement))


def row(url: str, statement: str) -> tuple[Any, ...]:
    """Run ``statement`` on a connection of its own, and return its only row."""
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        return tuple(connection.execute(sa.text(statement)).one())


def answers(url: str) -> bool:
    """Return True if the server accepts a connection and runs a query."""
    try:
        execute(url, "SELECT 1")
    except sa.exc.SQLAlchemyError:
        return False
    return True
