# SPDX-License-Identifier: Apache-2.0
"""Request and candidates in, picks and reasons out."""

from __future__ import annotations

import logging

import numpy
import pytest

from scheduler.compute import filters, weights
from scheduler.engine.filtering import FilterCount, run
from scheduler.engine.prepared_request import PreparedRequest
from tests import factories
from tests.factories import node, request, uuid

RAM = weights.RAMWeigher()
THREE = (node("a", memory_mb=4096), node("b", memory_mb=8192), node("c", memory_mb=2048))


def pipeline(*plugins, weighers=(RAM,), **options):
    return factories.pipeline([*plugins, filters.RamFilter()], weighers, **options)


def hosts_of(made):
    return [pick.key[0] for pick in made.picks]


def test_best_host_and_alternates():
    """The host with the most free memory, then the next ones, each with its own limit."""
    made = factories.decision(pipeline(alternates=2), factories.candidates(*THREE), request())
    (selection,) = made.selections()
    assert ("b", "b", {"memory_mb": 8192.0}) == (selection.host, selection.nodename, selection.limits)
    assert [("a", {"memory_mb": 4096.0}), ("c", {"memory_mb": 2048.0})] == [
        (place.host, place.limits) for place in selection.alternates
    ]


def test_record_counts_what_each_filter_saw():
    """The answer has the number of considered hosts, and of hosts that each filter let pass."""
    made = factories.decision(pipeline(), factories.candidates(*THREE), request({"memory_mb": 4096}))
    assert {
        "requested": 1,
        "considered": 3,
        "placed": 1,
        "filters": [{"name": "RamFilter", "start": 3, "end": 2}],
    } == made.to_wire()


def test_instances_of_a_request_count_against_each_other():
    """b is worth 8, a 4, c 2 GB: b takes instances until a has more, and so on until nothing is left."""
    made = factories.decision(pipeline(), factories.candidates(*THREE), request({"memory_mb": 2048}, count=8))
    assert ["b", "b", "a", "b", "a", "b", "c"] == hosts_of(made)
    assert not made.complete
    assert [FilterCount("RamFilter", 3, 0)] == made.counts


def test_a_host_that_was_dropped_stays_dropped():
    """The survivors of one instance are the candidates of the next."""

    class OnlyOnce(filters.BaseHostFilter):
        def __init__(self):
            self.asked = []

        def host_passes(self, host_state, filter_properties):
            self.asked.append(host_state.host)
            return host_state.host != "b"

    each = OnlyOnce()
    made = factories.decision(pipeline(each), factories.candidates(*THREE), request(count=2))
    assert ["a", "a"] == hosts_of(made)
    assert ["a", "b", "c", "a", "c"] == each.asked


def test_run_once_filters_are_asked_for_the_first_instance_only():
    """run_filter_once_per_request spares the later instances."""

    class Once(filters.BaseHostFilter):
        run_filter_once_per_request = True
        asked = 0

        def host_passes(self, host_state, filter_properties):
            type(self).asked += 1
            return True

    factories.decision(pipeline(Once()), factories.candidates(*THREE), request(count=3))
    assert 3 == Once.asked


def test_filter_all_that_returns_none_ends_the_filtering(caplog):
    """A filter of whole lists may refuse all hosts; later filters do not run."""

    class Nobody(filters.BaseHostFilter):
        def filter_all(self, filter_obj_list, filter_properties):
            return None

    with caplog.at_level(logging.INFO):
        made = factories.decision(pipeline(Nobody()), factories.candidates(*THREE), request())
    assert [FilterCount("Nobody", 3, 0)] == made.counts
    assert ["Filter Nobody returned 0 hosts"] == [record.getMessage() for record in caplog.records]


def test_a_plugin_sees_earlier_picks():
    """A filter in nova's form is shown a host's numbers and instances with this request's picks counted."""
    seen = []

    class Watch(filters.BaseHostFilter):
        def host_passes(self, host_state, filter_properties):
            there = [(each.uuid, each.instance_type_id, each.project_id) for each in host_state.instances.values()]
            seen.append((host_state.free_ram_mb, host_state.num_instances, there))
            return True

    asked = request({"id": 7}, {"project_id": "p1"}, count=2)
    factories.decision(pipeline(Watch()), factories.candidates(node(memory_mb=4096)), asked)
    assert [(4096, 0, []), (3072, 1, [(uuid(1000), 7, "p1")])] == seen


