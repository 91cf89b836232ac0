# SPDX-License-Identifier: Apache-2.0
"""Shared by all tables: metadata, types of columns, and the columns of a tracked table.

Names and units are nova's where nova has them: memory in MB, disk in GB, times in naive UTC.

A *tracked* table has a ``generation`` column: the engine stamps a changed row with the generation of its transaction,
and the schedulers read what is newer than theirs. A tracked row is marked ``deleted`` and not removed, so that schedulers
can read its removal as well.

A class named ``…Row`` beside a table is the type of its rows. SQLAlchemy makes the rows; the classes have no code.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from fleet.db.tables.sql_types import Column

METADATA = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: Microseconds on every database: MariaDB drops them by default.
Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
#: SQLite generates keys only for plain INTEGER columns.
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
#: None is stored as NULL: most rows hold nothing, and queries skip them.
HeldJSON = sa.JSON(none_as_null=True)
UUID = sa.String(36)
NAME = sa.String(255)


def tracked() -> list[sa.Column[object]]:
    return [
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp),
        sa.Column("deleted_at", Timestamp),
        sa.Column("deleted", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
        sa.Column("generation", sa.BigInteger, nullable=False, default=0, server_default="0", index=True),
    ]


def number(name: str) -> Column:
    return sa.Column(name, sa.Integer, nullable=False, default=0, server_default="0")


def generation(name: str) -> Column:
    return sa.Column(name, sa.BigInteger, nullable=False, default=0, server_default="0")


class Row(Protocol):
    """A row as a query returns it, with its columns by name."""

    @property
    def _mapping(self) -> Mapping[str, object]: ...

    @property
    def _fields(self) -> Sequence[str]: ...

    def _asdict(self) -> dict[str, object]: ...

    def __iter__(self) -> Iterator[object]: ...


class TrackedRow(Protocol):
    """The columns that rows of tracked tables share."""

    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    deleted_at: datetime.datetime | None
    deleted: bool
    generation: int
