# SPDX-License-Identifier: Apache-2.0
"""Patterns of users: matched in linear time, and refused by name if they are wrong or too large."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.objects import name_pattern


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("web", "my-web-1", True),
        ("^web", "my-web-1", False),
        ("(?i)WEB", "my-web-1", True),
        ("w[ée]b$", "wéb", True),
        # 2**250 steps in Python's re.
        ("(a+)+$", "a" * 250 + "!", False),
        ("(a|a)+$", "a" * 250 + "!", False),
    ],
)
def test_a_pattern_is_searched_in_a_name(pattern: str, name: str, found: bool) -> None:
    """Anywhere in it, in a time that grows with its length only."""
    assert found is name_pattern.compiled(pattern, "name")(name)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(((", "is not a regular expression"),
        (r"(a)\1", "no back references"),
        ("(?=a)", "no look-around"),
        ("((a{30}){30}){30}", "needs too much memory"),
        ("\ud800", "is not a regular expression"),
        ("a" * 256, "has 256 characters, at most 255 are allowed"),
    ],
)
def test_a_wrong_pattern_is_named(pattern: str, why: str) -> None:
    """As a mistake of the sender's."""
    with pytest.raises(errors.InvalidInput, match=f"^name .*{why}"):
        name_pattern.compiled(pattern, "name")
