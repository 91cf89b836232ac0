# SPDX-License-Identifier: Apache-2.0
"""What is remembered of earlier requests is what would be found out anew."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

import hypothesis
import numpy
import pytest
from hypothesis import strategies as st

from fleet.objects import RequestSpec
from scheduler import filters, weights
from scheduler.engine import standing
from scheduler.engine.candidates import Candidates
from scheduler.engine.decision import Decision, decide
from scheduler.engine.pipeline import prepare
from scheduler.engine.request_cache import Shapes, shape_of
from scheduler.filters import ColumnFilter
from scheduler.host_manager import HostManager
from scheduler.weights import ColumnWeigher
from tests import factories
from tests.clock import FakeClock


@pytest.fixture(autouse=True)
def always_followed() -> Iterator[None]:
    """Also of the few hosts of a test, and however many of them have changed."""
    with mock.patch.object(standing, "WORTH_FOLLOWING", 0), mock.patch.object(standing, "_MOST_CHANGED", 1.0):
        yield


class Once(filters.BaseHostFilter):
    """In nova's form, so that nothing is remembered of a request."""

    def host_passes(self, host_state: Any, filter_properties: dict[str, Any]) -> bool:
        return bool(host_state.num_instances < 6)


FILTERS = (
    filters.ComputeFilter(),
    filters.RetryFilter(),
    filters.RamFilter(),
    filters.DiskFilter(),
    filters.CoreFilter(),
    filters.AggregateRamFilter(),
    filters.ServerGroupAntiAffinityFilter(),
    filters.NumInstancesFilter(5),
    filters.AggregateIoOpsFilter(3),
)
WEIGHERS = (
    weights.RAMWeigher(),
    weights.CPUWeigher(-1.5),
    weights.IoOpsWeigher(-1.0),
    weights.NumInstancesWeigher(0.5),
    weights.BuildFailureWeigher(100.0),
    weights.ServerGroupSoftAffinityWeigher(2.0),
)
HOSTS = [f"h{number}" for number in range(6)]

_amount = st.integers(0, 10)
_change = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(HOSTS), _amount),
    st.tuples(st.just("gone"), st.sampled_from(HOSTS), _amount),
    st.tuples(st.just("ratio"), st.sampled_from(HOSTS), _amount),
    st.tuples(st.just("silent"), st.sampled_from(HOSTS), _amount),
    st.tuples(st.just("heard"), st.sampled_from(HOSTS), _amount),
    st.tuples(st.just("ask"), st.sampled_from(HOSTS), _amount),
)


def node(host: str, amount: int, **columns: Any) -> factories.Node:
    made = factories.node(host, memory_mb=10240, memory_mb_used=1024 * amount, vcpus=8, vcpus_used=amount % 9)
    columns = {"running_vms": amount, "io_workload": amount % 5, "failed_builds": amount // 8, **columns}
    return dataclasses.replace(made, **columns)


class Feed:
    """Tells of each change once."""

    def __init__(self) -> None:
        self.clock = FakeClock(factories.NOW)
        self.next = self._changes([node(host, 0) for host in HOSTS[:4]])
        self.generation = 1

    def read(self, since: int) -> Any:
        told, self.next = self.next, factories.changes(generation=self.generation, services=[])
        return told

    def change(self, what: str, host: str, amount: int) -> None:
        self.generation += 1
        if what == "node":
            self.next = self._changes([node(host, amount)])
        elif what == "gone":
            self.next = factories.changes([node(host, amount, deleted=True)], self.generation, services=[])
        elif what == "ratio":
            metadata = {"ram_allocation_ratio": str(amount / 4), "max_io_ops_per_host": str(amount)}
            if amount % 2:
                metadata["ram_weight_multiplier"] = str(amount / 3)
            ratios = factories.aggregate([host], **metadata)
            self.next = factories.changes(generation=self.generation, services=[], aggregates=[ratios])
        elif what == "silent":
            self.clock.advance(15 * amount)
        elif what == "heard":
            beats = [(each, self.clock()) for each in HOSTS if each != host]
            self.next = factories.changes(generation=self.generation, services=[], heartbeats=beats)

    def _changes(self, nodes: list[factories.Node]) -> Any:
        services = [factories.Service(each.host, last_seen_up=self.clock()) for each in nodes]
        return factories.changes(nodes, getattr(self, "generation", 1), services=services)


def told(made: Decision) -> tuple[Any, ...]:
    refused = made.refusal
    return (
        [(pick.key, pick.weight, pick.limits, [place.host for place in pick.alternates]) for pick in made.picks],
        made.considered,
        made.counts,
        refused and (refused.code, refused.sentence, refused.dropped),
    )


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    changes=st.lists(_change, min_size=3, max_size=25), plugin=st.booleans(), few=st.sampled_from([0, 2, standing.FEW])
)
def test_remembered_or_not_the_decision_is_the_same(
    changes: list[tuple[str, str, int]], plugin: bool, few: int
) -> None:
    """However hosts, aggregates and time move between requests: hosts, weights, limits, alternates, counts, reasons."""
    with mock.patch.object(standing, "FEW", few):
        _follow_and_compare(changes, plugin)


