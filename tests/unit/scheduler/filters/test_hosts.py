# SPDX-License-Identifier: Apache-2.0
"""Filters by free resources, load, reservation and location of a host."""

from __future__ import annotations

from unittest import mock

import pytest

from fleet import errors
from scheduler.compute import filters
from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.engine.hosts.candidates import Candidates
from scheduler.state import hints
from tests import factories
from tests.factories import PlacedInstance, node, request, uuid
from tests.unit.scheduler.judging import passed

EXACT = [
    ("memory to the MB", filters.ExactRamFilter, {"memory_mb": 1024}, {"memory_mb": 1024}, True),
    ("a MB too much", filters.ExactRamFilter, {"memory_mb": 1025}, {"memory_mb": 1024}, False),
    ("what is used does not count", filters.ExactRamFilter, {"memory_mb": 2048, "memory_mb_used": 1024}, {}, True),
    ("disk to the MB", filters.ExactDiskFilter, {"local_gb": 6}, {"root_gb": 3, "ephemeral_gb": 2, "swap": 1024}, True),
    ("swap counts", filters.ExactDiskFilter, {"local_gb": 5}, {"root_gb": 3, "ephemeral_gb": 2, "swap": 1}, False),
    ("all vcpus", filters.ExactCoreFilter, {"vcpus": 4, "vcpus_used": 2}, {"vcpus": 2}, True),
    ("a vcpu too many", filters.ExactCoreFilter, {"vcpus": 4, "vcpus_used": 1}, {"vcpus": 2}, False),
    ("no vcpus reported", filters.ExactCoreFilter, {"vcpus": 0, "vcpus_used": -1}, {"vcpus": 1}, False),
]


@pytest.mark.parametrize(("each", "host", "sizes", "fits"), [pytest.param(*case[1:], id=case[0]) for case in EXACT])
def test_exact(each, host, sizes, fits):
    """What is free must be just what is asked for."""
    hosts = factories.candidates(node(**host))
    assert ({"host1"} if fits else set()) == passed(each(), hosts, request(sizes))


def test_exact_cores_limit_the_claim():
    """The claim may have all the vcpus of the host, and no more."""
    hosts = factories.candidates(node(vcpus=4))
    assert [4.0] == filters.ExactCoreFilter().limits(hosts, request({"vcpus": 4}))["vcpu"].tolist()


@pytest.mark.parametrize(
    ("each", "column"),
    [(filters.IoOpsFilter(8), "io_workload"), (filters.NumInstancesFilter(8), "running_vms")],
)
def test_fewer_than_the_most(each, column):
    """The number itself is too many already."""
    hosts = factories.candidates(
        node("seven", **{column: 7}), node("eight", **{column: 8}), node("nine", **{column: 9})
    )
    assert {"seven"} == passed(each, hosts, request())


@pytest.mark.parametrize("each", [filters.IoOpsFilter(3), filters.NumInstancesFilter(3)])
def test_picks_of_the_same_request_count(each):
    """Of five instances, one host takes three."""
    made = factories.decision(factories.pipeline([each]), factories.candidates(node("a"), node("b")), request(count=5))
    assert ["a", "a", "a", "b", "b"] == [pick.key[0] for pick in made.picks]


ISOLATED = [
    ("isolated image", True, "secret", ["kept"]),
    ("other image", True, "public", ["free"]),
    ("no image", True, "", ["free"]),
    ("isolated image, hosts open to others", False, "secret", ["kept"]),
    ("other image, hosts open to others", False, "public", ["kept", "free"]),
]


@pytest.mark.parametrize(("restrict", "image", "expected"), [pytest.param(*case[1:], id=case[0]) for case in ISOLATED])
def test_isolated_hosts(restrict, image, expected):
    """Isolated images go to isolated hosts only."""
    each = filters.IsolatedHostsFilter(["secret"], ["kept", "unknown"], restrict)
    hosts = factories.candidates(node("kept"), node("free"))
    assert set(expected) == passed(each, hosts, request(instance={"image_ref": image}))


@pytest.mark.parametrize(("restrict", "expected"), [(True, ["free"]), (False, ["kept", "free"])])
def test_no_isolated_images(restrict, expected):
    """Then isolated hosts take nothing, unless they are open to others."""
    each = filters.IsolatedHostsFilter([], ["kept"], restrict)
    assert set(expected) == passed(each, factories.candidates(node("kept"), node("free")), request())


CIDR = [
    ("no hint", {}, ["near", "far", "six", "nowhere"]),
    ("the default network has 256 addresses", {"build_near_host_ip": "192.0.2.77"}, ["near"]),
    ("a smaller one", {"build_near_host_ip": "192.0.2.129", "cidr": "/25"}, []),
    ("a larger one", {"build_near_host_ip": "192.0.2.77", "cidr": "/0"}, ["near", "far"]),
    ("IPv6", {"build_near_host_ip": "2001:db8::77", "cidr": "/64"}, ["six"]),
]


