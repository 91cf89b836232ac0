# SPDX-License-Identifier: Apache-2.0
"""Brings a database to the schema that this program knows.

``fleet-manage db sync`` calls it, and the trial fleet at its start.
"""

from __future__ import annotations

from alembic import command
from alembic import config as alembic_config

from fleet.db.engine.database import Database
from fleet.db.schema import collation, resumption, schema, sync_lock


def sync(database: Database, revision: str = "head") -> str:
    """Apply the missing migrations; return the revision reached. Wait for another program that does so.

    :raises errors.SchemaMismatch: the schema is newer than this program
    """
    if schema.is_unknown(schema.version(database)):
        schema.check(database)
    config = alembic_config.Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    with sync_lock.held(database.engine) as connection:
        collation.set_default(connection)
        resumption.skip_what_is_done(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    return schema.version(database) or ""
