# SPDX-License-Identifier: Apache-2.0
"""Whole numbers of HTTP bodies, which clients of nova also send as text."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from fleet import errors
from fleet.objects import fields
from fleet_api.compute.catalog.flavor_view import NewFlavor

Limit: Any = Annotated[int, fields.WholeNumber(-1, 100)]
FLAVOR = {"name": "tiny", "ram": "512", "vcpus": 1, "disk": 0}
#: pydantic takes each of them for a number.
ODD = [True, False, 2.0, "2.0", " 2 ", "2\n", "+2", "1_0", "", "٣", None, [], 101, "101", -2, "-2", "9" * 5000]


@pytest.mark.parametrize(("given", "expected"), [(7, 7), ("7", 7), ("007", 7), (-1, -1), ("-1", -1), ("0", 0)])
def test_a_whole_number(given: object, expected: int) -> None:
    assert (expected, int) == (fields.parse(Limit, given), type(fields.parse(Limit, given)))


@pytest.mark.parametrize("given", ODD)
def test_what_is_no_whole_number(given: object) -> None:
    """It is refused with the bounds."""
    with pytest.raises(errors.InvalidInput, match="^field must be a whole number from -1 to 100$"):
        fields.parse(Limit, given, "field")


@pytest.mark.parametrize("field", ["ram", "vcpus", "disk", "swap", "OS-FLV-EXT-DATA:ephemeral", "id"])
def test_a_flavor(field: str) -> None:
    assert 512 == fields.parse(NewFlavor, FLAVOR).ram
    with pytest.raises(errors.InvalidInput, match=rf"^flavor\.{field}"):
        fields.parse(NewFlavor, {**FLAVOR, field: True}, "flavor")