def _follow_and_compare(changes: list[tuple[str, str, int]], plugin: bool) -> None:
    feed = Feed()
    manager = HostManager(feed, feed, clock=feed.clock)
    chosen = [*FILTERS, Once()] if plugin else list(FILTERS)
    pipeline = factories.pipeline(chosen, WEIGHERS, alternates=2)
    shapes = Shapes()
    for number, (what, host, amount) in enumerate(changes):
        feed.change(what, host, amount)
        manager.refresh()
        policies = ["anti-affinity"] if amount == 9 else ["soft-affinity"] if amount == 8 else []
        sizes = {"memory_mb": 1024 * (1 + amount % 3), "vcpus": 1 + amount % 2}
        asked = factories.request(sizes, count=1 + number % 3, group_policies=policies, group_updated=bool(policies))
        # A name of its own each time: asking again for the same instance would void its former booking.
        uuids = tuple(factories.uuid(9000 + 10 * number + place) for place in range(asked.num_instances))
        asked = dataclasses.replace(asked, instance_uuids=uuids)
        answers: list[tuple[Any, ...]] = []

        def both(hosts: Candidates, asked: RequestSpec = asked, answers: list[Any] = answers, **_: Any) -> Decision:
            made = decide(prepare(pipeline, asked), hosts, random.Random(1), shapes=shapes)
            answers.append(told(made))
            return made

        manager.consider(
            lambda hosts, _state, asked=asked, answers=answers: answers.append(  # type: ignore[misc]
                told(decide(prepare(pipeline, asked), hosts, random.Random(1)))
            )
        )
        manager.decide(both, asked.instance_uuids)
        assert answers[0] == answers[1]


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
    cache = factories.cache(*[node(f"n{number}", 0) for number in range(20)])
    pipeline, shapes = factories.pipeline([each]), Shapes()
    for number in range(3):
        if number == 2:
            cache.apply(factories.changes([node("n7", 3)], generation=2))
        decide(
            prepare(pipeline, factories.request()), cache.candidates(factories.NOW_S), random.Random(1), shapes=shapes
        )
    assert expected == each.asked


def test_instances_of_a_request_are_foreseen_together() -> None:
    """A filter is asked about thirty hosts at once what they are with an instance more, not once per instance."""
    each = Counting()
    hosts = factories.candidates(*[node(f"n{number}", number % 7) for number in range(60)])
    pipeline = factories.pipeline([each], [weights.RAMWeigher()])
    made = decide(prepare(pipeline, factories.request(count=20)), hosts, random.Random(1))
    assert made.complete
    assert len(each.asked) < 8


def test_a_failed_plugin_leaves_nothing_behind() -> None:
    """What was being found out when a filter failed is not taken for known by the next request."""

    class Fails(filters.RamFilter):
        fails = True

        def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
            if self.fails:
                raise ValueError("no")
            return super().mask(hosts, request)

        def recall_key(self, request: RequestSpec) -> int:
            return request.flavor.memory_mb

    each, shapes = Fails(), Shapes()
    hosts = factories.candidates(node("a", 0))
    with pytest.raises(Exception, match="no"):
        decide(prepare(factories.pipeline([each]), factories.request()), hosts, random.Random(1), shapes=shapes)
    assert 0 == len(shapes)
    each.fails = False
    again = prepare(factories.pipeline([each]), factories.request())
    assert decide(again, hosts, random.Random(1), shapes=shapes).complete


def test_few_shapes_are_kept_of_many() -> None:
    """What is remembered has a bound, and the oldest goes first."""
    hosts = factories.candidates(*[node(f"n{number}", 0) for number in range(9)])
    pipeline, shapes = factories.pipeline([filters.RamFilter()], [weights.RAMWeigher()]), Shapes()
    with mock.patch("scheduler.engine.request_cache.MOST_BYTES", 3 * 9 * 18):
        for size in (1, 2, 3, 4, 5):
            decide(prepare(pipeline, factories.request({"memory_mb": size})), hosts, random.Random(1), shapes=shapes)
    assert 3 == len(shapes)


def test_every_key_speaks_for_its_own_answer() -> None:
    """No built-in filter or weigher inherits a key that its answer has outgrown."""
    for each in filters.all_filters():
        if issubclass(each, ColumnFilter) and each.recall_key is not ColumnFilter.recall_key:
            assert filters.recalls(each.__new__(each)), each.__name__
    for weigher in weights.all_weighers():
        if issubclass(weigher, ColumnWeigher) and weigher.recall_key is not ColumnWeigher.recall_key:
            assert weights.recalls(weigher.__new__(weigher)), weigher.__name__


def test_the_default_pipeline_recalls() -> None:
    """A plain request has a shape under the default filters and weighers; one in a server group has none."""
    from tests.bench.decision import default_pipeline

    pipeline = default_pipeline()
    asking = pipeline.watch.begin()
    assert shape_of(pipeline.recall_keys, factories.request(), asking) is not None
    assert shape_of(pipeline.recall_keys, factories.request(group_policies=["affinity"]), asking) is None
