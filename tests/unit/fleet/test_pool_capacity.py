# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of storage pools, with cinder's verified figures."""

from __future__ import annotations

import pytest

from fleet.pool_capacity import Space, asks_for_thin

# total, free, provisioned, thin pool, ratio, reserved %, thin request -> virtual free, provisioned ratio, free percent
FACTORS = [
    ("thin: (500 - 50) × 2 - 400", 500, 100, 400, True, "2.0", 10, True, 500.0, 0.44, 55.56),
    ("thin: free space does not count", 500, 100, 600, True, "2.0", 10, True, 300.0, 0.67, 33.33),
    ("a pool without thin support: 450 - 400", 500, 100, 400, False, "2.0", 10, True, 50.0, 0.89, 11.11),
    ("a thick request on a thin pool", 500, 100, 400, True, "2.0", 10, False, 50.0, 0.89, 11.11),
    ("more is free than may be used", 500, 480, 400, False, "1.0", 10, True, 50.0, 0.89, 11.11),
    ("an empty pool of size 0", 0, 0, 0, True, "2", 0, True, 0.0, 0, 0),
    ("each is rounded by itself: 4.7 / 7.006, and not 4.7 / 7.01", 7.006, 4.7, 0, False, "1", 0, True, 4.7, 0.0, 67.09),
    ("2.302 / 7.006 of a small pool, and not 2.3 / 7.01", 7.006, 4.704, 2.302, False, "1", 0, True, 4.7, 0.33, 67.14),
    ("the reserve is whole GiB: (105 - 5) × 1.5", 105, 50, 0, True, "1.5", 5, True, 150.0, 0.0, 100.0),
]


@pytest.mark.parametrize("case", FACTORS, ids=[case[0] for case in FACTORS])
def test_factors(case: tuple) -> None:
    """Virtual free space, the provisioned ratio and the free percentage are cinder's."""
    _name, total, free, provisioned, thin, ratio, reserved, thin_request, *expected = case
    factors = Space(total, free, provisioned, reserved, thin, ratio).factors(thin_request)
    assert expected == [factors.virtual_free_gb, factors.provisioned_ratio, factors.free_percent]


RATIOS = [
    ("automatic: 1 + 200 / (100 - 40 + 1)", Space(100, 40, 200, thin=True, ratio="auto"), 4.278688524590164),
    ("automatic, and nothing is provisioned", Space(100, 40, 0, thin=True, ratio="auto"), 20.0),
    ("automatic, and nothing is used", Space(100, 100, 200, thin=True, ratio="auto"), 20.0),
    ("automatic, and more is free than there is", Space(100, 101, 200, thin=True, ratio="auto"), 20.0),
    ("automatic, and far more is free than there is", Space(100, 160, 200, thin=True, ratio="auto"), 20.0),
    ("none is reported", Space(100, 40, thin=True), 20.0),
    ("the size is unknown", Space(None, 40, thin=True, ratio="5"), 1.0),
    ("no thin support", Space(100, 40, ratio="5"), 1.0),
]


@pytest.mark.parametrize(("_name", "space", "expected"), RATIOS, ids=[case[0] for case in RATIOS])
def test_over_subscription(_name: str, space: Space, expected: float) -> None:
    """The ratio that applies to a pool."""
    assert expected == space.over_subscription


_THIN = Space(500, 100, 400, thin=True, ratio="2.0")
FITS = [
    ("500 × 2 - 400 are left", _THIN, 600, True, 0),
    ("one more than that", _THIN, 601, True, 1),
    ("a thick request needs physical space", _THIN, 101, False, 1),
    ("no growth", Space(500, None, 400), 0, True, 0),
    ("free space is not limited", Space(None, None), 10_000, True, 0),
    ("an infinite pool without a reserve", Space(None, 10), 50, True, 0),
    ("an infinite pool that keeps a reserve has none", Space(None, 10, reserved_percentage=5), 50, True, 50),
    ("a pool of size 0", Space(0, 10), 5, True, 5),
    ("everything is reserved", Space(100, 100, reserved_percentage=100, thin=True), 1, True, 1),
    ("a ratio below 1 is refused for thin requests", Space(500, 100, 0, thin=True, ratio="0.5"), 1, True, 1),
    ("and not used for thick ones", Space(500, 100, 400, thin=True, ratio="0.5"), 1, False, 0),
    ("overcommitted by thin volumes", Space(500, 300, 600), 1, True, 101),
]


@pytest.mark.parametrize(("_name", "space", "size_gb", "thin", "expected"), FITS, ids=[case[0] for case in FITS])
def test_what_a_pool_lacks(_name: str, space: Space, size_gb: int, thin: bool, expected: float) -> None:
    """A request fits if the pool lacks nothing; otherwise the refusal says how much."""
    assert expected == space.lacks_gb(size_gb, thin)


def test_the_type_decides_between_thin_and_thick() -> None:
    """Any value but ``thick`` allows thin provisioning."""
    assert [True, True, False] == [
        asks_for_thin(specs) for specs in (None, {"provisioning:type": "thin"}, {"provisioning:type": "thick"})
    ]