def test_a_plugins_limits_go_with_the_answer():
    """What host_passes writes into host_state.limits reaches the claim, and the next request does not see it."""

    class Limit(filters.BaseHostFilter):
        def host_passes(self, host_state, filter_properties):
            assert {} == host_state.limits
            host_state.limits["gpu"] = 2
            return True

    cache = factories.cache(*THREE)
    for _ in range(2):
        made = factories.decision(pipeline(Limit()), cache.candidates(factories.NOW_S), request())
        assert {"gpu": 2, "memory_mb": 8192.0} == made.selections()[0].limits


def test_a_plugin_weigher_works_beside_the_built_in_ones():
    """nova's form: one raw weight a host, a multiplier with or without the host."""

    class ByName(weights.BaseHostWeigher):
        def weight_multiplier(self):
            return 5.0

        def _weigh_object(self, host_state, weight_properties):
            return ord(host_state.host)

    made = factories.decision(
        pipeline(weighers=(weights.RAMWeigher(), ByName())), factories.candidates(*THREE), request()
    )
    # a 4096/8192 + 0, b 1 + 2.5, c 2048/8192 + 5
    assert ("c", 5.25) == (made.picks[0].key[0], made.picks[0].weight)


def test_weighers_are_not_asked_about_a_single_host():
    """One host needs no weighing, and a weigher must not be able to refuse it."""

    class Refuses(weights.BaseHostWeigher):
        def _weigh_object(self, host_state, weight_properties):
            raise AssertionError("asked")

    made = factories.decision(pipeline(weighers=(Refuses(),)), factories.candidates(node("a")), request())
    assert ["a"] == hosts_of(made)


def test_of_equal_hosts_the_smallest_key_wins():
    """In whatever order the hosts have come."""
    made = factories.decision(pipeline(alternates=2), factories.candidates(node("z"), node("a"), node("m")), request())
    assert ["a", "m", "z"] == [made.picks[0].key[0], *(place.host for place in made.picks[0].alternates)]


def test_the_subset_is_drawn_from_the_best():
    """With scheduler_host_subset_size 2, one of the two best is drawn, and the other is an alternate."""
    drawn = set()
    for seed in range(20):
        made = factories.decision(
            pipeline(alternates=2, host_subset_size=2), factories.candidates(*THREE), request(), seed
        )
        (pick,) = made.picks
        drawn.add(pick.key[0])
        assert {"a", "b", "c"} == {pick.key[0], *(place.host for place in pick.alternates)}
    assert {"a", "b"} == drawn


