# SPDX-License-Identifier: Apache-2.0
"""Runs statements as SQLAlchemy compiles them for SQLite, by a shorter way from there to the driver and back.

The way takes most of a statement's time, and statements most of a seed's. Only what is made once and used again goes the
short way; all else goes SQLAlchemy's own.
"""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import result
from sqlalchemy.sql import compiler

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class Rows(list[sa.Row]):
    """What a statement has answered: as much of SQLAlchemy's result as the ledger asks for."""

    rowcount = 0
    inserted_primary_key: tuple[Any, ...] = ()

    def all(self) -> Rows:
        return self

    def first(self) -> Any:
        return self[0] if self else None

    def one_or_none(self) -> Any:
        if len(self) > 1:
            raise sa.exc.MultipleResultsFound
        return self.first()

    def one(self) -> Any:
        if len(self) != 1:
            raise sa.exc.NoResultFound
        return self[0]

    def scalars(self) -> Rows:
        return Rows(map(operator.itemgetter(0), self))

    def scalar_one(self) -> Any:
        return self.one()[0]

    def scalar_one_or_none(self) -> Any:
        row = self.one_or_none()
        return None if row is None else row[0]


class _Plan:
    """A statement that is compiled for certain names of parameters, and lengths of those that are lists."""

    def __init__(self, compiled: compiler.SQLCompiler, dialect: sa.Dialect, example: Mapping[str, Any]) -> None:
        self._compiled = compiled
        self._defaults = {column.key: column.default.arg for column in compiled.insert_prefetch}
        whole = compiled.construct_params({**self._defaults, **example})
        expanded = compiled._process_parameters_for_postcompile(whole)
        self._lists = expanded.parameter_expansion
        self._text, self._names = expanded.statement, expanded.positiontup or []
        to_driver = {**compiled._bind_processors, **expanded.processors}
        self._bound = [(name, to_driver[name]) for name in dict.fromkeys(self._names) if to_driver.get(name)]
        columns = compiled._result_columns
        self._answer = result.SimpleResultMetaData([column.keyname for column in columns])
        from_driver = [column.type._cached_result_processor(dialect, None) for column in columns]
        self._converted: list[tuple[int, Callable]] = [(at, each) for at, each in enumerate(from_driver) if each]

    def run(self, driver: Any, parameters: Mapping[str, Any]) -> Rows:
        given = self._compiled.construct_params({**self._defaults, **parameters})
        for name, parts in self._lists.items():
            given.update(zip(parts, given[name], strict=True))
        for name, to_driver in self._bound:
            given[name] = to_driver(given[name])
        cursor = driver.execute(self._text, [given[name] for name in self._names])
        answer = self._answer
        rows = Rows(sa.Row(answer, None, answer._key_to_index, self._data(each)) for each in cursor.fetchall())
        rows.rowcount = cursor.rowcount
        if self._compiled.isinsert:
            key = self._compiled.statement.table.primary_key.columns[0].key  # type: ignore[union-attr]
            rows.inserted_primary_key = (parameters.get(key, cursor.lastrowid),)
        return rows

    def _data(self, values: Sequence[Any]) -> tuple[Any, ...]:
        changed = list(values)
        for at, convert in self._converted:
            changed[at] = convert(changed[at])
        return tuple(changed)


class Statements:
    """A connection, as far as the ledger uses one; and, since it is the only one, an engine that lends it."""

    def __init__(self, engine: sa.Engine) -> None:
        self.dialect = engine.dialect
        self._own = engine.connect()
        self._driver = self._own.connection.driver_connection
        self._met: weakref.WeakSet[Any] = weakref.WeakSet()
        self._plans: dict[tuple[Any, ...], _Plan] = {}

    def connect(self) -> contextlib.AbstractContextManager[Statements]:
        return contextlib.nullcontext(self)

    @contextlib.contextmanager
    def begin(self) -> Iterator[Statements]:
        try:
            yield self
        except BaseException:
            self._driver.rollback()
            raise
        self._driver.commit()

    def execute(self, statement: Any, parameters: Parameters = None) -> Any:
        if parameters is None or isinstance(parameters, Mapping):
            plan = self._plan(statement, parameters or {})
            if plan is not None:
                return plan.run(self._driver, parameters or {})
        return self._own.execute(statement, parameters)

    def scalar(self, text: str) -> Any:
        """The first column of the first row that SQL as text answers with."""
        return self._driver.execute(text).fetchone()[0]

    def _plan(self, statement: Any, parameters: Mapping[str, Any]) -> _Plan | None:
        key = (statement, *parameters, *(len(each) for each in parameters.values() if isinstance(each, list)))
        if key in self._plans:
            return self._plans[key]
        if statement not in self._met:
            self._met.add(statement)
            return None
        compiled = statement.compile(dialect=self.dialect, column_keys=list(parameters))
        plan = self._plans[key] = _Plan(compiled, self.dialect, parameters)
        return plan
