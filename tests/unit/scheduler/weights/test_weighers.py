# SPDX-License-Identifier: Apache-2.0
"""Raw weights, multipliers, and the hosts that win."""

from __future__ import annotations

import random

import numpy
import pytest

from fleet import errors
from fleet.objects.flavor_mix import Counts, FlavorMix, Shape
from scheduler.compute import filters, weights
from scheduler.compute.domain import ratio_options
from scheduler.compute.drivers import loading
from scheduler.engine.decide import decide
from scheduler.engine.pipeline import prepare
from scheduler.engine.weighing import weighers
from tests import factories
from tests.factories import NOW_S, PlacedInstance, aggregate, node, request, uuid
from tests.unit.scheduler.judging import multipliers, raw
from tests.unit.scheduler.plugins import configuration

#: "more" has more of everything.
HOSTS = [
    node("less", memory_mb=1000, local_gb=10, vcpus=2, hypervisor_version=6000000),
    node(
        "more",
        memory_mb=2000,
        local_gb=20,
        vcpus=4,
        hypervisor_version=6000001,
        io_workload=2,
        running_vms=3,
        failed_builds=1,
    ),
]
SIMPLE = [
    (weights.RAMWeigher, {"less": 1000, "more": 2000}),
    (weights.DiskWeigher, {"less": 10240, "more": 20480}),
    (weights.CPUWeigher, {"less": 2, "more": 4}),
    (weights.IoOpsWeigher, {"less": 0, "more": 2}),
    (weights.HypervisorVersionWeigher, {"less": 6000000, "more": 6000001}),
    (weights.NumInstancesWeigher, {"less": 0, "more": 3}),
    (weights.BuildFailureWeigher, {"less": 0, "more": 1}),
]


@pytest.mark.parametrize(("each", "expected"), SIMPLE)
def test_raw(each, expected):
    """The raw weight is the number of the host's record."""
    assert expected == raw(each(), factories.candidates(*HOSTS), request())


@pytest.mark.parametrize("each", [each for each, _raw in SIMPLE])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_multiplier_turns_it_round(each, sign):
    """Positive prefers more, negative less; failures count against a host."""
    expected = "more" if (sign > 0) != (each is weights.BuildFailureWeigher) else "less"
    made = factories.decision(factories.pipeline([], [each(sign)]), factories.candidates(*HOSTS), request())
    assert expected == made.picks[0].key[0]


DEFAULTS = {
    "RAMWeigher": ("more", 1.0),
    "DiskWeigher": ("more", 1.0),
    "CPUWeigher": ("more", 1.0),
    "IoOpsWeigher": ("less", -1.0),
    "HypervisorVersionWeigher": ("more", 1.0),
    "NumInstancesWeigher": ("less", 0.0),
    "BuildFailureWeigher": ("less", -1000000.0),
}


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_default_multipliers(name):
    """With the default configuration; of equal hosts the first wins."""
    each = {type(each).__name__: each for each in loading.load_weighers(configuration())}[name]
    hosts = factories.candidates(*HOSTS)
    winner, multiplier = DEFAULTS[name]
    assert {"less": multiplier, "more": multiplier} == multipliers(each, hosts)
    assert winner == factories.decision(factories.pipeline([], [each]), hosts, request()).picks[0].key[0]


def test_the_largest_multipliers_choose_no_host_that_was_dropped():
    """Their sum would be infinite, as the score of such a host."""
    metadata = {"ram_weight_multiplier": "-1.7e308", "disk_weight_multiplier": "-1.7e308"}
    hosts = factories.candidates(
        *(node("off"), node("on")),
        services=[factories.Service("off", disabled=True), factories.Service("on")],
        aggregates=[aggregate(["on"], 1, **metadata)],
    )
    configured = factories.pipeline([filters.ComputeFilter()], [weights.RAMWeigher(), weights.DiskWeigher()])
    made = decide(configured, prepare(configured, request()), hosts, random.Random(1))
    assert ["on"] == [pick.key[0] for pick in made.picks]


