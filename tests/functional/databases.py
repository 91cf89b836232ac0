# SPDX-License-Identifier: Apache-2.0
"""A ledger for tests: opened once per engine, emptied between tests."""

from __future__ import annotations

from oslo_config import cfg
from oslo_db import options

from fleet.db import migration, models
from fleet.db.engine import Database


def open_database(url: str) -> Database:
    """A database at the newest schema."""
    conf = cfg.ConfigOpts()
    options.set_defaults(conf, connection=url, max_pool_size=20)
    conf([])
    conf.set_override("db_retry_interval", 0, "database")
    database = Database(conf)
    migration.sync(database)
    return database


def empty(database: Database) -> None:
    with database.engine.begin() as connection:
        for table in reversed(models.METADATA.sorted_tables):
            connection.execute(table.delete())
        connection.execute(models.generations.insert(), {"id": 1, "value": 1})
