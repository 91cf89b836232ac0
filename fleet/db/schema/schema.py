# SPDX-License-Identifier: Apache-2.0
"""Checks that a database has the schema that this program needs.

:mod:`fleet.db.schema.migration` changes the schema. It is a module of its own, so that daemons do not load alembic.
"""

from __future__ import annotations

import pathlib

import sqlalchemy as sa
from oslo_log import log as logging

from fleet import errors
from fleet.db.engine.database import Database

LOG = logging.getLogger(__name__)

#: One file for each revision, with names like ``0001_what_it_does.py``.
MIGRATIONS = pathlib.Path(__file__).parent / "migrations"
_VERSION = sa.table("alembic_version", sa.column("version_num", sa.String))
_SYNC = "Run 'fleet-manage db sync'."
_UPGRADE = "The schema is newer: upgrade this program."


def revisions() -> list[str]:
    """All revisions that this program knows, in order."""
    return sorted(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*_*.py"))


def latest() -> str:
    """The revision that this program needs."""
    return revisions()[-1]


def version(database: Database) -> str | None:
    """Revision of the database; None before the first sync."""
    return database.read_once(_version)


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(_VERSION.name):
        return None
    found: str | None = connection.execute(sa.select(_VERSION.c.version_num)).scalar()
    return found


def check(database: Database) -> None:
    """:raises errors.SchemaMismatch: with advice"""
    found, expected = version(database), latest()
    if found == expected:
        return
    advice = _UPGRADE if is_unknown(found) else _SYNC
    raise errors.SchemaMismatch(found=found or "no version", expected=expected, advice=advice)


def check_if_there(database: Database) -> None:
    """Check the schema as :func:`check` does. If the database is away, log one line.

    Then the schema is checked again before the database is used.

    :raises errors.SchemaMismatch:
    """
    try:
        check(database)
        return
    except errors.DatabaseError as away:
        reason = away.message
    LOG.warning("Starting without the database. %s", reason)


def is_unknown(revision: str | None) -> bool:
    """Return True if ``revision`` is from a later release."""
    return revision is not None and revision not in revisions()
