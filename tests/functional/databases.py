# SPDX-License-Identifier: Apache-2.0
"""A ledger for tests: opened once per engine, emptied between tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import autogenerate
from alembic.runtime.migration import MigrationContext
from oslo_config import cfg
from oslo_db import options

from fleet.db.connection import limits
from fleet.db.connection.options import USUAL
from fleet.db.engine.database import Database
from fleet.db.schema import migration
from fleet.db.tables import models
from tests.shared_servers import create_database, drop_database


def open_database(url: str) -> Database:
    """A database at the newest schema."""
    conf = cfg.ConfigOpts()
    options.set_defaults(conf, connection=url, max_pool_size=20)
    conf([])
    conf.set_override("db_retry_interval", 0, "database")
    database = Database(conf)
    migration.sync(database)
    return database


def differences(database: Database) -> list[object]:
    """Differences between the tables and the models; empty if the migrations are complete."""
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection)
        return list(autogenerate.compare_metadata(context, models.METADATA))


def url_of(database: Database) -> sa.URL:
    """The URL without the limits of this engine's connections: others have those of their own options."""
    url = database.engine.url
    return url.difference_update_query(limits.limits(url.set(query={}), USUAL))


@contextlib.contextmanager
def beside(server: str | sa.URL, clause: str = "") -> Iterator[str]:
    """The URL of another database of the server, without a schema.

    :param clause: ends the statement that creates it
    """
    url = create_database(server, "beside", clause)
    try:
        yield url
    finally:
        drop_database(url, server)


#: Names of the tables that have rows. Most have none after most tests, and one query costs less than thirty deletions.
_FILLED = sa.union_all(
    *(sa.select(sa.literal(table.name)).where(sa.select(table).exists()) for table in models.METADATA.sorted_tables)
)


def empty(database: Database) -> None:
    with database.engine.begin() as connection:
        _delete_all(connection)
        connection.execute(models.generations.insert(), {"id": 1, "value": 1})


def _delete_all(connection: sa.Connection) -> None:
    filled = set(connection.execute(_FILLED).scalars())
    for table in reversed(models.METADATA.sorted_tables):
        if table.name in filled:
            connection.execute(table.delete())


class Rows:
    """All rows of a ledger as a world has made them, for the next test that begins with this world."""

    def __init__(self, database: Database) -> None:
        self._of: list[tuple[sa.Table, list[dict[str, Any]]]] = []
        with database.engine.connect() as connection:
            for table in models.METADATA.sorted_tables:
                found = connection.execute(sa.select(table).order_by(*table.primary_key)).mappings()
                self._of.append((table, [dict(row) for row in found]))

    def put_back(self, database: Database) -> None:
        """Replace what the ledger has."""
        with database.engine.begin() as connection:
            _delete_all(connection)
            for table, rows in self._of:
                if rows:
                    connection.execute(table.insert(), rows)


@contextlib.contextmanager
def statements(engine: sa.Engine) -> Iterator[list[str]]:
    """The statements that are sent within this context."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        sent.append(statement)

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)