@pytest.mark.parametrize(("key", "sign"), [("ram_weight_multiplier", 1), ("build_failure_weight_multiplier", -1)])
def test_aggregates_set_the_multiplier(key, sign):
    """The smallest of a host's aggregates counts; a bad value leaves the host the option's."""
    hosts = factories.candidates(
        *(node(name) for name in ("plain", "one", "two", "bad")),
        aggregates=[
            aggregate(["one", "two"], 1, **{key: "5"}),
            aggregate(["two"], 2, **{key: "-0.5"}),
            aggregate(["bad"], 3, **{key: "lots"}),
        ],
    )
    each = {1: weights.RAMWeigher(3.0), -1: weights.BuildFailureWeigher(3.0)}[sign]
    assert {"plain": 3.0 * sign, "one": 5.0 * sign, "two": -0.5 * sign, "bad": 3.0 * sign} == multipliers(each, hosts)


def test_a_bound_holds():
    """A host over its limit weighs as little as a full one, and does not compress the other weights."""
    hosts = factories.candidates(
        node("over", free_ram_mb=-100000),
        node("full", free_ram_mb=0),
        node("half", free_ram_mb=50),
        node("free", free_ram_mb=100),
    )
    made = factories.decision(factories.pipeline([], [weights.RAMWeigher()], alternates=3), hosts, request())
    assert ["free", "half", "full", "over"] == [made.picks[0].key[0], *(p.host for p in made.picks[0].alternates)]
    assert 1.0 == made.picks[0].weight


# -- metrics ------------------------------------------------------------------------------------------------------------


def reporting(**hosts):
    reports = {host: [{"name": name, "value": value} for name, value in each.items()] for host, each in hosts.items()}
    return factories.candidates(*(node(host, metrics=each) for host, each in reports.items()))


SUMS = [
    ("one metric", [("load", 1.0)], {"a": 0.5, "b": 2.0}),
    ("a negative ratio", [("load", -2.0)], {"a": -1.0, "b": -4.0}),
    ("a sum", [("load", 1.0), ("heat", 0.1)], {"a": 0.5 + 30 * 0.1, "b": 2.0 + 10 * 0.1}),
]


@pytest.mark.parametrize(("ratios", "expected"), [pytest.param(*case[1:], id=case[0]) for case in SUMS])
def test_metrics(ratios, expected):
    """Each metric counts by its ratio."""
    hosts = reporting(a={"load": 0.5, "heat": 30}, b={"load": 2.0, "heat": 10})
    assert expected == raw(weights.MetricsWeigher(ratios), hosts, request())


def test_a_required_metric_is_missing():
    """The request fails, and the error names metric and host."""
    pipeline = factories.pipeline([], [weights.MetricsWeigher([("load", 1.0)])])
    hosts = reporting(a={"load": 1.0}, b={})
    with pytest.raises(errors.MetricNotFound) as missing:
        factories.decision(pipeline, hosts, request())
    assert "Metric load could not be found on the compute host node b.b." == missing.value.message


ABSURD = [
    ("the sum would be infinite", {"load": 1.7e308, "heat": 1.7e308}),
    ("a number that no float holds", {"load": 10**400}),
    ("not a number", {"load": float("nan")}),
]


@pytest.mark.parametrize("absurd", [pytest.param(case[1], id=case[0]) for case in ABSURD])
def test_no_host_stops_all_decisions_by_its_metrics(absurd):
    """What is no measurement counts as not reported: MetricsFilter drops the host, and the others are weighed."""
    ratios = [("load", 2.0), ("heat", 2.0)]
    chosen = [filters.MetricsFilter(name for name, _ratio in ratios)]
    pipeline = factories.pipeline(chosen, [weights.MetricsWeigher(ratios)])
    usual = {"load": 1.0, "heat": 1.0}
    hosts = reporting(a=usual, b={**usual, **absurd}, c={**usual, "load": 2.0})
    assert "c" == factories.decision(pipeline, hosts, request()).picks[0].key[0]


def test_a_required_metric_is_missing_on_the_only_host():
    """One host needs no weighing."""
    pipeline = factories.pipeline([], [weights.MetricsWeigher([("load", 1.0)])])
    assert "b" == factories.decision(pipeline, reporting(b={}), request()).picks[0].key[0]


