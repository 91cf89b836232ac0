# SPDX-License-Identifier: Apache-2.0
"""A cached evaluation gives the same decision as a new one, whatever has changed between two requests."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import hypothesis
import numpy
import pytest
from hypothesis import strategies as st

from fleet import errors
from fleet.objects import RequestSpec
from fleet.objects.flavor_mix import Counts, FlavorMix, Shape
from fleet.objects.guest_cpu import GuestCpu
from scheduler.compute import filters, weights
from scheduler.compute.domain.request_key import request_key
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine import evaluation
from scheduler.engine.decide import decide
from scheduler.engine.decision import Decision
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.pipeline import Pipeline, prepare
from scheduler.engine.plugins import is_cacheable
from scheduler.engine.request_cache import RequestCache
from scheduler.state.hints import AggregateHint
from tests import factories
from tests.clock import FakeClock
from tests.unit.scheduler import plugins


@pytest.fixture(autouse=True)
def always_followed() -> Iterator[None]:
    """Follow changes of the few hosts of a test too, however many of them have changed."""
    with mock.patch.object(evaluation, "WORTH_FOLLOWING", 0), mock.patch.object(evaluation, "_COST_OF_ONE", 0):
        yield


class Once(filters.BaseHostFilter):
    """In nova's form, so that nothing is cached."""

    def host_passes(self, host_state: Any, filter_properties: dict[str, Any]) -> bool:
        return bool(host_state.num_instances < 6)


#: Options that make a plugin judge: the defaults of some let every host pass.
OPTIONS: dict[str, Any] = {
    "max_io_ops_per_host": 3,
    "max_instances_per_host": 5,
    "isolated_images": ["i1"],
    "isolated_hosts": ["h1"],
    "cpu_weight_multiplier": -1.5,
    "io_ops_weight_multiplier": -1.0,
    "num_instances_weight_multiplier": 0.5,
    "image_props_weight_multiplier": 1.5,
    "hypervisor_version_weight_multiplier": 1.0,
    "alignment_weight_multiplier": 1.0,
}
MIX = FlavorMix(1, counts={Shape(1, 512): Counts(30), Shape(4, 1024): Counts(10)})
GROUPS: dict[tuple[str, str], Any] = {
    ("metrics", "weight_setting"): ["cpu.percent=1.5"],
    ("metrics", "required"): False,
}
#: TrustedFilter asks a service, and is not cacheable.
FILTERS = [each for each in filters.all_filters() if each is not filters.TrustedFilter]
WEIGHERS = weights.all_weighers()
#: Of one request after the other: hosts that it names or leaves out. Few are asked about alone.
RESTRICTIONS: list[dict[str, Any]] = [
    {},
    {"ignore_hosts": ("h0", "H2")},
    {"ignore_nodes": (("h1", "h1"),)},
    {"within_hosts": ("h0", "h1", "h3")},
    {"requested_hosts": ("h3",)},
    {"guest_cpu": GuestCpu("intel")},
    {"force_hosts": ("h1", "h2")},
    {"guest_cpu": GuestCpu("amd"), "ignore_hosts": ("h0",)},
]
ALWAYS = (filters.ComputeFilter, filters.RamFilter, filters.NumInstancesFilter)
HOSTS = [f"h{number}" for number in range(6)]

_amount = st.integers(0, 10)
_KINDS = ("node", "gone", "metadata", "silent", "heard", "instance", "hint", "ask", "ask")
_change = st.tuples(st.sampled_from(_KINDS), st.sampled_from(HOSTS), _amount)


def node(host: str, amount: int, **columns: Any) -> factories.Node:
    vcpus = 8 + 8 * (amount % 3)
    made = factories.node(host, memory_mb=10240, memory_mb_used=1024 * amount, vcpus=vcpus, vcpus_used=amount % 9)
    columns = {
        "running_vms": amount,
        "io_workload": amount % 5,
        "failed_builds": amount // 8,
        "hypervisor_version": 6000000 + amount % 3,
        "supported_instances": [["x86_64", "kvm" if amount % 2 else "qemu", "hvm"]],
        "cpu_info": '{"vendor": "%s"}' % ("intel" if amount % 3 else "amd"),
        "metrics": [{"name": "cpu.percent", "value": amount / 2}] if amount % 4 else None,
        "pci_stats": [{"vendor_id": "8086", "product_id": "1", "count": amount % 3}] if amount % 3 else None,
        **columns,
    }
    return dataclasses.replace(made, **columns)


