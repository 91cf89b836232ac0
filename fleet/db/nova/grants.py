# SPDX-License-Identifier: Apache-2.0
"""Privileges of a role with which a scheduler reads nova's databases."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.db.nova import tables


def postgresql(database: str, role: str, cell: bool) -> list[str]:
    """Statements for the owner, connected to ``database``: a cell's, or the API database. The role exists already."""
    return [
        f'GRANT CONNECT ON DATABASE "{database}" TO "{role}"',
        f'GRANT USAGE ON SCHEMA public TO "{role}"',
        f'GRANT SELECT ON {", ".join(_names(cell))} TO "{role}"',
        f'ALTER ROLE "{role}" SET default_transaction_read_only = on',
    ]


def mariadb(database: str, role: str, cell: bool) -> list[str]:
    """Statements for an administrator. The user exists already, and may connect from any host."""
    return [f"GRANT SELECT ON `{database}`.`{name}` TO '{role}'@'%'" for name in _names(cell)]


def _names(cell: bool) -> Sequence[str]:
    return sorted(table.name for table in (tables.CELL_TABLES if cell else tables.API_TABLES))
