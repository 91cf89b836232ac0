# SPDX-License-Identifier: Apache-2.0
"""One writing transaction: what it writes, and how its end stamps what it has changed (see ``engine``).

Statements are made once: to build one costs as much as to run it.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from fleet.db import models

#: For annotations outside of fleet/db, where SQLAlchemy is not imported.
Connection = sa.Connection
Row = sa.Row

_GENERATION = models.generations
#: Of which the row of generations says when they were last changed.
_NOTED = (models.services, models.aggregates, models.instances)
_TELL = sa.select(_GENERATION.c.value).where(_GENERATION.c.id == 1)
#: Rows that are changed, or inserted, with the last statement: there is one for every number of them.
MOST_AT_THE_END = 8


@functools.cache
def _advance(*changed: sa.Table) -> sa.Update:
    """The next generation, which has changed these of the noted tables."""
    known = _GENERATION.c
    newest = known.value + 1
    told = known.noted == known.value
    noted = [
        (known[table.name], newest if table in changed else sa.case((told, known[table.name]), else_=newest))
        for table in _NOTED
    ]
    # MariaDB sets one after the other, and each sees what was set before it.
    return (
        _GENERATION.update().where(known.id == 1).ordered_values(*noted, (known.noted, newest), (known.value, newest))
    )


def _advance_by(changed: Iterable[sa.Table]) -> sa.Update:
    touched = set(changed)
    return _advance(*(table for table in _NOTED if table in touched))


@functools.cache
def _insert_of(table: sa.Table) -> sa.Insert:
    return table.insert()


@functools.cache
def _update_of(table: sa.Table) -> sa.Update:
    return table.update().where(table.primary_key.columns[0] == sa.bindparam("of_key"))


@functools.cache
def _stamp_of(table: sa.Table) -> sa.Update:
    key = table.primary_key.columns[0]
    rows = key.in_(sa.bindparam("keys", expanding=True))
    return table.update().where(rows).values(generation=sa.bindparam("newest"))


@functools.cache
def _defaults_of(table: sa.Table) -> dict[str, Any]:
    """What a row has where nothing is said: within another statement an insert does not look for itself."""
    return {column.name: column.default.arg for column in table.columns if column.default is not None}


@functools.lru_cache(128)
def _end_of(
    changed: tuple[tuple[sa.Table, tuple[str, ...]], ...],
    touched: tuple[tuple[sa.Table, bool], ...],
    inserted: tuple[tuple[sa.Table, tuple[str, ...], int], ...],
) -> sa.Select:
    """All that waits for the end of a transaction, and the counter, in one statement.

    :param changed: tables and the columns that are set in one row of each
    :param touched: tables, and whether one row of each is stamped or several
    :param inserted: tables and columns, and how many rows
    """
    tables = [table for table, _of in (*changed, *touched)]
    newest = _advance_by(tables).returning(_GENERATION.c.value).cte("newest")
    generation = sa.select(newest.c.value).scalar_subquery()
    parts: list[sa.CTE] = []
    for number, (table, columns) in enumerate(changed):
        values = {name: sa.bindparam(f"set_{number}_{name}", type_=table.c[name].type) for name in columns}
        row = table.primary_key.columns[0] == sa.bindparam(f"of_key_{number}")
        parts.append(table.update().where(row).values(**values, generation=generation).cte(f"changed_{number}"))
    for number, (table, one) in enumerate(touched):
        key = table.primary_key.columns[0]
        rows = key == sa.bindparam(f"key_{number}") if one else key.in_(sa.bindparam(f"key_{number}", expanding=True))
        parts.append(table.update().where(rows).values(generation=generation).cte(f"touched_{number}"))
    for number, (table, columns, count) in enumerate(inserted):
        new = [
            {name: sa.bindparam(f"new_{number}_{row}_{name}", type_=table.c[name].type) for name in columns}
            for row in range(count)
        ]
        parts.append(table.insert().values(new[0] if count == 1 else new).cte(f"inserted_{number}"))
    return sa.select(newest.c.value).add_cte(*parts)


class Transaction:
    """One writing transaction. ``touch`` names the tracked rows that it changes.

    What waits (``change``, ``insert_last``) is written before any other statement, or else with the stamp: so every
    statement sees it, and where nothing follows the end is one statement, if the database can do that.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._touched: dict[sa.Table, set[Any]] = collections.defaultdict(set)
        #: Changes, by table and key, that wait for what comes next: for the rows' stamps, it is to be hoped.
        self._waiting: dict[tuple[sa.Table, Any], dict[str, Any]] = {}
        self._last: list[tuple[sa.Table, dict[str, Any]]] = []

    @property
    def compares_names_roughly(self) -> bool:
        """Whether names that differ by case are one name to the database, as they are not to us."""
        return self._connection.dialect.name == "mysql"

    def execute(self, statement: sa.Executable, parameters: Any = None) -> sa.CursorResult:
        self._write_what_waits()
        return self._connection.execute(statement, parameters)

    def insert(self, table: sa.Table, values: Mapping[str, Any]) -> Any:
        """Insert one row; returns its primary key (a scalar)."""
        return self.execute(_insert_of(table), dict(values)).inserted_primary_key[0]

    def insert_last(self, table: sa.Table, values: Mapping[str, Any]) -> None:
        """Insert one row whose key nobody asks for, with the last statement if no other follows."""
        self._last.append((table, {**_defaults_of(table), **values}))

    def insert_all(self, table: sa.Table, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert one row or more, all with the same columns."""
        self.execute(_insert_of(table), [dict(row) for row in rows])

    def update(self, table: sa.Table, key: Any, values: Mapping[str, Any]) -> None:
        """Set ``values`` (not SQL expressions) on the row with this primary key."""
        self.execute(_update_of(table), {**values, "of_key": key})

    def change(self, table: sa.Table, key: Any, values: Mapping[str, Any]) -> None:
        """:meth:`update` and :meth:`touch` of a tracked row that this transaction has locked, with one statement if no
        other follows. (Unlocked, its lock would be taken after the counter's.)
        """
        self._waiting[table, key] = {**self._waiting.get((table, key), {}), **values}
        self.touch(table, key)

    def _write_what_waits(self) -> None:
        self._write_changes(self._waiting)
        self._write_inserts()

    def _write_changes(self, changes: Iterable[tuple[sa.Table, Any]]) -> None:
        due = {row: self._waiting.pop(row) for row in list(changes)}
        for (table, key), values in due.items():
            self._connection.execute(_update_of(table), {**values, "of_key": key})

    def _write_inserts(self) -> None:
        last, self._last = self._last, []
        for (table, _columns), rows in _alike(last).items():
            self._connection.execute(_insert_of(table), rows)

    def touch(self, table: sa.Table, *keys: Any) -> None:
        """Name rows that this transaction changes: its end stamps them with the next generation."""
        if keys:
            self._touched[table].update(keys)

    def finish(self) -> None:
        """Write what waits, and stamp what was touched."""
        if not self._touched:
            self._write_what_waits()
        elif self._connection.dialect.name == "postgresql":
            self._stamp_at_once()
        else:
            self._stamp()

    def _stamp_at_once(self) -> None:
        self._write_changes(list(self._waiting)[MOST_AT_THE_END:])
        alike = _alike(self._last)
        if len({table for table, _columns in alike}) < len(alike) or len(self._last) > MOST_AT_THE_END:
            # Parts of one statement are done in no order, and rows of one table are to be in theirs.
            self._write_inserts()
            alike = {}
        changes, self._waiting, self._last = self._waiting, {}, []
        given: dict[str, Any] = {}
        for number, ((table, key), values) in enumerate(changes.items()):
            self._touched[table].discard(key)
            given.update({f"set_{number}_{name}": value for name, value in values.items()})
            given[f"of_key_{number}"] = key
        touched = [(table, sorted(keys)) for table, keys in self._touched.items() if keys]
        for number, (_table, keys) in enumerate(touched):
            given[f"key_{number}"] = keys[0] if len(keys) == 1 else keys
        for number, rows in enumerate(alike.values()):
            for row, values in enumerate(rows):
                given.update({f"new_{number}_{row}_{name}": value for name, value in values.items()})
        shape = (
            tuple((table, tuple(values)) for (table, _key), values in changes.items()),
            tuple((table, len(keys) == 1) for table, keys in touched),
            tuple((table, columns, len(rows)) for (table, columns), rows in alike.items()),
        )
        self._connection.execute(_end_of(*shape), given)

    def _stamp(self) -> None:
        waiting, self._waiting = self._waiting, {}
        generation = self._next_generation()
        for (table, key), values in waiting.items():
            self.update(table, key, {**values, "generation": generation})
            self._touched[table].discard(key)
        for table, keys in self._touched.items():
            if len(keys) == 1:
                self.update(table, *keys, {"generation": generation})
            elif keys:
                self.execute(_stamp_of(table), {"keys": sorted(keys), "newest": generation})

    def _next_generation(self) -> int:
        advance = _advance_by(self._touched)
        if self._connection.dialect.update_returning:
            return self.execute(advance.returning(_GENERATION.c.value)).scalar_one()
        self.execute(advance)
        return self.execute(_TELL).scalar_one()


def _alike(rows: Iterable[tuple[sa.Table, dict[str, Any]]]) -> dict[tuple[sa.Table, Any], list[dict[str, Any]]]:
    """By table and columns, in the order of the rows."""
    found: dict[tuple[sa.Table, Any], list[dict[str, Any]]] = {}
    for table, values in rows:
        found.setdefault((table, tuple(values)), []).append(values)
    return found