def request(amount: int, count: int) -> RequestSpec:
    """Requests that differ in what plugins read, and some that are equal."""
    specs = [{}, {"capabilities:cpu_info:vendor": "intel"}, {"aggregate_instance_extra_specs:ssd": "true"}]
    images = [None, {"id": "i1", "properties": {"hypervisor_type": "kvm"}}, {"id": "i2", "properties": {"os": "bsd"}}]
    policies = {9: ["anti-affinity"], 8: ["soft-affinity"], 7: ["affinity"], 6: ["soft-anti-affinity"]}.get(amount, [])
    sizes = {"memory_mb": 1024 * (1 + amount % 3), "vcpus": 1 + amount % 2, "name": f"f{amount % 2}", "id": amount % 2}
    instance = {"project_id": f"p{amount % 2}", "availability_zone": "z1" if amount % 5 == 4 else None}
    if amount == 5:
        instance["pci_requests"] = [{"count": 1, "spec": [{"vendor_id": "8086"}]}]
    return factories.request(
        {**sizes, "extra_specs": specs[amount % 3]},
        instance,
        count,
        images[amount % 4 % 3],
        group_policies=policies,
        group_updated=bool(policies),
    )


class Feed:
    """Shows each change once."""

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
        elif what == "metadata":
            self.next = factories.changes(
                generation=self.generation, services=[], aggregates=[factories.aggregate([host], **metadata(amount))]
            )
        elif what == "instance":
            there = factories.PlacedInstance(
                factories.uuid(7000 + amount),
                host,
                host,
                instance_type_id=amount % 2,
                deleted=amount > 7,
                image_properties={"os": "bsd"},
            )
            self.next = factories.changes(generation=self.generation, services=[], instances=[there])
        elif what == "silent":
            self.clock.advance(15 * amount)
        elif what == "heard":
            beats = [(each, self.clock()) for each in HOSTS if each != host]
            self.next = factories.changes(generation=self.generation, services=[], heartbeats=beats)

    def _changes(self, nodes: list[factories.Node]) -> Any:
        services = [factories.Service(each.host, last_seen_up=self.clock()) for each in nodes]
        return factories.changes(nodes, getattr(self, "generation", 1), services=services)


def metadata(amount: int) -> dict[str, str]:
    found = {
        "ram_allocation_ratio": str(amount / 4),
        "max_io_ops_per_host": str(amount),
        "ssd": str(amount % 2 == 0).lower(),
    }
    if amount % 2:
        found |= {"ram_weight_multiplier": str(amount / 3), "availability_zone": "z1", "filter_tenant_id": "p1"}
    if amount % 3 == 0:
        found |= {"instance_type": "f1", "os": "bsd", "max_instances_per_host": str(amount)}
    return found


def told(made: Decision) -> tuple[Any, ...]:
    refused = made.refusal
    return (
        [(pick.key, pick.weight, pick.limits, [place.host for place in pick.alternates]) for pick in made.picks],
        made.considered,
        made.counts,
        refused and (refused.code, refused.sentence, refused.dropped),
    )


@pytest.mark.parametrize("each", [*FILTERS, *WEIGHERS], ids=lambda each: each.__name__)
@hypothesis.settings(max_examples=4, deadline=None)
@hypothesis.given(changes=st.lists(_change, min_size=6, max_size=25))
def test_cached_or_not_the_decision_is_the_same(each: type, changes: list[tuple[str, str, int]]) -> None:
    """For every filter and weigher, with the most common ones beside it."""
    _follow_and_compare(changes, [*ALWAYS, *([each] if each in FILTERS else [])], [weights.RAMWeigher, each])


@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(changes=st.lists(_change, min_size=3, max_size=25), plugin=st.booleans())
def test_all_weighers_together(changes: list[tuple[str, str, int]], plugin: bool) -> None:
    """With a filter in nova's form too, which makes every request a new one."""
    _follow_and_compare(changes, [*ALWAYS, *([Once] if plugin else [])], WEIGHERS)


