# SPDX-License-Identifier: Apache-2.0
"""The flavor mix fades, and says what the fleet is asked for."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.objects.flavor_mix import MOST, Counts, FlavorMix, Shape

SMALL, LARGE = Shape(1, 1024), Shape(8, 16384, 40)
DAY_S = 86400.0


def test_counts_fade_by_half() -> None:
    """After one half-life a former request counts half, and new ones count whole."""
    mix = FlavorMix().with_more({SMALL: Counts(requests=8)}, 0.0, DAY_S)
    later = mix.with_more({LARGE: Counts(requests=4)}, DAY_S, DAY_S)
    assert (2, {SMALL: Counts(requests=4.0), LARGE: Counts(requests=4)}) == (later.version, dict(later.counts))
    assert {SMALL: 0.5, LARGE: 0.5} == later.request_shares() == later.shares()


def test_core_hours_count_once_lives_are_known() -> None:
    """1 core of 1 hour against 8 cores of 3 hours, for as many requests. The mean life is 2 hours.

    SMALL: 10 × 1 × (10 + 2) / 11; LARGE: 10 × 8 × (30 + 2) / 11.
    """
    counts = {SMALL: Counts(10, 10, 10.0), LARGE: Counts(10, 10, 30.0)}
    shares = FlavorMix(counts=counts).shares()
    assert pytest.approx(12 / (12 + 8 * 32)) == shares[SMALL]
    assert pytest.approx(1.0) == sum(shares.values())


def test_a_new_flavor_has_the_mean_life_of_all() -> None:
    """No instance of LARGE has ended yet."""
    shares = FlavorMix(counts={SMALL: Counts(8, 4, 8.0), LARGE: Counts(1, 0, 0.0)}).shares()
    assert pytest.approx({SMALL: 0.5, LARGE: 0.5}) == shares


def test_it_stays_small() -> None:
    """The rarest sizes are left out, and sizes whose last request is long ago."""
    many = {Shape(1, number): Counts(requests=number) for number in range(1, 2 * MOST)}
    mix = FlavorMix().with_more(many, 0.0)
    assert set(list(many)[-MOST:]) == set(mix.counts)
    assert {} == dict(mix.with_more({}, 1e9).counts)


def test_the_wire() -> None:
    """What is written can be read again; a size must be whole and positive."""
    mix = FlavorMix(3, 5.0, {LARGE: Counts(1.5, 0.5, 2.0), SMALL: Counts(1.0)})
    assert mix == FlavorMix.from_wire(mix.to_wire(), 3, 5.0)
    with pytest.raises(errors.InvalidInput, match="vcpus"):
        FlavorMix.from_wire([{"vcpus": 0, "memory_mb": 1, "requests": 1}])
