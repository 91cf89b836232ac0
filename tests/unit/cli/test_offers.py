# SPDX-License-Identifier: Apache-2.0
"""The functions that services offer to commands."""

from __future__ import annotations

import pytest

from fleet.client import offers
from fleet.client.calls import CommandFailed
from fleet.objects import survival


def test_the_function_of_a_name() -> None:
    assert callable(offers.load(survival.ENTRY_POINTS, survival.REPORT))


@pytest.mark.parametrize(
    ("asked", "named"),
    [(("fleet.objects.none",), "fleet.objects.none"), ((survival.ENTRY_POINTS, "none"), "fleet.objects.survival none")],
)
def test_what_no_service_offers_is_named(asked: tuple[str, ...], named: str) -> None:
    with pytest.raises(CommandFailed, match=f"offers {named}: install the package fleet again"):
        offers.load(*asked)


def test_one_of_several_is_not_chosen_by_chance() -> None:
    with pytest.raises(CommandFailed, match="2 packages offer fleet.objects.survival"):
        offers.load(survival.ENTRY_POINTS)
