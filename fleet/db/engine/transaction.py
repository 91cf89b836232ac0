# SPDX-License-Identifier: Apache-2.0
"""One writing transaction: what it writes, and how its end stamps the rows that it has changed. See ``engine``.

:mod:`fleet.db.engine.database` hands one to each function that writes. Statements are built once and cached: building
one costs as much as running it.
"""

from __future__ import annotations

import collections
import datetime
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from fleet import json_codec
from fleet.db.tables import models
from fleet.db.tables.sql_types import Column, Columns, Select, Values

#: For annotations outside of fleet/db, where SQLAlchemy is not imported.
Connection = sa.Connection

_GENERATION = models.generations
#: Tables whose newest generation is noted in the row of generations.
_NOTED = (models.services, models.aggregates, models.instances, models.volumes)
#: Name of the key among the columns of a deferred update.
_KEY = "of_key"
_NEWEST = sa.select(_GENERATION.c.value).where(_GENERATION.c.id == 1)
_LAST_LOCK = sa.select(_GENERATION.c.id).where(_GENERATION.c.id == 1).with_for_update()
#: PostgreSQL: the commit of this transaction does not wait for the disk or a standby. It is "off" as a value.
EARLY_COMMIT = sa.func.set_config("synchronous_commit", "off", True)


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
    return table.update().where(table.primary_key.columns[0] == sa.bindparam(_KEY))


@functools.cache
def _stamp_of(table: sa.Table) -> sa.Update:
    key = table.primary_key.columns[0]
    rows = key.in_(sa.bindparam("keys", expanding=True))
    return table.update().where(rows).values(generation=sa.bindparam("newest"))


@functools.cache
def _defaults_of(table: sa.Table) -> Columns:
    """Column defaults, applied here because the INSERT of a CTE does not see SQLAlchemy's defaults."""
    defaults: Columns = {column.name: column.default for column in table.columns if column.default is not None}
    # As plain text: the fast writer of JSON takes no keys of subclasses.
    return {str(name): default.arg for name, default in defaults.items()}


@functools.lru_cache(128)
def _end_of(
    changed: tuple[tuple[sa.Table, tuple[str, ...]], ...],
    touched: tuple[tuple[sa.Table, bool], ...],
    inserted: tuple[tuple[sa.Table, tuple[str, ...]], ...],
    early: bool,
) -> Select:
    """Deferred updates and inserts, stamps and the generation, in one statement.

    Rows are passed as JSON, one parameter for each table and its columns, so the statement is the same for any number.

    :param changed: tables, and the columns that are set in their rows
    :param touched: tables, and whether one row is stamped or several
    :param inserted: tables and columns
    :param early: whether the commit does not wait for the disk or a standby
    """
    tables = [table for table, _of in (*changed, *touched)]
    newest = (_advance_by(tables).returning(_GENERATION.c.value) if tables else _NEWEST).cte("newest")
    generation = sa.select(newest.c.value).scalar_subquery()
    parts: list[sa.CTE] = []
    for number, (table, columns) in enumerate(changed):
        key = table.primary_key.columns[0]
        new = _rows(f"changes_{number}", {**{name: table.c[name] for name in columns}, _KEY: key})
        values = {name: new.c[name] for name in columns}
        update = table.update().where(key == new.c[_KEY]).values(**values, generation=generation)
        parts.append(update.cte(f"changed_{number}"))
    for number, (table, one) in enumerate(touched):
        key = table.primary_key.columns[0]
        rows = key == sa.bindparam(f"key_{number}") if one else key.in_(sa.bindparam(f"key_{number}", expanding=True))
        parts.append(table.update().where(rows).values(generation=generation).cte(f"touched_{number}"))
    for number, (table, columns) in enumerate(inserted):
        new = _rows(f"inserts_{number}", {name: table.c[name] for name in columns})
        select = sa.select(*(new.c[name] for name in columns))
        parts.append(
            table.insert().from_select(list(columns), select, include_defaults=False).cte(f"inserted_{number}")
        )
    end = sa.select(newest.c.value).add_cte(*parts)
    return end.add_columns(EARLY_COMMIT) if early else end


def _rows(parameter: str, columns: Mapping[str, Column]) -> sa.TableValuedAlias:
    """The rows of a JSON array of objects with these columns."""
    rows = sa.func.json_to_recordset(sa.cast(sa.bindparam(parameter, type_=sa.Text), sa.JSON))
    typed = [sa.column(name, column.type) for name, column in columns.items()]
    return rows.table_valued(*typed, name=f"rows_of_{parameter}").render_derived(
        name=f"rows_of_{parameter}", with_types=True
    )


def _json(rows: Sequence[Values]) -> str:
    return json_codec.dumps(rows, _moment)


def _moment(value: object) -> str:
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


