# SPDX-License-Identifier: Apache-2.0
"""Brings a database to the schema that this program knows, and says when the two differ."""

from __future__ import annotations

import pathlib

from alembic import command, script
from alembic import config as alembic_config
from alembic.runtime import migration

from fleet import errors
from fleet.db.engine import Database

_SYNC = "Run 'fleet-manage db sync'."
_UPGRADE = "The schema is newer: upgrade this program."


def _config() -> alembic_config.Config:
    config = alembic_config.Config()
    config.set_main_option("script_location", str(pathlib.Path(__file__).parent / "migrations"))
    return config


def sync(database: Database, revision: str = "head") -> str:
    """Apply the migrations that are missing; returns the revision reached.

    :raises errors.SchemaMismatch: the schema is newer than this program
    """
    if _is_unknown(version(database)):
        check(database)
    config = _config()
    with database.engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    return version(database) or ""


def version(database: Database) -> str | None:
    """The revision that the database is at; None before the first sync."""
    with database.engine.connect() as connection:
        return migration.MigrationContext.configure(connection).get_current_revision()


def latest() -> str:
    """The revision that this program knows."""
    return script.ScriptDirectory.from_config(_config()).get_current_head() or ""


def check(database: Database) -> None:
    """:raises errors.SchemaMismatch: saying what to do"""
    found, expected = version(database), latest()
    if found == expected:
        return
    advice = _UPGRADE if _is_unknown(found) else _SYNC
    raise errors.SchemaMismatch(found=found or "no version", expected=expected, advice=advice)


def _is_unknown(revision: str | None) -> bool:
    """Whether ``revision`` was made by a later release."""
    known = {each.revision for each in script.ScriptDirectory.from_config(_config()).walk_revisions()}
    return revision is not None and revision not in known


def differences(database: Database) -> list[object]:
    """How the tables differ from the models; empty when the migrations tell the whole truth (for tests)."""
    from alembic import autogenerate

    from fleet.db import models

    with database.engine.connect() as connection:
        context = migration.MigrationContext.configure(connection)
        return autogenerate.compare_metadata(context, models.METADATA)