@pytest.mark.parametrize(
    ("ratios", "multiplier", "expected"),
    [
        ([("load", 1.0)], 1.0, {"a": 1.0, "b": -10000.0}),
        ([("heat", 1.0), ("load", 1.0)], 1.0, {"a": -10000.0, "b": -10000.0}),
        ([("load", 0.0)], 1.0, {"a": 0.0, "b": 0.0}),
        ([("load", 1.0)], 0.0, {"a": 1.0, "b": 0.0}),
    ],
)
def test_a_metric_that_is_not_required(ratios, multiplier, expected):
    """A host without it has the weight of the unavailable, unless the metric would not have counted."""
    each = weights.MetricsWeigher(ratios, multiplier, required=False)
    assert expected == raw(each, reporting(a={"load": 1.0}, b={}), request())


def test_metrics_options(caplog):
    """What is no name=ratio is left out, and named in one warning; blanks before the = belong to the name."""
    conf = configuration()
    conf.set_override("weight_setting", ["load=2", "=1", "heat", "heat=hot", "a b =-1.5", "c=d=3"], "metrics")
    conf.set_override("required", False, "metrics")
    made = {type(each).__name__: each for each in loading.load_weighers(conf)}["MetricsWeigher"]
    hosts = reporting(a={"load": 1.0, "a b ": 2.0}, b={"load": 1.0})
    assert {"a": -1.0, "b": -10000.0} == raw(made, hosts, request())
    expected = "Option [metrics] weight_setting: ignoring what is not name=number: =1, heat, heat=hot, c=d=3"
    assert [expected] == caplog.messages


def test_settings():
    """In their order; a name may come twice."""
    assert [("b", 1.0), ("a", 2.0), ("b", 3.0)] == ratio_options.parse(["b=1", "a= 2", "b=3"], "option")


@pytest.mark.parametrize("number", ["nan", "inf", "-Infinity", "1e999"])
def test_ratios_are_finite(caplog, number):
    """With another one no host has a weight, and every request would be refused."""
    assert [("a", 2.0)] == ratio_options.parse(["a=2", f"b={number}"], "option")
    assert f"Option option: ignoring what is not name=number: b={number}" in caplog.text


# -- groups -------------------------------------------------------------------------------------------------------------

MEMBERS = [uuid(1), uuid(2), uuid(3)]
SPREAD = [PlacedInstance(uuid(1), "two"), PlacedInstance(uuid(2), "two"), PlacedInstance(uuid(3), "one")]


@pytest.mark.parametrize(
    ("each", "policy", "winner"),
    [
        (weights.ServerGroupSoftAffinityWeigher, "soft-affinity", "two"),
        (weights.ServerGroupSoftAntiAffinityWeigher, "soft-anti-affinity", "none"),
        (weights.ServerGroupSoftAffinityWeigher, "soft-anti-affinity", "none"),
        (weights.ServerGroupSoftAffinityWeigher, "affinity", "none"),
        (weights.ServerGroupSoftAntiAffinityWeigher, "soft-affinity", "none"),
    ],
)
def test_soft_policies(each, policy, winner):
    """Members attract or repel under their policy; under others, hosts stay equal and the first wins."""
    hosts = factories.candidates(node("one"), node("two"), node("none"), instances=SPREAD)
    asked = request(group_policies=[policy], group_members=MEMBERS)
    made = factories.decision(factories.pipeline([], [each()]), hosts, asked)
    assert winner == made.picks[0].key[0]


@pytest.mark.parametrize(
    ("each", "policy", "expected"),
    [
        (weights.ServerGroupSoftAffinityWeigher, "soft-affinity", ["b", "b", "b"]),
        (weights.ServerGroupSoftAntiAffinityWeigher, "soft-anti-affinity", ["a", "c", "a"]),
    ],
)
def test_members_of_the_same_request_count(each, policy, expected):
    """Instances that are created together attract and repel each other, though no row shows them yet."""
    hosts = factories.candidates(*map(node, "abc"), instances=[PlacedInstance(uuid(1), "b")])
    asked = request(group_policies=[policy], group_members=[uuid(1)], count=3)
    made = factories.decision(factories.pipeline([], [each()]), hosts, asked)
    assert expected == [pick.key[0] for pick in made.picks]