class Transaction:
    """One writing transaction. ``touch`` names the tracked rows that it changes.

    Deferred writes (``defer_update``, ``defer_insert``) are sent before the next statement, which therefore sees them. If
    none follows, they are sent with the stamps: on PostgreSQL the end is then a single statement.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._touched: dict[sa.Table, set[Any]] = collections.defaultdict(set)
        #: By table and key.
        self._updates: dict[tuple[sa.Table, Any], Columns] = {}
        self._inserts: list[tuple[sa.Table, Columns]] = []
        #: By table and key, the rows that this transaction has locked, as they are now: none is read twice.
        self.locked: dict[sa.Table, dict[Any, Any]] = collections.defaultdict(dict)
        self._early = False

    def commit_early(self) -> None:
        """Let the commit return before it is durable, on PostgreSQL. A crash of the server may lose it.

        A durable commit makes all commits before it durable. So this fits a step that is repeated when it is lost, and
        that no answer promises. MariaDB has no such commit.
        """
        self._early = True

    @property
    def dialect(self) -> str:
        """``postgresql``, ``mysql`` (also MariaDB) or ``sqlite``."""
        return self._connection.dialect.name

    def execute(self, statement: sa.Executable, parameters: Any = None) -> sa.CursorResult[*tuple[Any, ...]]:
        self._flush()
        return self._connection.execute(statement, parameters)

    def insert(self, table: sa.Table, values: Values) -> Any:
        """Insert one row; returns its primary key (a scalar)."""
        key = self.execute(_insert_of(table), dict(values)).inserted_primary_key
        return key[0] if key else None

    def defer_insert(self, table: sa.Table, values: Values) -> None:
        """Insert one row later, at the latest with the last statement. Its key is not returned."""
        self._inserts.append((table, {**_defaults_of(table), **values}))

    def insert_all(self, table: sa.Table, rows: Iterable[Values]) -> None:
        """Insert one row or more, all with the same columns."""
        self.execute(_insert_of(table), [dict(row) for row in rows])

    def update(self, table: sa.Table, key: Any, values: Values) -> None:
        """Set ``values`` (not SQL expressions) on the row with this primary key."""
        self.execute(_update_of(table), {**values, _KEY: key})

    def defer_update(self, table: sa.Table, key: Any, values: Values) -> None:
        """:meth:`update` and :meth:`touch` a tracked row later, at the latest with the last statement.

        The transaction must have locked the row. Otherwise its lock would be taken after that of the generations.
        """
        self._updates[table, key] = {**self._updates.get((table, key), {}), **values}
        self.touch(table, key)

    def lock_last(self) -> None:
        """Lock the row of generations: what is read next stays true until the commit.

        It is the last lock of every transaction: take no other row's lock after it.
        """
        self.execute(_LAST_LOCK)

    def _flush(self) -> None:
        updates, self._updates = self._updates, {}
        for (table, key), values in updates.items():
            self._connection.execute(_update_of(table), {**values, _KEY: key})
        self._send_inserts()

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
        if self._connection.dialect.name == "postgresql":
            if self._touched or self._inserts:
                self._end_at_once()
        elif self._touched:
            self._stamp()
        else:
            self._flush()

    def _end_at_once(self) -> None:
        inserts = _alike(self._inserts)
        if len({table for table, _columns in inserts}) < len(inserts):
            # The parts of one statement run in any order, but rows of one table must keep theirs.
            self._send_inserts()
            inserts = {}
        changes: dict[tuple[sa.Table, tuple[str, ...]], list[Columns]] = {}
        for (table, key), values in self._updates.items():
            self._touched[table].discard(key)
            changes.setdefault((table, tuple(values)), []).append({**values, _KEY: key})
        self._updates, self._inserts = {}, []
        touched = [(table, sorted(keys)) for table, keys in self._touched.items() if keys]
        given: Columns = {f"changes_{number}": _json(rows) for number, rows in enumerate(changes.values())}
        given.update({f"inserts_{number}": _json(rows) for number, rows in enumerate(inserts.values())})
        for number, (_table, keys) in enumerate(touched):
            given[f"key_{number}"] = keys[0] if len(keys) == 1 else keys
        end = _end_of(
            tuple(changes), tuple((table, len(keys) == 1) for table, keys in touched), tuple(inserts), self._early
        )
        self._connection.execute(end, given)

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
            advanced = self.execute(advance.returning(_GENERATION.c.value))
        else:
            self.execute(advance)
            advanced = self.execute(_NEWEST)
        newest: int = advanced.scalar_one()
        return newest


def _alike(rows: Iterable[tuple[sa.Table, Columns]]) -> dict[tuple[sa.Table, object], list[Columns]]:
    """Rows by table and columns, in their order; tables before those that refer to them.

    The rows of a table may have different columns, so the order in which these are first seen is not enough: in a batch
    of builds, the events of all instances would come before the first instance with addresses.
    """
    found: dict[tuple[sa.Table, Any], list[Columns]] = {}
    for table, values in rows:
        found.setdefault((table, tuple(values)), []).append(values)
    return dict(sorted(found.items(), key=lambda each: _place(each[0][0])))


@functools.cache
def _place(table: sa.Table) -> int:
    """The place of a table in an order in which foreign keys point backwards."""
    return table.metadata.sorted_tables.index(table)
