# SPDX-License-Identifier: Apache-2.0
"""Normalisation, and the head of a ranking."""

from __future__ import annotations

import numpy
import pytest

from scheduler.compute import weights
from scheduler.engine.decide import best_rows
from scheduler.engine.weighing import normalise
from tests import factories


@pytest.mark.parametrize(
    ("name", "raw", "minval", "maxval", "expected"),
    [
        ("over the range of the hosts", [2, 4, 6], None, None, [0.0, 0.5, 1.0]),
        ("no spread", [3, 3], None, None, [0.0, 0.0]),
        ("from a fixed lower bound", [5, 10], 0, None, [0.5, 1.0]),
        ("below the bound counts as the bound", [-5, 10], 0, None, [0.0, 1.0]),
        ("up to a fixed upper bound", [0, 5, 20], None, 10, [0.0, 0.5, 1.0]),
        ("all below the lower bound", [-5, -1], 0, None, [0.0, 0.0]),
    ],
)
def test_normalise(name, raw, minval, maxval, expected):
    """Raw weights come to lie in 0..1."""
    column = numpy.array(raw, dtype=float)
    low, high = normalise.bounds(normalise.observed(column), minval, maxval)
    raw = normalise.clamped(column, low, high)
    normal = normalise.contribution(raw, low, high, 1.0) if low != high else numpy.zeros(len(raw))
    assert expected == normal.tolist(), name


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [1]), (2, [1, 3]), (3, [1, 3, 0]), (4, [1, 3, 0, 2]), (9, [1, 3, 0, 2, 4])]
)
def test_best(count, expected):
    """The best hosts first, and equal ones in their order, for any number requested."""
    given = [1.0, 5.0, 1.0, 5.0, 0.0]
    array = numpy.array(given)
    assert expected == best_rows(array, count).tolist()
    assert given == array.tolist()


@pytest.mark.parametrize(
    ("weigher", "expected"),
    [
        (weights.RAMWeigher, [4096.0, -100.0]),
        (weights.DiskWeigher, [10240.0, 1024.0]),
        (weights.CPUWeigher, [6.0, 0.0]),  # 4 * 2 - 2; (4 - 1) * 1 + 1 - 4
        (weights.IoOpsWeigher, [0.0, 3.0]),
    ],
)
def test_raw_weights(weigher, expected):
    """What each built-in weigher makes of an empty and of a crowded host."""
    hosts = factories.candidates(
        factories.node("empty", memory_mb=4096, local_gb=10, vcpus=4, vcpus_used=2, cpu_allocation_ratio=2.0),
        factories.node(
            "full", free_ram_mb=-100, free_disk_gb=1, vcpus=4, vcpus_used=4, reserved_vcpus=1, io_workload=3
        ),
    )
    assert expected == weigher().raw(hosts, factories.request()).tolist()
