# SPDX-License-Identifier: Apache-2.0
"""The examples of the manual are what the product prints: ``python -m tests.manual --write`` renews them."""

from __future__ import annotations

import pytest

from tests.manual import __main__ as manual
from tests.manual import normal, page

#: Of make test; the other pages take nine times as long.
FIRST = "first-hour.md"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == FIRST else pytest.mark.long) for name in page.pages()]
)
def test_the_examples_of_a_page(name: str) -> None:
    """Each command prints what the page shows, but for uuids, times and durations."""
    found = manual.differences(name)
    assert not found, "\n".join(found)


def test_pages_have_examples() -> None:
    """A road through the product, and how a refusal is explained."""
    assert {"explain.md", FIRST} <= set(page.pages())


def test_a_different_number_is_a_difference() -> None:
    """Only what cannot be the same in two runs is taken out."""
    shown = "| host1 | up | 1/16 | after 0.6 s | 6cf5eb66-0d5a-43e1-893c-b16f1ee78d7e |"
    again = "| host1  | up | 1/16 | after 12 s | 69521897-ec3c-4fb5-b87b-8e4ef57b1660 |"
    assert normal.normal(shown) == normal.normal(again)
    assert normal.normal(shown) != normal.normal(again.replace("1/16", "2/16"))
