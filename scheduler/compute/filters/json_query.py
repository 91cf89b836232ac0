# SPDX-License-Identifier: Apache-2.0
"""Evaluates the queries of JsonFilter, of :mod:`fleet.objects.hint_query`'s language.

Called by :mod:`scheduler.compute.filters.json`. Arguments that are nothing (an unknown name, an empty text) are left
out. Nothing of a query is ever executed as code.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

Lookup = Callable[[str], Any]
Compare = Callable[[Any, Any], Any]

COMPARISONS: dict[str, Compare] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def evaluate(query: Any, lookup: Lookup) -> bool:
    """Return True if the host behind ``lookup`` meets the query. Every host meets an empty query."""
    if not query:
        return True
    name, *arguments = query
    values = [_value(argument, lookup) for argument in arguments]
    return _OPERATORS[name]([value for value in values if value is not None])


def _value(argument: object, lookup: Lookup) -> Any:
    if isinstance(argument, list):
        return evaluate(argument, lookup)
    if isinstance(argument, str):
        return lookup(argument[1:]) if argument.startswith("$") else argument or None
    return argument


def _all_compare(compare: Compare, values: Sequence[object]) -> bool:
    return len(values) > 1 and all(_holds(compare, values[0], other) for other in values[1:])


def _holds(compare: Compare, one: object, other: object) -> bool:
    try:
        return bool(compare(one, other))
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
