# SPDX-License-Identifier: Apache-2.0
"""The one arithmetic, with numbers that can be checked by hand."""

from __future__ import annotations

import numpy
import pytest

from fleet import capacity

LIMITS = [
    ("nothing reserved: nova's total × ratio", 1000, 0, 1.5, 1500.0),
    ("no overcommit", 1000, 100, 1.0, 1000.0),
    ("the ratio stretches what instances can have: 900 × 1.5 + 100", 1000, 100, 1.5, 1450.0),
    ("undercommit: 900 × 0.5 + 100", 1000, 100, 0.5, 550.0),
]


@pytest.mark.parametrize(("what", "total", "reserved", "ratio", "expected"), LIMITS, ids=[case[0] for case in LIMITS])
def test_limit(what: str, total: int, reserved: int, ratio: float, expected: float) -> None:
    """Claims, that is the limit less what is reserved, are at most (total − reserved) × ratio."""
    found = capacity.limit(total, reserved, ratio)
    assert found == expected
    assert found - reserved == (total - reserved) * ratio


def test_columns_are_added_up_like_numbers() -> None:
    """A numpy column gives what its numbers give."""
    total, reserved, ratio = numpy.array([1000, 2000]), numpy.array([0, 100]), numpy.array([1.5, 2.0])
    assert capacity.limit(total, reserved, ratio).tolist() == [1500.0, 3900.0]


def test_disk_requested_and_held() -> None:
    """The filter looks for swap too; the claim holds root and ephemeral disk only."""
    assert capacity.requested_disk_mb(root_gb=10, ephemeral_gb=5, swap_mb=512) == 15 * 1024 + 512
    assert capacity.claimed_disk_gb(root_gb=10, ephemeral_gb=5) == 15


def test_what_is_left() -> None:
    """Both may be negative on a host that is over its limit."""
    assert capacity.free(1000, 1200) == -200
    assert capacity.usable(1500.0, 1600) == -100.0


AMOUNTS = [
    ("nothing", 0, "0"),
    ("a fraction", 47.75, "47.75"),
    ("digits that say nothing", 1 / 3, "0.333333"),
    ("whole, with the digits of a format", 999999, "999999"),
    ("the memory of a host with 1 TiB, in MB", 1048576, "1048576"),
    ("a MB more", 1048577.0, "1048577"),
    ("a fraction that is rounded up to a further digit", 999999.7, "1000000"),
    ("more than there is, in a fleet of 100,000 hosts", -25600000.0, "-25600000"),
    ("no limit", float("inf"), "inf"),
]


@pytest.mark.parametrize(("amount", "text"), [each[1:] for each in AMOUNTS], ids=[each[0] for each in AMOUNTS])
def test_an_amount_has_all_its_whole_digits(amount: float, text: str) -> None:
    assert text == capacity.shown(amount)


def test_an_amount_may_have_fewer_digits() -> None:
    assert ["12.346", "12346", "123457"] == [capacity.shown(each, digits=5) for each in (12.3456, 12345.6, 123456.7)]