def test_nodes_of_one_host_count_together():
    """A member on one node of a host attracts to all its nodes."""
    hosts = factories.candidates(
        node("a", "a1"), node("b", "b1"), node("b", "b2"), instances=[PlacedInstance(uuid(1), "b")]
    )
    asked = request(group_policies=["soft-affinity"], group_members=[uuid(1)])
    assert [0.0, 1.0, 1.0] == weights.ServerGroupSoftAffinityWeigher().raw(hosts, asked).tolist()


def test_a_pick_counts_on_all_nodes_of_its_host():
    """The second instance goes to another host, not to another node of the same."""
    hosts = factories.candidates(node("a", "a1"), node("a", "a2"), node("b", "b1"))
    asked = request(group_policies=["soft-anti-affinity"], group_members=[uuid(1)], count=2)
    pipeline = factories.pipeline([], [weights.ServerGroupSoftAntiAffinityWeigher()])
    assert ["a1", "b1"] == [pick.key[1] for pick in factories.decision(pipeline, hosts, asked).picks]


# -- images -------------------------------------------------------------------------------------------------------------

PICTURED = [
    PlacedInstance(uuid(1), "linux", image_properties={"os": "linux", "cores": 4}),
    PlacedInstance(uuid(2), "linux", image_properties={"os": "linux"}),
    PlacedInstance(uuid(3), "windows", image_properties={"os": "windows", "cores": "4"}),
    PlacedInstance(uuid(4), "plain"),
]


@pytest.mark.parametrize(
    ("factors", "properties", "expected"),
    [
        ([], {"os": "linux"}, {"linux": 2, "windows": 0, "plain": 0}),
        ([], {"os": "linux", "cores": "4"}, {"linux": 3, "windows": 1, "plain": 0}),
        ([("cores", 10.0)], {"os": "linux", "cores": 4}, {"linux": 10, "windows": 10, "plain": 0}),
        ([("os", -1.0), ("cores", 0.5)], {"os": "linux", "cores": 4}, {"linux": -1.5, "windows": 0.5, "plain": 0}),
        ([], {"os": "bsd"}, {"linux": 0, "windows": 0, "plain": 0}),
    ],
)
def test_image_properties(factors, properties, expected):
    """Properties that instances share with the image count, each time, by their factor."""
    hosts = factories.candidates(*map(node, ("linux", "windows", "plain")), instances=PICTURED)
    each = weights.ImagePropertiesWeigher(1.0, factors)
    assert expected == raw(each, hosts, request(image={"properties": properties}))


def test_instances_of_a_few_hosts():
    """After each pick a few hosts are weighed again: the instances of all others are not read."""
    hosts = factories.candidates(*map(node, ("linux", "nothing", "plain", "windows")), instances=PICTURED)
    assert {"linux", "plain", "windows"} == set(hosts.instances_by_host())
    assert [{"linux"}, set(), {"plain"}, {"windows"}] == [
        set(hosts.subset(numpy.array([row])).instances_by_host()) for row in range(4)
    ]


def test_image_properties_are_off_by_default():
    """Its default multiplier is 0, so it is not called."""
    made = {type(each).__name__: each for each in loading.load_weighers(configuration())}["ImagePropertiesWeigher"]
    assert not made.applies(request(image={"properties": {"os": "linux"}}))
    assert weights.ImagePropertiesWeigher(1.0).applies(request(image={"properties": {"os": "linux"}}))


# -- choosing among equals ----------------------------------------------------------------------------------------------


def test_shuffle_of_the_best():
    """Hosts that share the best weight take turns; the next best is never first, and always the last alternate."""
    hosts = factories.cache(*(node(name, memory_mb=2000) for name in "abc"), node("d", memory_mb=1000))
    pipeline = factories.pipeline([], [weights.RAMWeigher()], alternates=3, shuffle_best_same_weighed_hosts=True)
    orders = set()
    for seed in range(50):
        (pick,) = factories.decision(pipeline, hosts.candidates(NOW_S), request(), seed).picks
        orders.add((pick.key[0], *(place.host for place in pick.alternates)))
    assert 6 == len(orders)
    assert {"d"} == {order[-1] for order in orders}


