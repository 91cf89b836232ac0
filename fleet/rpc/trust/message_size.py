# SPDX-License-Identifier: Apache-2.0
"""The size and the nesting depth of a message. Encoding it as JSON again takes a fraction of the time of a walk through
it.
"""

from __future__ import annotations

import json

_ANY = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), default=str)
_FINITE = json.JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":"), default=str)
#: Key of a message that stands for one whose body could not be decoded; its value is the reason.
REFUSED = "fleet_refused"


class TooDeep(Exception):
    """Lists and mappings are nested more deeply than allowed."""


def text_of(value: object, deepest: int, finite: bool = False) -> str:
    """Return ``value`` as JSON without spaces.

    :param deepest: how many lists and mappings may be nested
    :param finite: refuse numbers that are not finite; the text is then ASCII
    :raises TooDeep:
    :raises ValueError: a number is not finite
    """
    try:
        text = (_FINITE if finite else _ANY).encode(value)
    except RecursionError:
        raise TooDeep from None
    # The depth is at most the number of brackets, and most messages have few.
    if text.count("[") + text.count("{") > deepest and is_deeper(value, deepest):
        raise TooDeep
    return text


def is_deeper(value: object, most: int) -> bool:
    """Return True if ``value`` is nested more than ``most`` levels deep."""
    level = [value]
    for _depth in range(most):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []
