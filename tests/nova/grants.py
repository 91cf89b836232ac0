# SPDX-License-Identifier: Apache-2.0
"""The grants of docs/nova.md: of a role with which a scheduler reads nova's databases, and of one for its own row.

``of`` is one of :data:`~fleet.db.nova.tables.API_TABLES`, ``CELL_TABLES`` and ``PLACEMENT_TABLES``.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa


def postgresql(database: str, role: str, of: Sequence[sa.TableClause]) -> list[str]:
    """Statements for the owner, connected to ``database``. The role exists already."""
    return [
        f'GRANT CONNECT ON DATABASE "{database}" TO "{role}"',
        f'GRANT USAGE ON SCHEMA public TO "{role}"',
        f'GRANT SELECT ON {", ".join(_names(of))} TO "{role}"',
        f'ALTER ROLE "{role}" SET default_transaction_read_only = on',
    ]


def mariadb(database: str, role: str, of: Sequence[sa.TableClause]) -> list[str]:
    """Statements for an administrator. The user exists already, and may connect from any host."""
    return [f"GRANT SELECT ON `{database}`.`{name}` TO '{role}'@'%'" for name in _names(of)]


def postgresql_row(database: str, role: str) -> list[str]:
    """Statements for the row in ``services``, as those of :func:`postgresql`."""
    return [
        f'GRANT CONNECT ON DATABASE "{database}" TO "{role}"',
        f'GRANT USAGE ON SCHEMA public TO "{role}"',
        f'GRANT SELECT, INSERT, UPDATE ON services TO "{role}"',
        f'GRANT USAGE ON SEQUENCE services_id_seq TO "{role}"',
    ]


def mariadb_row(database: str, role: str) -> list[str]:
    """Statements for the row in ``services``, as those of :func:`mariadb`."""
    return [f"GRANT SELECT, INSERT, UPDATE ON `{database}`.services TO '{role}'@'%'"]


def _names(of: Sequence[sa.TableClause]) -> Sequence[str]:
    return sorted(table.name for table in of)