def test_shuffle_draws_from_the_subset():
    """With a subset smaller than the number of equal hosts, each of them still has its turn."""
    hosts = factories.cache(*map(node, "abcd"))
    pipeline = factories.pipeline([], [weights.RAMWeigher()], shuffle_best_same_weighed_hosts=True, host_subset_size=2)
    chosen = {
        factories.decision(pipeline, hosts.candidates(NOW_S), request(), seed).picks[0].key[0] for seed in range(50)
    }
    assert set("abcd") == chosen


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        (weights.BuildFailureWeigher(), 0.0),
        (weights.HypervisorVersionWeigher(), 6000000.0),
        (weights.PCIWeigher(), 100.0),
        (weights.RAMWeigher(), None),
    ],
)
def test_hosts_that_are_alike_need_not_be_looked_at(each, expected):
    """The uniform weight equals the weights of all hosts."""
    hosts = factories.candidates(node("a", hypervisor_version=6000000), node("b", hypervisor_version=6000000))
    assert expected == weighers.uniform(each, hosts)
    assert expected is None or {expected} == set(each.raw(hosts, request()).tolist())


# -- fragmentation --------------------------------------------------------------------------------------------------------

#: Two small sizes and one large, none of which has ended: 3 of 4 requests are small.
DEMAND = FlavorMix(7, counts={Shape(1, 1024): Counts(3.0), Shape(4, 4096): Counts(1.0)})
#: "tight" has room for one small instance beside full large ones; "whole" has room for two large ones.
TIGHT, WHOLE = node("tight", vcpus=5, memory_mb=5120), node("whole", vcpus=8, memory_mb=8192)


def fragmentation(*nodes, mix=DEMAND, sizes=None):
    hosts = factories.candidates(*nodes, mix=mix)
    asked = request(sizes or {"vcpus": 1, "memory_mb": 1024})
    return raw(weights.FragmentationWeigher(1.0), hosts, asked)


def test_room_for_large_instances_is_kept():
    """Of cpu_allocation_ratio 1, a small instance costs one small on tight; on whole also one large."""
    found = fragmentation(TIGHT, WHOLE)
    assert found["whole"] < found["tight"] < 0


def test_without_a_mix_it_says_nothing():
    """Nothing has been asked for yet."""
    assert {"tight": 0.0, "whole": 0.0} == fragmentation(TIGHT, WHOLE, mix=None)
    assert {"tight": 0.0, "whole": 0.0} == fragmentation(TIGHT, WHOLE, mix=FlavorMix(1))


@pytest.mark.parametrize("counts", [Counts(0.0, 1.0, 5.0), Counts(1.0, 1.0, 0.0)], ids=["none asked for", "no life"])
def test_a_mix_without_core_hours_ends_no_build(counts: Counts) -> None:
    """Instances that ended at once count by their requests; a mix that asks for nothing weighs nothing."""
    found = fragmentation(TIGHT, WHOLE, mix=FlavorMix(1, counts={Shape(4, 4096): counts}))
    assert counts.requests == len(FlavorMix(1, counts={Shape(4, 4096): counts}).shares())
    assert bool(counts.requests) == (found["tight"] != found["whole"])


def test_a_newer_mix_counts_at_once():
    """The tables are built anew; an older mix that comes late is ignored."""
    cache = factories.cache(TIGHT, WHOLE, mix=DEMAND)
    each, asked = weights.FragmentationWeigher(1.0), request({"vcpus": 1, "memory_mb": 1024})
    before = raw(each, cache.candidates(NOW_S), asked)
    cache.apply(factories.changes(generation=2, mix=FlavorMix(8, counts={Shape(4, 4096): Counts(1.0)})))
    after = raw(each, cache.candidates(NOW_S), asked)
    assert before != after
    assert 0.0 == after["tight"]
    cache.apply(factories.changes(generation=3, mix=DEMAND))
    assert after == raw(each, cache.candidates(NOW_S), asked)


def test_a_larger_host_that_comes_later_is_counted_whole():
    """The tables grow."""
    cache = factories.cache(TIGHT, mix=DEMAND)
    each, asked = weights.FragmentationWeigher(1.0), request({"vcpus": 5, "memory_mb": 5120})
    raw(each, cache.candidates(NOW_S), asked)
    huge = node("huge", vcpus=64, memory_mb=65536)
    cache.apply(factories.changes([huge], generation=2))
    assert raw(each, cache.candidates(NOW_S), asked)["huge"] < -1


