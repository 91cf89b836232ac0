# SPDX-License-Identifier: Apache-2.0
"""The operators with which a flavor's extra specs describe what a host must have.

Filters on extra specs call them, for hosts and for pools.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from fleet import errors

Test = Callable[[str], bool]

#: The number that the host has, then the one that is asked for. A lone "=" has always meant "at least".
NUMBERS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
TEXTS: dict[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
    "<in>": operator.contains,
}


def match(value: str | None, wanted: str) -> bool:
    """Return True if ``value`` meets the requirement. :raises ValueError: if the requirement makes no sense"""
    return value is not None and requirement(wanted)(value)


def requirement(wanted: str) -> Test:
    """The test that a value must pass. :raises ValueError: saying what is wrong with ``wanted``

    ==========================  =====================================================
    ``=`` ``>=``                a number of at least; likewise ``==`` ``!=`` ``<=``
    ``s==`` ``s<`` ...          text, compared as text
    ``<in> x``                  ``x`` is a part of the text
    ``<all-in> x y``            so is every word
    ``<or> x <or> y``           one of the words
    anything else               exactly this text
    ==========================  =====================================================

    A host's value that should be a number and is none does not meet it.
    """
    name, *words = wanted.split() or [""]
    if name == "<or>":
        if not words:
            raise ValueError("<or> needs a value")
        return words[::2].__contains__
    if name == "<all-in>":
        return lambda value: bool(words) and all(word in value for word in words)
    if name in TEXTS or name in NUMBERS:
        return _binary(name, words[0]) if words else lambda value: False
    return wanted.__eq__


def of_request(key: str, wanted: str) -> Test:
    """:func:`requirement` of a flavor's extra spec. :raises errors.InvalidInput: naming the extra spec"""
    try:
        return requirement(wanted)
    except ValueError as wrong:
        raise errors.InvalidInput(
            field=f"request_spec.instance_type.extra_specs.{key}", reason=f"cannot be read: {wrong}"
        ) from None


def _binary(name: str, operand: str) -> Test:
    if name in TEXTS:
        compare_texts = TEXTS[name]
        return lambda value: compare_texts(value, operand)
    try:
        number = float(operand)
    except ValueError:
        raise ValueError(f"{name} needs a number, not {operand!r}") from None
    compare = NUMBERS[name]

    def test(value: str) -> bool:
        try:
            return compare(float(value), number)
        except ValueError:
            return False

    return test
