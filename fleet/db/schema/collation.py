# SPDX-License-Identifier: Apache-2.0
"""The collation of text on MariaDB and MySQL, where names that differ in case, accents or final spaces are two names.

Called by :mod:`fleet.db.schema.migration`, and by the migration that converts older tables.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

CHARACTER_SET = "utf8mb4"


def clause(dialect: Any) -> str:
    """Return character set and collation, as ``ALTER`` takes them.

    :param dialect: SQLAlchemy's, of MariaDB or MySQL
    """
    return f"CHARACTER SET {CHARACTER_SET} COLLATE {_name(dialect)}"


def set_default(connection: sa.Connection) -> None:
    """Let the tables that are created from now on have it. A server's default may be latin1, which lacks most letters."""
    if connection.dialect.name == "mysql":
        current = connection.execute(sa.text("SELECT @@collation_database")).scalar_one()
        if current != _name(connection.dialect):
            connection.execute(sa.text(f"ALTER DATABASE {clause(connection.dialect)}"))


def _name(dialect: Any) -> str:
    """Return the name of the collation that compares code points and does not pad with spaces."""
    return f"{CHARACTER_SET}_nopad_bin" if dialect.is_mariadb else f"{CHARACTER_SET}_0900_bin"