@pytest.mark.parametrize(("hints", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CIDR])
def test_cidr_affinity(hints, expected):
    """Hosts pass in the network that the hints describe."""
    hosts = factories.candidates(
        node("near", host_ip="192.0.2.1"),
        node("far", host_ip="198.51.100.1"),
        node("six", host_ip="2001:db8::1"),
        node("nowhere", host_ip=None),
    )
    assert set(expected) == passed(filters.SimpleCIDRAffinityFilter(), hosts, request(scheduler_hints=hints))


def test_addresses_are_read_without_host_states():
    """A host state for each host would cost more than the comparison of its address."""
    hosts = factories.candidates(node("near", host_ip="192.0.2.1"), node("far", host_ip="198.51.100.1"))
    asked = request(scheduler_hints={"build_near_host_ip": "192.0.2.9"})
    with mock.patch.object(Candidates, "state", side_effect=AssertionError("a host state was made")):
        assert {"near"} == passed(filters.SimpleCIDRAffinityFilter(), hosts, asked)


@pytest.mark.parametrize("hints", [{"build_near_host_ip": "near"}, {"build_near_host_ip": "192.0.2.1", "cidr": "/99"}])
def test_hints_that_give_no_network(hints):
    """The request is refused by the name of the hint."""
    with pytest.raises(errors.InvalidInput) as refused:
        filters.SimpleCIDRAffinityFilter().mask(factories.candidates(node()), request(scheduler_hints=hints))
    assert "filter_properties.scheduler_hints.build_near_host_ip" == refused.value.field


def test_type_affinity():
    """A host with an instance of another flavor is dropped; one that is empty is not."""
    instances = [
        PlacedInstance(uuid(1), "same", instance_type_id=1),
        PlacedInstance(uuid(2), "mixed", instance_type_id=1),
        PlacedInstance(uuid(3), "mixed", instance_type_id=2),
    ]
    hosts = factories.candidates(node("same"), node("mixed"), node("empty"), instances=instances)
    assert {"same", "empty"} == passed(filters.TypeAffinityFilter(), hosts, request({"id": 1}))


def test_type_affinity_knows_what_is_booked():
    """A host on which another flavor was booked a moment ago is dropped."""
    cache = factories.cache(node("host1"), node("host2"))
    first = factories.decision(factories.pipeline(), cache.candidates(factories.NOW_S), request({"id": 2}))
    cache.book(first, factories.NOW_S + 60)
    each, hosts = filters.TypeAffinityFilter(), cache.candidates(factories.NOW_S)
    assert {"host2"} == passed(each, hosts, request({"id": 1}))
    assert {"host1", "host2"} == passed(each, hosts, request({"id": 2}))


@pytest.mark.parametrize(("told", "expected"), [({}, {1, 2}), ({"instance_type_id": 2}, {2})])
def test_type_affinity_knows_what_another_scheduler_has_booked(told, expected):
    """A scheduler of an earlier release does not send the flavor: its booking is no reason to refuse the host."""
    cache = factories.cache(node("host1"))
    sent = [{"instance_uuid": uuid(9), "host": "host1", "nodename": "host1", "amounts": {}, **told}]
    cache.hint_bookings(hints.bookings(sent, {}, TrackedInstance, factories.NOW_S + 60))
    each, hosts = filters.TypeAffinityFilter(), cache.candidates(factories.NOW_S)
    assert expected == {number for number in (1, 2) if passed(each, hosts, request({"id": number}))}


LOAD, HEAT = {"name": "load", "value": 0.5}, {"name": "heat", "value": 30}


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], ["both", "one", "none"]), (["load"], ["both", "one"]), (["load", "heat"], ["both"]), (["noise"], [])],
)
def test_metrics(names, expected):
    """Hosts pass that report everything that weighs; what is not a number is not reported."""
    noise = {"name": "noise", "value": "loud"}
    hosts = factories.candidates(
        node("both", metrics=[LOAD, HEAT, noise]), node("one", metrics=[LOAD]), node("none", metrics=None)
    )
    assert set(expected) == passed(filters.MetricsFilter(names), hosts, request())


@pytest.mark.parametrize("named", [-1, 1e308, True, [[]], [None], {"a": 1}])
@pytest.mark.parametrize(
    ("name", "each"), [("same_host", filters.SameHostFilter()), ("different_host", filters.DifferentHostFilter())]
)
def test_a_hint_that_names_no_instances_is_refused_by_name(name, each, named):
    """It is a fault of the request, and none of the filter."""
    with pytest.raises(errors.InvalidInput) as refused:
        each.mask(factories.candidates(node()), request(scheduler_hints={name: named}))
    assert refused.value.field.startswith(f"filter_properties.scheduler_hints.{name}")
