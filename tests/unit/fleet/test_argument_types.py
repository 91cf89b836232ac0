# SPDX-License-Identifier: Apache-2.0
"""Whole numbers of command lines."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from fleet.client import argument_types
from fleet_cli.base import build_arguments

LARGE = "1" + "0" * 5000
CASES = [
    (argument_types.positive, "0", "must be a whole number from 1, got '0'"),
    (argument_types.positive, "-1", "must be a whole number from 1, got '-1'"),
    (argument_types.natural, "nan", "must be a whole number from 0, got 'nan'"),
    (argument_types.natural, "2147483648", "must be at most 2147483647, got 2147483648"),
    (argument_types.positive, LARGE, "must be at most 2147483647, got a number of 5001 digits"),
    (argument_types.limit, LARGE, "must be at most 2147483647, got a number of 5001 digits"),
    (argument_types.size, str(2**63), "must be at most 9223372036854775807, got 9223372036854775808"),
    (argument_types.limit, "-2", "must be a whole number from 0, or -1 for unlimited, got '-2'"),
]


@pytest.mark.parametrize(
    ("kind", "text", "why"), CASES, ids=[f"{kind.__name__} {text[:12]}" for kind, text, _ in CASES]
)
def test_a_wrong_number(kind: Callable[[str], int], text: str, why: str) -> None:
    """It says what is allowed, also of a number that Python does not read."""
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        kind(text)
    assert why == str(refused.value)


def test_numbers() -> None:
    """Zeros before a number do not make it large."""
    assert (2**31 - 1, 0) == (argument_types.positive("0000000002147483647"), argument_types.natural("0"))
    assert 3 * 2**30 == argument_types.size(str(3 * 2**30)) == build_arguments.image(f"id=x,size={3 * 2**30}")["size"]
    assert (-1, 7) == (argument_types.limit("-1"), argument_types.limit("7"))
