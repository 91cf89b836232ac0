# SPDX-License-Identifier: Apache-2.0
"""The operators with which a volume type's extra specs describe what a pool must report.

They are those of flavors (:mod:`scheduler.filters.extra_specs_ops`) and ``<is>`` for flags. A value is compared as the
pool reports it: without an operator, the number 1 is not the text "1". Called by :mod:`scheduler.compat.cinder_names`
and :mod:`scheduler.volumes.filters.capabilities`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oslo_utils import strutils

from scheduler.compute.filters.extra_specs_ops import NUMBERS, TEXTS

Test = Callable[[Any], bool]


def requirement(wanted: str | None) -> Test:
    """Return the test that a reported value must pass. Only the first operand counts, except for ``<or>``.

    A value that cannot be compared does not pass.
    """
    if wanted is None:
        return lambda value: value is None
    name, *operands = wanted.split() or [""]
    if name == "<or>":
        return _reported(lambda value: any(value == each for each in operands[::2]))
    if name == "<is>":
        return _reported(
            lambda value: bool(operands) and strutils.bool_from_string(value) == strutils.bool_from_string(operands[0])
        )
    if name in TEXTS:
        compare_texts = TEXTS[name]
        return _reported(lambda value: bool(operands) and compare_texts(value, operands[0]))
    if name in NUMBERS:
        compare = NUMBERS[name]
        return _reported(lambda value: bool(operands) and compare(float(value), float(operands[0])))
    return lambda value: type(value) is str and value == wanted


def _reported(test: Test) -> Test:
    def passes(value: object) -> bool:
        try:
            return value is not None and bool(test(value))
        except (TypeError, ValueError):
            return False

    return passes