@pytest.mark.parametrize(
    ("name", "asked", "expected"),
    [
        ("ignored hosts", {"ignore_hosts": ["b"]}, "a"),
        ("ignored without case", {"ignore_hosts": ["B"]}, "a"),
        ("forced host", {"force_hosts": ["c"]}, "c"),
        ("forced without case", {"force_hosts": ["C"]}, "c"),
        ("forced node", {"force_nodes": ["c"]}, "c"),
        ("forced node, with case", {"force_nodes": ["C"]}, None),
        ("forced host and another's node", {"force_hosts": ["a"], "force_nodes": ["b"]}, None),
        ("forced and ignored", {"force_hosts": ["a"], "ignore_hosts": ["a"]}, None),
        ("best of those forced", {"force_hosts": ["a", "c"]}, "a"),
        ("requested, without case", {"requested_destination": {"host": "C"}}, "c"),
        ("requested node", {"requested_destination": {"node": "c"}}, "c"),
        ("requested node, with case", {"requested_destination": {"node": "C"}}, None),
        ("requested host and another's node", {"requested_destination": {"host": "a", "node": "b"}}, None),
        ("requested and ignored", {"requested_destination": {"host": "c"}, "ignore_hosts": ["c"]}, None),
        ("within some, without case", {"within_hosts": ["A", "C", "gone"]}, "a"),
        ("within some, without an ignored one", {"within_hosts": ["a", "c"], "ignore_hosts": ["a"]}, "c"),
        ("within none", {"within_hosts": []}, None),
        ("requested, and not within", {"requested_destination": {"host": "c"}, "within_hosts": ["a"]}, None),
    ],
)
def test_ignore_and_force(name, asked, expected):
    """The request may exclude hosts, or insist on some."""
    made = factories.decision(pipeline(), factories.candidates(*THREE), request(**asked))
    assert ([expected] if expected else []) == hosts_of(made), name


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"force_hosts": ["x.1"]}, "x.1"),
        ({"force_hosts": ["X.1"]}, "X.1"),
        ({"requested_destination": {"host": "x.1"}}, "x.1"),
        ({"within_hosts": ["x.1"]}, "x.1"),
        ({"ignore_hosts": ["X.1"]}, "x.1"),
    ],
)
def test_of_two_hosts_that_differ_in_case_the_one_is_meant_that_is_spelled_so(asked, expected):
    hosts = factories.candidates(node("X.1", memory_mb=8192), node("x.1", memory_mb=4096))
    assert [expected] == hosts_of(factories.decision(pipeline(), hosts, request(**asked)))


@pytest.mark.parametrize("kind", ["host", "node"])
def test_a_requested_host_is_filtered(kind):
    """Unlike a forced host: c has 2 GB."""
    asked = request({"memory_mb": 4096}, requested_destination={kind: "c"})
    made = factories.decision(pipeline(), factories.candidates(*THREE), asked)
    assert [FilterCount("RamFilter", 1, 0)] == made.counts


def test_forced_hosts_are_not_filtered():
    """The operator overrules the filters: a full host is taken, and no limit is set."""
    made = factories.decision(
        pipeline(), factories.candidates(*THREE), request({"memory_mb": 10**6}, force_hosts=["a"])
    )
    assert [("a", {})] == [(selection.host, selection.limits) for selection in made.selections()]


def test_a_group_spreads_within_one_request():
    """Anti-affinity holds between the instances of the request; the fourth of four finds no host."""
    made = factories.decision(
        factories.pipeline([filters.ServerGroupAntiAffinityFilter()], [weights.RAMWeigher()]),
        factories.candidates(*THREE),
        request(count=4, group_policies=["anti-affinity"], group_updated=True),
    )
    assert ["b", "a", "c"] == hosts_of(made)


def test_a_group_gathers_within_one_request():
    """Affinity holds between the instances of a request, even if another host has a higher score by then."""
    made = factories.decision(
        factories.pipeline([filters.ServerGroupAffinityFilter()], [weights.RAMWeigher()]),
        factories.candidates(*THREE),
        request({"memory_mb": 6000}, count=2, group_policies=["affinity"], group_updated=True),
    )
    assert ["b", "b"] == hosts_of(made)


def test_looking_for_alternates_in_vain_is_no_news(caplog):
    """A request that was placed does not log that hosts ran out."""
    with caplog.at_level(logging.INFO):
        made = factories.decision(
            factories.pipeline([filters.ServerGroupAntiAffinityFilter()], [weights.RAMWeigher()], alternates=2),
            factories.candidates(*THREE),
            request(count=3, group_policies=["anti-affinity"], group_updated=True),
        )
    assert made.complete
    assert [] == caplog.records


def test_every_drop_has_a_filter():
    """Which filter dropped a host first is kept."""
    hosts = factories.candidates(node("small", memory_mb=512), node("tried"), node("good"))
    asked = request(retry={"hosts": [["tried", "tried"]]})
    chosen = [filters.RetryFilter(), filters.RamFilter()]
    round_ = run(PreparedRequest(asked, chosen), hosts, hosts.present())
    dropped = {
        type(each).__name__: [hosts.key(row)[0] for row in numpy.flatnonzero(round_.dropped_by == number)]
        for number, each in enumerate(chosen)
    }
    assert {"RetryFilter": ["tried"], "RamFilter": ["small"]} == dropped


