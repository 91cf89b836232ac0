# SPDX-License-Identifier: Apache-2.0
"""What is recalled of earlier requests is what would be found out anew."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import hypothesis
import numpy
import pytest
from hypothesis import strategies as st

from fleet.objects import RequestSpec
from scheduler import candidates, filtering, filters
from scheduler.candidates import Candidates
from scheduler.filters import ColumnFilter
from scheduler.host_cache import HostCache
from tests import factories


@pytest.fixture(autouse=True, scope="module")
def always_recalled() -> Iterator[None]:
    """Also of the few hosts of a test."""
    with mock.patch.object(candidates, "_WORTH_RECALLING", 0):
        yield


FILTERS = (
    filters.RamFilter(),
    filters.DiskFilter(),
    filters.CoreFilter(),
    filters.AggregateRamFilter(),
    filters.NumInstancesFilter(5),
    filters.AggregateIoOpsFilter(3),
)
HOSTS = [f"h{number}" for number in range(6)]

_amount = st.integers(0, 10)
_change = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(HOSTS), _amount),
    st.tuples(st.just("gone"), st.sampled_from(HOSTS), _amount),
    st.tuples(st.just("ratio"), st.sampled_from(HOSTS), _amount),
    st.tuples(st.just("ask"), st.sampled_from(HOSTS), _amount),
)


def node(host: str, amount: int, **columns: Any) -> factories.Node:
    made = factories.node(host, memory_mb=10240, memory_mb_used=1024 * amount, vcpus=8, vcpus_used=amount % 9)
    return dataclasses.replace(made, running_vms=amount, io_workload=amount % 5, **columns)


def apply(cache: HostCache, generation: int, what: str, host: str, amount: int) -> None:
    if what == "node":
        cache.apply(factories.changes([node(host, amount)], generation))
    elif what == "gone":
        cache.apply(factories.changes([node(host, amount, deleted=True)], generation, services=[]))
    elif what == "ratio":
        ratios = factories.aggregate([host], ram_allocation_ratio=str(amount / 4), max_io_ops_per_host=str(amount))
        cache.apply(factories.changes(generation=generation, services=[], aggregates=[ratios]))


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(st.lists(_change, min_size=3, max_size=25))
def test_recalled_masks_are_the_masks(changes: list[tuple[str, str, int]]) -> None:
    """However hosts and aggregates change between requests, each filter keeps just the hosts that it lets through."""
    cache = HostCache()
    cache.apply(factories.changes([node(host, 0) for host in HOSTS[:4]]))
    for number, (what, host, amount) in enumerate(changes):
        apply(cache, number + 2, what, host, amount)
        request = factories.request({"memory_mb": 1024 * (1 + amount % 3), "vcpus": 1 + amount % 2})
        hosts = cache.candidates(factories.NOW_S)
        round_ = filtering.run(FILTERS, hosts, hosts.present(), request, {})
        masks = [mask for each in round_.ran if (mask := each.mask(hosts, request)) is not None]
        assert functools.reduce(numpy.logical_and, masks, hosts.present()).tolist() == round_.alive.tolist()


class Counting(filters.RamFilter):
    """Counts the hosts that it is asked about."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        self.asked.append(len(hosts))
        return super().mask(hosts, request)

    def recall_key(self, request: RequestSpec) -> int:
        return request.flavor.memory_mb


class WithoutKey(Counting):
    """Has a mask of its own, and no say on what that depends on."""

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return super().mask(hosts, request)


@pytest.mark.parametrize(
    ("each", "expected"),
    [(Counting(), [20, 1]), (WithoutKey(), [20, 20, 20])],
    ids=["a key: only the changed host", "another mask than the key's: every host"],
)
def test_only_changed_hosts_are_asked_about_again(each: Counting, expected: list[int]) -> None:
    """Three requests of one shape, and one of twenty hosts changed before the third."""
    cache = HostCache()
    cache.apply(factories.changes([node(f"n{number}", 0) for number in range(20)]))
    for number in range(3):
        if number == 2:
            cache.apply(factories.changes([node("n7", 3)], generation=2))
        hosts = cache.candidates(factories.NOW_S)
        filtering.run([each], hosts, hosts.present(), factories.request(), {})
    assert expected == each.asked


def test_every_key_speaks_for_its_own_mask() -> None:
    """No built-in filter inherits a key that its mask has outgrown."""
    with_key = [
        each for each in filters.all_filters() if each.recall_key is not ColumnFilter.__dict__.get("recall_key")
    ]
    assert with_key
    for each in with_key:
        if issubclass(each, ColumnFilter) and each.recall_key is not ColumnFilter.recall_key:
            assert filters.recalls(each.__new__(each)), each.__name__
