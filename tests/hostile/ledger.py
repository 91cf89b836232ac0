# SPDX-License-Identifier: Apache-2.0
"""All rows of a SQLite ledger: what a request has changed, and the way back."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

#: They only advance: caches go by the generation, and a message that was taken stays taken.
_STAYS = frozenset({"generations", "taken_signatures", "message_outcomes", "alembic_version"})
#: Tables with the requests of users.
_REQUESTS = frozenset({"build_requests", "volume_requests"})
Rows = Mapping[str, frozenset[tuple[object, ...]]]


class Ledger:
    def __init__(self, path: pathlib.Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        names = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        self._tables = [name for (name,) in names if name not in _STAYS and not name.startswith("sqlite_")]
        self._version = -1
        self._known: Rows = {}

    def change(self, statement: str) -> None:
        self._connection.execute(statement)
        self._version = -1

    def close(self) -> None:
        self._connection.close()

    def rows(self) -> Rows:
        """All rows by table; read again only if another connection has committed since."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._known = {
                table: frozenset(self._connection.execute(f'SELECT * FROM "{table}"').fetchall())
                for table in self._tables
            }
        return self._known

    def restore(self, rows: Rows) -> None:
        """Bring the rows of an earlier moment back."""
        changed = [table for table, now in self.rows().items() if now != rows[table]]
        if not changed:
            return
        self._connection.execute("BEGIN IMMEDIATE")
        for table in changed:
            self._connection.execute(f'DELETE FROM "{table}"')
            for row in rows[table]:
                self._connection.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)
        self._connection.execute("COMMIT")
        self._known = {**self._known, **{table: rows[table] for table in changed}}


class Change(NamedTuple):
    """A row that is there before or after a request only."""

    table: str
    row: tuple[object, ...]


def changes(before: Rows, after: Rows) -> list[Change]:
    return [
        Change(table, row)
        for table, rows in before.items()
        if rows is not after[table]
        for row in sorted(rows.symmetric_difference(after[table]), key=str)
    ]


def touching(changed: Iterable[Change], theirs: Iterable[str], named: str) -> list[Change]:
    """The changes of what is theirs: an old row that has one of these texts, or a new one.

    :param named: what the request names; a request is stored as it was asked
    """
    return [
        change
        for change in changed
        if any(each in str(change.row) and not (change.table in _REQUESTS and each in named) for each in theirs)
    ]
