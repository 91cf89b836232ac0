# SPDX-License-Identifier: Apache-2.0
"""The sums that are added up beforehand are those of counting shape by shape."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.compute.domain import worth_table
from scheduler.compute.domain.slots import UNLIMITED, Slots
from scheduler.compute.domain.worth_table import WorthTable

SHAPES = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from([0, 256, 512, 768, 2048]), st.integers(0, 40), st.integers(1, 2**20)),
    min_size=1,
    max_size=6,
)
HOSTS = st.lists(
    st.tuples(
        st.integers(-5, 50).map(float),
        st.floats(-1000.0, 20000.0, allow_nan=False),
        st.floats(-50.0, 600.0, allow_nan=False),
    ),
    min_size=1,
    max_size=20,
)


def _counted(free: float, size: int) -> int:
    return min(int(max(free, 0.0)) // size, UNLIMITED) if size else UNLIMITED


@given(SHAPES, HOSTS)
def test_sums_are_those_of_counting_shape_by_shape(
    shapes: list[tuple[int, int, int, int]], hosts: list[tuple[float, float, float]]
) -> None:
    *sizes, weights = (numpy.array(each) for each in zip(*shapes, strict=True))
    free = [numpy.array(each) for each in zip(*hosts, strict=True)]
    table = WorthTable(Slots(sizes[0].tolist(), 48.0), Slots(sizes[1].tolist(), 19_968.0), weights, sizes[2])

    found, enough = table.of(*free[:2])

    assert enough is not None
    for host, sum_of_host, enough_of_host in zip(hosts, found.tolist(), enough.tolist(), strict=True):
        within = min(host[0], 48.0), min(host[1], 19_968.0)
        fit = [min(map(_counted, within, shape[:2])) for shape in shapes]
        assert sum_of_host == sum(shape[3] * count for shape, count in zip(shapes, fit, strict=True))
        assert all(count * shape[2] <= enough_of_host for shape, count in zip(shapes, fit, strict=True))


def test_disk_is_not_asked_about_if_no_shape_takes_any() -> None:
    table = WorthTable(Slots([2], 8.0), Slots([512], 4096.0), numpy.array([3]), None)

    found, enough = table.of(numpy.array([8.0, 3.0]), numpy.array([1024.0, 4096.0]))

    assert found.tolist() == [6.0, 3.0]
    assert enough is None


@pytest.mark.parametrize(("most", "fits"), [(6, True), (5, False)])
def test_a_table_that_would_be_too_large_is_not_built(most: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worth_table, "_MOST_SUMS", most)

    assert WorthTable.fits(Slots([4], 11.0), Slots([1024], 1024.0)) is fits


def test_a_resource_of_too_many_steps_has_no_table() -> None:
    assert not WorthTable.fits(Slots([1], 8.0), Slots([1023, 1024], 1e6))
