# SPDX-License-Identifier: Apache-2.0
"""Whether a SELECT returns its rows in one order only, whatever the database does.

It does if no two of its rows can be equal in everything that the ORDER BY names, in the constants of the WHERE, and in what
follows from both by unique keys and joins. A SELECT of one row at most has such an order too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql import elements, functions, operators, selectable, visitors

Column = Any


def is_total(statement: sa.Select | sa.CompoundSelect) -> bool:
    """Return True if the rows of a statement have one order only, or the statement returns one row at most."""
    if isinstance(statement, sa.CompoundSelect):
        # Its parts may return equal rows, so all of its columns are needed.
        return set(statement.selected_columns.keys()) <= {_name(each) for each in _ordered_by(statement)}
    if _is_one_aggregate(statement):
        return True
    fixed = set(_constants(_conditions(statement))) | {
        column for each in _ordered_by(statement) for column in _resolved(each, statement)
    }
    known = _closure(fixed, statement)
    return all(_depends_on(each, known) for each in _selected(statement))


def _is_one_aggregate(statement: sa.Select) -> bool:
    """Return True if the statement adds up all rows, or reads no table."""
    if statement._group_by_clauses or not _froms(statement):
        return not statement._group_by_clauses
    return all(_is_aggregate(each) or not _columns(each) for each in statement.selected_columns) and any(
        map(_is_aggregate, statement.selected_columns)
    )


def _froms(statement: sa.Select) -> list[Any]:
    """Return what the statement reads; a function such as the time of day is no table."""
    # ``get_final_froms`` renders the statement, which not every dialect can.
    found = statement._compile_state_factory(statement, None)._get_display_froms()
    return [each for each in found if not isinstance(each, functions.FunctionElement)]


def _is_aggregate(each: Any) -> bool:
    parts = list(visitors.iterate(each))
    called = [part.name for part in parts if isinstance(part, functions.Function | functions.GenericFunction)]
    return not any(isinstance(part, elements.Over) for part in parts) and any(name in _AGGREGATES for name in called)


_AGGREGATES = ("count", "sum", "max", "min")


def _ordered_by(statement: Any) -> list[Any]:
    return [_bare(each) for each in statement._order_by_clauses]


def _bare(each: Any) -> Any:
    """Return an element without DESC, NULLS FIRST and its label."""
    while isinstance(each, (elements.UnaryExpression, elements.Label, elements._label_reference)):
        each = each.element
    return each


def _name(each: Any) -> str:
    return str(getattr(each, "name", None) or getattr(each, "element", each))


def _resolved(each: Any, statement: sa.Select) -> list[Any]:
    """Return the columns that an element of the ORDER BY fixes. An expression fixes the selected one that equals it."""
    if isinstance(each, elements._textual_label_reference):
        return [_bare(statement.selected_columns[each.element])]
    return [each]


def _conditions(statement: sa.Select) -> list[Any]:
    found = [] if statement.whereclause is None else [statement.whereclause]
    for each in _froms(statement):
        found += [part.onclause for part in visitors.iterate(each) if isinstance(part, sa.Join)]
    return [part for each in found for part in _conjuncts(each)]


def _conjuncts(clause: Any) -> Iterator[Any]:
    if isinstance(clause, elements.Grouping):
        yield from _conjuncts(clause.element)
    elif isinstance(clause, elements.BooleanClauseList) and clause.operator is operators.and_:
        for each in clause.clauses:
            yield from _conjuncts(each)
    else:
        yield clause


def _constants(conditions: Iterable[Any]) -> Iterator[Column]:
    for left, right in _equalities(conditions):
        for one, other in ((left, right), (right, left)):
            if isinstance(one, sa.Column) and not _columns(other):
                yield one
    for each in conditions:  # a boolean by itself, and IS
        if isinstance(each, sa.Column):
            yield each
        elif isinstance(each, elements.UnaryExpression) and isinstance(each.element, sa.Column):
            yield each.element
        elif isinstance(each, elements.BinaryExpression) and each.operator is operators.is_:
            yield from [each.left] if isinstance(each.left, sa.Column) else []


def _equalities(conditions: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    for each in conditions:
        if isinstance(each, elements.BinaryExpression) and each.operator is operators.eq:
            yield each.left, each.right


def _closure(known: set[Any], statement: sa.Select) -> set[Any]:
    """Return everything that the known columns fix: joined columns, and rows by their unique keys."""
    conditions = _conditions(statement)
    tables = list(itertools.chain.from_iterable(_tables(each) for each in _froms(statement)))
    grouped = [_bare(each) for each in statement._group_by_clauses]
    while True:
        before = len(known)
        for left, right in _equalities(conditions):
            if isinstance(left, sa.Column | sa.ColumnClause) and isinstance(right, sa.Column | sa.ColumnClause):
                known |= {left, right} if known & {left, right} else set()
        for each in tables:
            if any(set(key) <= known for key in _keys(each)):
                known |= set(each.c)
        if grouped and all(_depends_on(each, known) for each in grouped):
            known |= {_bare(each) for each in statement.selected_columns} | set(statement.selected_columns)
        if len(known) == before:
            return known


def _tables(source: Any) -> Iterator[Any]:
    if isinstance(source, sa.Join):
        yield from _tables(source.left)
        yield from _tables(source.right)
    else:
        yield source


def _keys(source: Any) -> Iterator[list[Column]]:
    """Yield the unique keys of a table, an alias, or a subquery."""
    yield list(source.c)
    table = source.element if isinstance(source, selectable.AliasedReturnsRows) else source
    if isinstance(table, sa.Select):
        yield from ([source.c[name]] for name, _column in table.selected_columns.items() if _is_key(name, table))
    if isinstance(table, sa.TableClause) and "id" in source.c:  # a table of nova, of which only columns are known
        yield [source.c.id]
    if isinstance(table, sa.Table):
        yield [source.c[each.name] for each in table.primary_key.columns]
        for each in table.constraints:
            if isinstance(each, sa.UniqueConstraint):
                yield [source.c[column.name] for column in each.columns]
        for index in table.indexes:
            if index.unique:
                yield [source.c[column.name] for column in index.columns]


def _is_key(name: str, statement: sa.Select) -> bool:
    """Return True if one selected column tells any two rows apart."""
    column = _bare(statement.selected_columns[name])
    known = _closure({column, *_constants(_conditions(statement))}, statement)
    return all(_depends_on(each, known) for each in _selected(statement))


def _selected(statement: sa.Select) -> list[Any]:
    return [_bare(each) for each in statement.selected_columns]


def _depends_on(each: Any, known: set[Any]) -> bool:
    """Return True if what is known fixes the value of this expression."""
    if each in known:
        return True
    return all(part in known for part in _columns(each))


def _columns(each: Any) -> list[Column]:
    """Return the columns of an expression, without those of subqueries in it."""
    if isinstance(each, sa.ScalarSelect | elements.BindParameter):
        return []
    if isinstance(each, sa.ColumnClause):
        return [each] if each.table is not None else []
    return [column for part in each.get_children() for column in _columns(part)]