def test_deciding_changes_nothing():
    """The same candidates give the same answer again: picks are counted for their own request only."""
    cache = factories.cache(*THREE)
    asked = request({"memory_mb": 2048}, count=3)
    first, second = (factories.decision(pipeline(), cache.candidates(factories.NOW_S), asked) for _ in range(2))
    assert hosts_of(first) == hosts_of(second)


class CapsMemory(filters.BaseHostFilter):
    """Nova's form: caps the claim's memory at 100 MB, and remembers the limits that it found."""

    def __init__(self):
        self.found = []

    def host_passes(self, host_state, filter_properties):
        self.found.append(dict(host_state.limits))
        host_state.limits["memory_mb"] = 100
        return True


class ReadsLimits(CapsMemory):
    def host_passes(self, host_state, filter_properties):
        self.found.append(dict(host_state.limits))
        return True


class ReplacesLimits(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        host_state.limits = {"gpu": 1}
        return True


class HalfRamFilter(filters.RamFilter):
    """A subclass of a built-in filter that adds to its judgement and to its limit."""

    def host_passes(self, host_state, filter_properties):
        passes = super().host_passes(host_state, filter_properties)
        host_state.limits["memory_mb"] = host_state.limits["memory_mb"] / 2
        return passes


class OnceFilter(CapsMemory):
    run_filter_once_per_request = True


# Each host has 4096 MB, and nodes of the factory have a ratio of 1: so much is the RamFilter's limit.
ORDERS = [
    ("after the RamFilter", [filters.RamFilter, CapsMemory], {"memory_mb": 100}),
    ("before the RamFilter", [CapsMemory, filters.RamFilter], {"memory_mb": 4096.0}),
    ("a subclass that calls super", [HalfRamFilter], {"memory_mb": 2048.0}),
    ("a subclass, then the RamFilter", [HalfRamFilter, filters.RamFilter], {"memory_mb": 4096.0}),
    ("one that only reads", [filters.RamFilter, ReadsLimits], {"memory_mb": 4096.0}),
    ("two writers", [CapsMemory, filters.RamFilter, HalfRamFilter], {"memory_mb": 2048.0}),
    ("a dict of its own", [filters.RamFilter, ReplacesLimits], {"gpu": 1}),
    ("a dict of its own, before", [ReplacesLimits, filters.RamFilter], {"gpu": 1, "memory_mb": 4096.0}),
    ("once a request", [filters.RamFilter, OnceFilter], {"memory_mb": 100}),
    ("once a request, before", [OnceFilter, filters.RamFilter], {"memory_mb": 4096.0}),
]


@pytest.mark.parametrize(("name", "classes", "limits"), ORDERS)
@pytest.mark.parametrize("count", [1, 3])
def test_the_last_filter_to_set_a_limit_wins(name, classes, limits, count):
    """In the order of the filters, for each instance of a request, whatever the form of a filter."""
    pipeline = factories.pipeline([each() for each in classes], alternates=1)
    hosts = factories.candidates(node("a", memory_mb=4096), node("b", memory_mb=4096))
    made = factories.decision(pipeline, hosts, request({"memory_mb": 64}, count=count))
    assert [limits] * count == [selection.limits for selection in made.selections()], name
    for selection in made.selections():
        assert [limits] * len(selection.alternates) == [place.limits for place in selection.alternates], name


def test_later_filters_see_the_limits_of_earlier_ones():
    """Of both forms; a filter does not see what comes after it, nor what another request wrote."""
    first, second = CapsMemory(), ReadsLimits()
    pipeline = factories.pipeline([filters.DiskFilter(), first, second, filters.RamFilter()])
    hosts = factories.candidates(node("a", memory_mb=4096, local_gb=100))
    for _request in range(2):
        factories.decision(pipeline, hosts, request())
    assert [{"disk_gb": 100.0}] * 2 == first.found
    assert [{"disk_gb": 100.0, "memory_mb": 100}] * 2 == second.found
