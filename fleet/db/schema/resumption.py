# SPDX-License-Identifier: Apache-2.0
"""Continues a migration that was interrupted on MariaDB.

Called by :mod:`fleet.db.schema.migration`. PostgreSQL and SQLite change the schema in the transaction that also writes
its version. MariaDB commits each statement that changes a table, and the version only after the last statement of a
migration. If the migration stops in between, its first statements are done, and the database would refuse them.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic.ddl import base as alembic_ddl

#: A statement without effect.
_NOTHING = sa.text("DO 0")


def skip_what_is_done(connection: sa.Connection) -> None:
    """Skip the statements that an interrupted migration has done, up to the first one that it has not.

    Data are written after the last change of a table in their migration, in the same transaction as the version.
    """
    if connection.dialect.name == "mysql":
        sa.event.listen(connection, "before_execute", _Resumption(), retval=True)


class _Resumption:
    """``_over``: a statement was to be done, so all that follow are."""

    def __init__(self) -> None:
        self._over = False

    def __call__(
        self, connection: sa.Connection, clause: Any, multiparams: Any, params: Any, _options: Any
    ) -> tuple[Any, Any, Any]:
        if isinstance(clause, sa.schema.ExecutableDDLElement) and not self._over and not _is_of_versions(clause):
            if _is_done(sa.inspect(connection), clause):
                clause = _NOTHING
            else:
                self._over = True
        return clause, multiparams, params


def _is_of_versions(clause: Any) -> bool:
    """Return True for the table of alembic, which looks for it before."""
    return isinstance(clause, sa.schema.CreateTable) and clause.element.name == "alembic_version"


def _is_done(found: sa.Inspector, clause: Any) -> bool:
    """Return True if the schema already is as ``clause`` makes it."""
    if isinstance(clause, sa.schema.CreateTable):
        # A table of another program has other columns.
        table = clause.element
        return found.has_table(table.name) and _columns(found, table.name) == {each.name for each in table.columns}
    if isinstance(clause, alembic_ddl.AddColumn):
        return clause.column.name in _columns(found, clause.table_name)
    if isinstance(clause, alembic_ddl.DropColumn):
        return clause.column.name not in _columns(found, clause.table_name)
    of: Any = getattr(getattr(clause, "element", None), "table", None)
    if isinstance(clause, sa.schema.CreateIndex | sa.schema.AddConstraint):
        return clause.element.name in _names(found, of.name)
    if isinstance(clause, sa.schema.DropIndex | sa.schema.DropConstraint):
        return clause.element.name not in _names(found, of.name)
    return False


def _columns(found: sa.Inspector, table: str) -> set[str]:
    return {each["name"] for each in found.get_columns(table)}


def _names(found: sa.Inspector, table: str) -> set[str | None]:
    """Names of indexes and foreign keys. On MariaDB a unique constraint is an index."""
    return {each["name"] for each in [*found.get_indexes(table), *found.get_foreign_keys(table)]}
