# SPDX-License-Identifier: Apache-2.0
"""One writing transaction: what it writes, and how its end stamps the rows that it has changed. See ``engine``.

Statements are built once and cached: building one costs as much as running it.
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
#: Tables whose newest generation is noted in the row of generations.
_NOTED = (models.services, models.aggregates, models.instances)
_NEWEST = sa.select(_GENERATION.c.value).where(_GENERATION.c.id == 1)
#: Rows that the last statement updates, and inserts. There is a cached statement for every number of them.
MAX_DEFERRED = 8


@functools.cache
def _advance(*changed: sa.Table) -> sa.Update:
    """Take the next generation, and note it for the noted tables among ``changed``."""
    known = _GENERATION.c
    newest = known.value + 1
    is_noted = known.noted == known.value
    noted = [
        (known[table.name], newest if table in changed else sa.case((is_noted, known[table.name]), else_=newest))
        for table in _NOTED
    ]
    # MariaDB assigns from left to right, and each assignment sees those before it.
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
    """Column defaults, applied here because the INSERT of a CTE does not see SQLAlchemy's defaults."""
    defaults: dict[str, Any] = {column.name: column.default for column in table.columns if column.default is not None}
    return {name: default.arg for name, default in defaults.items()}


@functools.lru_cache(128)
def _end_of(
    changed: tuple[tuple[sa.Table, tuple[str, ...]], ...],
    touched: tuple[tuple[sa.Table, bool], ...],
    inserted: tuple[tuple[sa.Table, tuple[str, ...], int], ...],
) -> sa.Select:
    """Deferred updates and inserts, stamps and the generation, in one statement.

    :param changed: tables, and the columns that are set in one row of each
    :param touched: tables, and whether one row is stamped or several
    :param inserted: tables, columns and the number of rows
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

    Deferred writes (``defer_update``, ``defer_insert``) are sent before the next statement, which therefore sees them. If
    none follows, they are sent with the stamps: on PostgreSQL the end is then a single statement.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._touched: dict[sa.Table, set[Any]] = collections.defaultdict(set)
        #: By table and key.
        self._updates: dict[tuple[sa.Table, Any], dict[str, Any]] = {}
        self._inserts: list[tuple[sa.Table, dict[str, Any]]] = []

    @property
    def ignores_case(self) -> bool:
        """Whether the database compares names without case. This program does not."""
        return self._connection.dialect.name == "mysql"

    def execute(self, statement: sa.Executable, parameters: Any = None) -> sa.CursorResult:
        self._flush()
        return self._connection.execute(statement, parameters)

    def insert(self, table: sa.Table, values: Mapping[str, Any]) -> Any:
        """Insert one row; returns its primary key (a scalar)."""
        key = self.execute(_insert_of(table), dict(values)).inserted_primary_key
        return key[0] if key else None

    def defer_insert(self, table: sa.Table, values: Mapping[str, Any]) -> None:
        """Insert one row later, at the latest with the last statement. Its key is not returned."""
        self._inserts.append((table, {**_defaults_of(table), **values}))

    def insert_all(self, table: sa.Table, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert one row or more, all with the same columns."""
        self.execute(_insert_of(table), [dict(row) for row in rows])

    def update(self, table: sa.Table, key: Any, values: Mapping[str, Any]) -> None:
        """Set ``values`` (not SQL expressions) on the row with this primary key."""
        self.execute(_update_of(table), {**values, "of_key": key})

    def defer_update(self, table: sa.Table, key: Any, values: Mapping[str, Any]) -> None:
        """:meth:`update` and :meth:`touch` a tracked row later, at the latest with the last statement.

        The transaction must have locked the row. Otherwise its lock would be taken after that of the generations.
        """
        self._updates[table, key] = {**self._updates.get((table, key), {}), **values}
        self.touch(table, key)

    def _flush(self) -> None:
        self._send_updates(self._updates)
        self._send_inserts()

    def _send_updates(self, rows: Iterable[tuple[sa.Table, Any]]) -> None:
        due = {row: self._updates.pop(row) for row in list(rows)}
        for (table, key), values in due.items():
            self._connection.execute(_update_of(table), {**values, "of_key": key})

    def _send_inserts(self) -> None:
        inserts, self._inserts = self._inserts, []
        for (table, _columns), rows in _alike(inserts).items():
            self._connection.execute(_insert_of(table), rows)

    def touch(self, table: sa.Table, *keys: Any) -> None:
        """Name rows that this transaction changes: its end stamps them with the next generation."""
        if keys:
            self._touched[table].update(keys)

    def finish(self) -> None:
        """Send what is deferred, and stamp the rows that were touched."""
        if not self._touched:
            self._flush()
        elif self._connection.dialect.name == "postgresql":
            self._stamp_at_once()
        else:
            self._stamp()

    def _stamp_at_once(self) -> None:
        self._send_updates(list(self._updates)[MAX_DEFERRED:])
        alike = _alike(self._inserts)
        if len({table for table, _columns in alike}) < len(alike) or len(self._inserts) > MAX_DEFERRED:
            # The parts of one statement run in any order, but rows of one table must keep theirs.
            self._send_inserts()
            alike = {}
        changes, self._updates, self._inserts = self._updates, {}, []
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
        updates, self._updates = self._updates, {}
        generation = self._next_generation()
        for (table, key), values in updates.items():
            self.update(table, key, {**values, "generation": generation})
            self._touched[table].discard(key)
        for table, keys in self._touched.items():
            if len(keys) == 1:
                self.update(table, next(iter(keys)), {"generation": generation})
            elif keys:
                self.execute(_stamp_of(table), {"keys": sorted(keys), "newest": generation})

    def _next_generation(self) -> int:
        advance = _advance_by(self._touched)
        if self._connection.dialect.update_returning:
            return self.execute(advance.returning(_GENERATION.c.value)).scalar_one()
        self.execute(advance)
        return self.execute(_NEWEST).scalar_one()


def _alike(rows: Iterable[tuple[sa.Table, dict[str, Any]]]) -> dict[tuple[sa.Table, Any], list[dict[str, Any]]]:
    """Rows by table and columns, in their order."""
    found: dict[tuple[sa.Table, Any], list[dict[str, Any]]] = {}
    for table, values in rows:
        found.setdefault((table, tuple(values)), []).append(values)
    return found
