# SPDX-License-Identifier: Apache-2.0
"""Evaluates the queries of JsonFilter, of :mod:`fleet.objects.hint_query`'s language.

Called by :mod:`scheduler.compute.filters.json`. Arguments that are nothing (an unknown name, an empty text) are left
out. Nothing of a query is ever executed as code.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

#: Returns the value of each host at a path, ``name.key...``.
Read = Callable[[str], Iterable[Any]]
Compare = Callable[[Any, Any], Any]

COMPARISONS: dict[str, Compare] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def evaluate(query: Any, read: Read, hosts: int) -> Iterable[bool]:
    """Return for each host whether it meets the query, operator by operator. Every host meets an empty query.

    :param hosts: how many they are
    """
    if not query:
        return itertools.repeat(True, hosts)
    name, *arguments = query
    columns = [_column(argument, read, hosts) for argument in arguments]
    rows = zip(*columns, strict=True) if columns else itertools.repeat((), hosts)
    judge = _OPERATORS[name]
    return [judge([value for value in row if value is not None]) for row in rows]


def _column(argument: object, read: Read, hosts: int) -> Iterable[Any]:
    if isinstance(argument, list):
        return evaluate(argument, read, hosts)
    if isinstance(argument, str) and argument.startswith("$"):
        return read(argument[1:])
    return itertools.repeat(None if argument == "" else argument, hosts)


def _all_compare(compare: Compare, values: Sequence[object]) -> bool:
    try:
        return len(values) > 1 and all(compare(values[0], other) for other in values[1:])
    except TypeError:  # a number and a text have no order
        return False


def _among(values: Sequence[object]) -> bool:
    return len(values) > 1 and values[0] in values[1:]


def _any_not(values: Sequence[object]) -> bool:
    # nova hands a list up, which counts as true wherever it is not the outermost; what is meant is this.
    return any(not value for value in values)


_OPERATORS: dict[str, Callable[[Sequence[object]], bool]] = {
    **{name: functools.partial(_all_compare, compare) for name, compare in COMPARISONS.items()},
    "in": _among,
    "not": _any_not,
    "or": any,
    "and": all,
}