def test_sizes_are_measured_by_the_hosts_of_today():
    """A weigher that was there before a host came weighs as one that is new."""
    mix = FlavorMix(1, counts={Shape(4, 512): Counts(1.0), Shape(1, 4096): Counts(1.0)})
    cache = factories.cache(TIGHT, WHOLE, mix=mix)
    each, asked = weights.FragmentationWeigher(1.0), request({"vcpus": 1, "memory_mb": 1024})
    raw(each, cache.candidates(NOW_S), asked)
    for generation, lean in ((2, node("lean", vcpus=4, memory_mb=65536)), (3, node("none", vcpus=0, memory_mb=4096))):
        cache.apply(factories.changes([lean], generation=generation))
        hosts = cache.candidates(NOW_S)
        assert raw(weights.FragmentationWeigher(1.0), hosts, asked) == raw(each, hosts, asked)


def test_explain_shows_its_terms():
    """The sizes of which fewer fit afterwards, with their share of what is asked for."""
    hosts = factories.candidates(TIGHT, WHOLE, mix=DEMAND)
    (tight, whole) = weights.FragmentationWeigher(1.0).terms(hosts, request({"vcpus": 1, "memory_mb": 1024}))
    assert [("1 vcpus, 1024 MB", 0.75, 5, 4)] == [
        (term["shape"], term["share"], term["before"], term["after"]) for term in tight
    ]
    assert {"1 vcpus, 1024 MB", "4 vcpus, 4096 MB"} == {term["shape"] for term in whole}


def test_a_fixed_mix_from_a_file(tmp_path):
    """It counts in place of the learned one."""
    path = tmp_path / "mix.json"
    path.write_text('[{"vcpus": 4, "memory_mb": 4096, "requests": 1}]')
    each = weights.FragmentationWeigher.from_conf(configuration(fragmentation_flavor_mix_file=str(path)))
    found = raw(each, factories.candidates(TIGHT, WHOLE, mix=DEMAND), request({"vcpus": 1, "memory_mb": 1024}))
    assert 0.0 == found["tight"] > found["whole"]


@pytest.mark.parametrize("text", ["no json", "{}", '[{"vcpus": 0}]'])
def test_a_file_that_cannot_be_used_stops_the_service(tmp_path, text):
    """The message names the option and the file."""
    path = tmp_path / "mix.json"
    path.write_text(text)
    with pytest.raises(errors.ConfigError, match="fragmentation_flavor_mix_file.*mix.json"):
        weights.FragmentationWeigher.from_conf(configuration(fragmentation_flavor_mix_file=str(path)))


# -- alignment ------------------------------------------------------------------------------------------------------------


def test_alignment_is_the_cosine_in_mean_hosts():
    """The request takes a half of the mean host's memory, and an eighth of its vcpus: proportions as of the second host."""
    hosts = factories.candidates(
        node("cores", vcpus=8, memory_mb=8000, memory_mb_used=6000),
        node("memory", vcpus=8, vcpus_used=6, memory_mb=8000),
        node("full", vcpus=8, vcpus_used=8, memory_mb=8000, memory_mb_used=8000),
    )
    found = raw(weights.AlignmentWeigher(1.0), hosts, request({"vcpus": 1, "memory_mb": 4000}))
    assert {"cores": round(8 / 17 * 2**20) / 2**20, "memory": 1.0, "full": 0.0} == found


def test_alignment_does_not_see_the_size_of_a_host():
    """Thirds cannot be written exactly: still both are equal, and the key decides."""
    hosts = factories.candidates(
        node("large", vcpus=96, vcpus_used=66, memory_mb=96 * 1024, memory_mb_used=66 * 1024),
        node("small", vcpus=32, vcpus_used=22, memory_mb=32 * 1024, memory_mb_used=22 * 1024),
    )
    found = raw(weights.AlignmentWeigher(1.0), hosts, request({"vcpus": 1, "memory_mb": 3 * 1024}))
    assert found["large"] == found["small"]