@pytest.mark.parametrize("each", [weights.FragmentationWeigher, weights.AlignmentWeigher])
def test_the_unit_of_a_weigher_changes(each: type) -> None:
    """A host that comes changes the means of all, so that hosts that have not changed weigh something else."""
    feed = Feed()
    sizes = [(8, 0, 2), (8, 5, 9), (8, 3, 5), (8, 6, 8)]
    feed.next = feed._changes(
        [
            factories.node(host, vcpus=vcpus, vcpus_used=used, memory_mb=10240, memory_mb_used=10240 - free * 1024)
            for host, (vcpus, used, free) in zip(HOSTS, sizes, strict=False)
        ]
    )
    manager = HostManager(feed, feed, clock=feed.clock)
    manager.refresh()
    pipeline, cache = factories.pipeline([], [made(each), weights.RAMWeigher()], alternates=3), RequestCache()

    def weights_of(kept: RequestCache) -> list[float]:
        prepared, chance = prepare(pipeline, request(1, 1)), random.Random(1)
        found = manager.consider(lambda hosts, _state: decide(pipeline, prepared, hosts, chance, best=5, cache=kept))
        return [each["weight"] for each in found.scores]

    before = weights_of(cache)
    feed.generation += 1
    feed.next = feed._changes([factories.node("large", vcpus=8000, memory_mb=100)])
    manager.refresh()
    after = weights_of(cache)
    assert weights_of(RequestCache()) == after != before


def test_an_instance_that_takes_less_than_its_flavor() -> None:
    """A request of the same flavor whose instance takes other amounts is another request: weighers read the amounts."""
    rooms = [(2, 9), (5, 2), (7, 7)]
    hosts = factories.candidates(
        *(
            factories.node(host, vcpus=8, vcpus_used=8 - cores, memory_mb=10240, memory_mb_used=10240 - 1024 * room)
            for host, (cores, room) in zip(HOSTS, rooms, strict=False)
        )
    )
    pipeline, cache = factories.pipeline([], [made(weights.AlignmentWeigher)]), RequestCache()

    def host_of(instance: dict[str, int], kept: RequestCache) -> str:
        asked = factories.request({"vcpus": 2, "memory_mb": 512}, instance)
        return decide(pipeline, prepare(pipeline, asked), hosts, random.Random(1), cache=kept).picks[0].key[0]

    other = {"vcpus": 1, "memory_mb": 8192}
    assert host_of({}, cache) != host_of(other, RequestCache()) == host_of(other, cache)


def test_a_metric_that_a_host_reports_no_longer() -> None:
    """The weigher refuses a request for want of a required metric at any multiplier, also after an equal request."""
    known = factories.cache(*[node(host, 1) for host in HOSTS])
    weigher = weights.MetricsWeigher([("cpu.percent", 1.0)], multiplier=0.0)
    pipeline, cached = factories.pipeline([], [weigher]), RequestCache()

    def placed(kept: RequestCache) -> int:
        hosts = known.candidates(factories.NOW_S)
        return len(decide(pipeline, prepare(pipeline, factories.request()), hosts, random.Random(1), cache=kept).picks)

    assert 1 == placed(cached)
    known.apply(factories.changes([node(HOSTS[2], 1, metrics=None)], generation=2))
    for kept in (cached, RequestCache()):
        with pytest.raises(errors.MetricNotFound):
            placed(kept)


@pytest.mark.parametrize("multiplier", [1.0, 0.0])
def test_a_host_that_a_filter_drops_is_not_weighed(multiplier: float) -> None:
    """A host without a required metric, which MetricsFilter drops, may change: that refuses no request."""
    known = factories.cache(*[node(host, 1, metrics=None) if host == HOSTS[2] else node(host, 1) for host in HOSTS])
    weigher = weights.MetricsWeigher([("cpu.percent", 1.0)], multiplier=multiplier)
    pipeline, cached = factories.pipeline([filters.MetricsFilter(["cpu.percent"])], [weigher]), RequestCache()
    for generation, used in ((2, 3), (3, 4)):
        hosts = known.candidates(factories.NOW_S)
        made = decide(pipeline, prepare(pipeline, factories.request()), hosts, random.Random(1), cache=cached)
        assert [(HOSTS[0], HOSTS[0])] == [pick.key for pick in made.picks]
        known.apply(factories.changes([node(HOSTS[2], used, metrics=None)], generation=generation))


