# SPDX-License-Identifier: Apache-2.0
"""The bound of the packing bench: no scheduler can place more core-hours."""

from __future__ import annotations

import pytest

from fleet.objects.whatif import Demand
from tests.bench import packing_bound

HOUR_S = 3600.0


def demand(at_h, hours, vcpus=1, memory_mb=1024):
    flavor = {"vcpus": vcpus, "memory_mb": memory_mb}
    lives = [None if each is None else each * HOUR_S for each in hours]
    return Demand({"instance_type": flavor}, {}, lives, at_h * HOUR_S)


#: Each with a last request after ten hours, which takes nothing of the time before it.
CASES = [
    ("room for both", [demand(0, [2, 2])], (2, 4096), 4),
    ("cores for one of two", [demand(0, [2, 2])], (1, 4096), 2),
    ("memory for one and a half", [demand(0, [2, 2])], (2, 1536), 3),
    ("one after the other", [demand(0, [2]), demand(2, [3])], (1, 1024), 5),
    ("the longer of two at a time", [demand(0, [2]), demand(1, [5])], (1, 1024), 5),
    ("an instance without an end counts until the last request", [demand(4, [None])], (1, 1024), 6),
]


@pytest.mark.parametrize(("name", "demands", "fleet", "expected"), CASES, ids=[case[0] for case in CASES])
def test_the_most_that_can_be_placed(name, demands, fleet, expected):
    """Hours are those of single cores."""
    assert pytest.approx(expected) == packing_bound.core_hours([*demands, demand(10, [1])], [fleet])


def test_cores_of_one_shape_do_not_use_memory_of_another() -> None:
    """Two cores without memory and memory without cores place nothing, but as one host they would."""
    asked = [demand(0, [2, 2]), demand(10, [1])]
    assert pytest.approx(0) == packing_bound.core_hours(asked, [(2, 0), (0, 4096)])
    assert pytest.approx(4) == packing_bound.core_hours(asked, [(2, 4096)])


def test_the_most_hosts_that_can_be_empty() -> None:
    """Of three hosts with two cores: two are needed for two of ten hours, by three cores; by memory none is more."""
    asked = [demand(0, [2, 2, 2]), demand(10, [1])]
    assert pytest.approx(3 - 2 * 2 / 10) == packing_bound.empty_hosts(asked, [(2, 4096)] * 3)
