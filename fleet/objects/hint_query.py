# SPDX-License-Identifier: Apache-2.0
"""The query language of the hint ``query``: ``["and", [">=", "$free_ram_mb", 1024], ...]``, as JSON text.

Called by :mod:`fleet.objects.hints`. An argument is a nested query, a JSON scalar, or ``$name.key``: an attribute of
the host and what is in it.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from fleet import json_codec

COMPARISONS = ("=", "<", ">", "<=", ">=")
OPERATORS = (*COMPARISONS, "in", "not", "or", "and")
#: Nested queries count too. A scheduler computes the query for each host while other requests wait.
MOST_ARGUMENTS = 64


@functools.lru_cache(maxsize=64)
def parse(text: str) -> Any:
    """Return the query after a check. :raises ValueError: with the mistake"""
    try:
        query = json.loads(text)
        if json_codec.is_deeper(query, json_codec.MOST_DEPTH):
            raise RecursionError
        number = _check(query)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except json.JSONDecodeError as wrong:
        raise ValueError(f"is not JSON: {wrong}") from None
    if number > MOST_ARGUMENTS:
        raise ValueError(f"has {number} arguments, at most {MOST_ARGUMENTS} are allowed")
    return query


def _check(query: object) -> int:
    """Return the number of arguments, with those of nested queries. :raises ValueError:"""
    if not isinstance(query, list):
        raise ValueError(f"must be a list, not {json.dumps(query)[:60]}")
    if not query:
        return 0
    name, *arguments = query
    if not isinstance(name, str) or name not in OPERATORS:
        raise ValueError(f"has no operator {json.dumps(name)[:60]}; known are {' '.join(OPERATORS)}")
    return len(arguments) + sum(_check(each) for each in arguments if isinstance(each, list | dict))