def made(each: type) -> Any:
    if each is weights.FragmentationWeigher:
        return weights.FragmentationWeigher(1.0, MIX)
    conf = plugins.configuration(**OPTIONS)
    for (group, name), value in GROUPS.items():
        conf.set_override(name, value, group)
    return each.from_conf(conf)  # type: ignore[attr-defined]


def _pipeline(chosen: Sequence[type], weighers: Sequence[type]) -> Pipeline:
    ours = [each for each in weighers if each in WEIGHERS]
    return factories.pipeline([made(each) for each in chosen], [made(each) for each in ours], alternates=2)


def _follow_and_compare(changes: list[tuple[str, str, int]], chosen: Sequence[type], weighers: Sequence[type]) -> None:
    feed = Feed()
    manager = HostManager(feed, feed, clock=feed.clock)
    pipeline = _pipeline(chosen, weighers)
    cache = RequestCache()
    for number, (what, host, amount) in enumerate(changes):
        feed.change(what, host, amount)
        if what == "hint":
            hint = AggregateHint(1, "aggregate1", (host,), metadata(amount))
            manager.hint(lambda known, hint=hint: known.hint_aggregates([hint]))  # type: ignore[misc]
        manager.refresh()
        asked = dataclasses.replace(request(amount, 1 + number % 3), **RESTRICTIONS[number % len(RESTRICTIONS)])
        # Uuids of its own for each request: asking again for the same instance would void its former booking.
        uuids = tuple(factories.uuid(9000 + 10 * number + place) for place in range(asked.num_instances))
        asked = dataclasses.replace(asked, instance_uuids=uuids)
        answers: list[tuple[Any, ...]] = []

        def both(hosts: Candidates, asked: RequestSpec = asked, answers: list[Any] = answers, **_: Any) -> Decision:
            found = decide(pipeline, prepare(pipeline, asked), hosts, random.Random(1), cache=cache)
            answers.append(told(found))
            return found

        manager.consider(
            lambda hosts, _state, asked=asked, answers=answers: answers.append(  # type: ignore[misc]
                told(decide(pipeline, prepare(pipeline, asked), hosts, random.Random(1)))
            )
        )
        manager.decide(both, asked.instance_uuids)
        assert answers[0] == answers[1]


class Counting(filters.RamFilter):
    """Counts the hosts that it is asked about."""

    cacheable = True

    def __init__(self) -> None:
        self.asked: list[int] = []

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        self.asked.append(len(hosts))
        return super().mask(hosts, request)


class Unstated(Counting):
    """A column filter that does not set ``cacheable``."""

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        return super().mask(hosts, request)


@pytest.mark.parametrize(
    ("each", "expected"),
    [(Counting(), [20, 1]), (Unstated(), [20, 20, 20])],
    ids=["cacheable: only the changed host", "another mask than the stated one: every host"],
)
def test_only_changed_hosts_are_asked_about_again(each: Counting, expected: list[int]) -> None:
    """Three equal requests, and one of twenty hosts changed before the third."""
    cache = factories.cache(*[node(f"n{number}", 0) for number in range(20)])
    pipeline, cached = factories.pipeline([each]), RequestCache()
    for number in range(3):
        if number == 2:
            cache.apply(factories.changes([node("n7", 3)], generation=2))
        hosts = cache.candidates(factories.NOW_S)
        decide(pipeline, prepare(pipeline, factories.request()), hosts, random.Random(1), cache=cached)
    assert expected == each.asked


