# SPDX-License-Identifier: Apache-2.0
"""The query language of JsonFilter: ``["and", [">=", "$free_ram_mb", 1024], ...]``, checked once, then evaluated.

An argument is a nested query, a JSON scalar, or ``$name.key``: an attribute of the host and what is in it. Arguments
that are nothing (an unknown name, an empty text) are left out. Nothing of a query is ever executed as code.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable, Sequence
from typing import Any

Lookup = Callable[[str], Any]

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


@functools.lru_cache(maxsize=64)
def parse(text: str) -> Any:
    """The query, checked. The same text comes again for every instance of a request. :raises ValueError: saying why"""
    try:
        query = json.loads(text)
        _check(query)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except json.JSONDecodeError as wrong:
        raise ValueError(f"is not JSON: {wrong}") from None
    return query


def evaluate(query: Any, lookup: Lookup) -> bool:
    """Whether the host behind ``lookup`` meets the query; one that is empty is met by all."""
    if not query:
        return True
    name, *arguments = query
    values = [_value(argument, lookup) for argument in arguments]
    return _OPERATORS[name]([value for value in values if value is not None])


def _value(argument: Any, lookup: Lookup) -> Any:
    if isinstance(argument, list):
        return evaluate(argument, lookup)
    if isinstance(argument, str):
        return lookup(argument[1:]) if argument.startswith("$") else argument or None
    return argument


def _check(query: Any) -> None:
    if not isinstance(query, list):
        raise ValueError(f"must be a list, not {json.dumps(query)[:60]}")
    if not query:
        return
    name, *arguments = query
    if not isinstance(name, str) or name not in _OPERATORS:
        raise ValueError(f"has no operator {json.dumps(name)[:60]}; known are {' '.join(_OPERATORS)}")
    for argument in arguments:
        if isinstance(argument, list | dict):
            _check(argument)


def _all_compare(compare: Callable[[Any, Any], Any], values: Sequence[Any]) -> bool:
    return len(values) > 1 and all(_holds(compare, values[0], other) for other in values[1:])


def _holds(compare: Callable[[Any, Any], Any], one: Any, other: Any) -> bool:
    try:
        return bool(compare(one, other))
    except TypeError:  # a number and a text have no order
        return False


def _among(values: Sequence[Any]) -> bool:
    return len(values) > 1 and values[0] in values[1:]


def _any_not(values: Sequence[Any]) -> bool:
    # nova hands a list up, which counts as true wherever it is not the outermost; what is meant is this.
    return any(not value for value in values)


_OPERATORS: dict[str, Callable[[Sequence[Any]], bool]] = {
    **{name: functools.partial(_all_compare, compare) for name, compare in COMPARISONS.items()},
    "in": _among,
    "not": _any_not,
    "or": any,
    "and": all,
}