def test_a_filter_that_lets_few_hosts_pass_is_asked_about_the_others() -> None:
    """A request leaves two of twenty hosts, which all pass; the next request with the same key leaves others."""

    class Even(Counting):
        cacheable = True

        def mask(self, hosts: Candidates, request: RequestSpec) -> Any:
            self.asked.append(len(hosts))
            mask = hosts.column("vcpus_used") % 2 == 0
            return None if mask.all() else mask

    each = Even()
    hosts = factories.candidates(*[factories.node(f"n{number:02}", vcpus_used=number) for number in range(20)])
    pipeline, cached, picked = factories.pipeline([each]), RequestCache(), []
    for ignored in ({number for number in range(20) if number not in (0, 2)}, {0}):
        asked = factories.request(ignore_hosts=[f"n{number:02}" for number in ignored])
        made = decide(pipeline, prepare(pipeline, asked), hosts, random.Random(1), cache=cached)
        picked += [pick.key[0] for pick in made.picks]
    assert (["n00", "n02"], [2, 19]) == (picked, each.asked)


def test_instances_of_a_request_are_judged_together() -> None:
    """A filter judges thirty hosts with one more instance at once, not one host per instance."""
    each = Counting()
    hosts = factories.candidates(*[node(f"n{number}", number % 7) for number in range(60)])
    pipeline = factories.pipeline([each], [weights.RAMWeigher()])
    made = decide(pipeline, prepare(pipeline, factories.request(count=20)), hosts, random.Random(1))
    assert made.complete
    assert len(each.asked) < 8


def test_a_failed_plugin_leaves_nothing_behind() -> None:
    """What was being found out when a filter failed is not taken for known by the next request."""

    class Fails(filters.RamFilter):
        fails = True
        cacheable = True

        def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
            if self.fails:
                raise ValueError("no")
            return super().mask(hosts, request)

    each, cache = Fails(), RequestCache()
    hosts = factories.candidates(node("a", 0))
    pipeline = factories.pipeline([each])
    with pytest.raises(Exception, match="no"):
        decide(pipeline, prepare(pipeline, factories.request()), hosts, random.Random(1), cache=cache)
    assert 0 == len(cache)
    each.fails = False
    again = prepare(pipeline, factories.request())
    assert decide(pipeline, again, hosts, random.Random(1), cache=cache).complete


def test_few_evaluations_are_kept_of_many() -> None:
    """What is remembered has a bound, and the oldest goes first."""
    hosts = factories.candidates(*[node(f"n{number}", 0) for number in range(9)])
    pipeline, cache = factories.pipeline([filters.RamFilter()], [weights.RAMWeigher()]), RequestCache()
    with mock.patch("scheduler.engine.request_cache.MOST_BYTES", 3 * 9 * 18):
        for size in (1, 2, 3, 4, 5):
            asked = prepare(pipeline, factories.request({"memory_mb": size}))
            decide(pipeline, asked, hosts, random.Random(1), cache=cache)
    assert 3 == len(cache)


def test_the_default_pipeline_is_cached() -> None:
    """A plain request has a key under the default filters and weighers; one in a server group has none."""
    from tests.bench.decision import default_pipeline

    pipeline = default_pipeline()
    assert pipeline.cacheable
    assert prepare(pipeline, factories.request()).cache_key is not None
    assert prepare(pipeline, factories.request(group_policies=["affinity"])).cache_key is None


def test_a_user_s_plugin_states_whether_it_is_cacheable() -> None:
    """Built-in plugins are cacheable by default; a user's class only if it sets ``cacheable`` itself."""

    class Mine(filters.ColumnFilter):
        def mask(self, hosts: Candidates, request: RequestSpec) -> None:
            return None

    class Stated(Mine):
        cacheable = True

    assert [True, False, True] == [is_cacheable(each) for each in (filters.RamFilter(), Mine(), Stated())]


@pytest.mark.parametrize(
    "properties",
    [
        {"scheduler_hints": {"same_host": [factories.uuid(1)]}},
        {"group_hosts": ["h1"]},
        {"retry": {"num_attempts": 2, "hosts": [["h1", "h1"]]}},
    ],
    ids=["a hint", "a group", "a failed attempt"],
)
def test_what_depends_on_other_instances_has_no_key(properties: dict[str, Any]) -> None:
    """Another host's row may change the answer, so nothing is cached."""
    assert request_key(factories.request(**properties)) is None


def test_a_text_and_a_boolean_of_an_image_are_not_alike() -> None:
    """A filter may pass one and drop the other: the cache must not return the answer for one to the other."""
    keys = {
        request_key(factories.request(image={"id": "i", "properties": {"secure": each}})) for each in (False, "False")
    }
    assert 2 == len(keys)
