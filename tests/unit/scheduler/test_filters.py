# SPDX-License-Identifier: Apache-2.0
"""Every built-in filter on its edge cases."""

from __future__ import annotations

import dataclasses
import datetime
import math
from typing import Any

import numpy
import pytest

from scheduler.compute import filters
from scheduler.state import liveness
from tests import factories
from tests.factories import NOW, PlacedInstance, Service, aggregate, node, request, uuid
from tests.unit.scheduler.judging import passed


@dataclasses.dataclass
class Fit:
    """One host and one request."""

    name: str
    host: dict[str, Any]
    sizes: dict[str, Any]
    fits: bool
    limits: dict[str, float] = dataclasses.field(default_factory=dict)


RAM = [
    Fit("equality passes", {"memory_mb": 1024}, {"memory_mb": 1024}, True, {"memory_mb": 1024.0}),
    Fit("one MB short", {"memory_mb": 2048, "memory_mb_used": 1025}, {"memory_mb": 1024}, False),
    # limit 2048 * 1.5 = 3072, used 2048
    Fit(
        "overcommit gives room beyond the total",
        {"memory_mb": 2048, "memory_mb_used": 2048, "ram_allocation_ratio": 1.5},
        {"memory_mb": 1024},
        True,
        {"memory_mb": 3072.0},
    ),
    Fit(
        "free memory may be negative",
        {"memory_mb": 2048, "memory_mb_used": 3000, "ram_allocation_ratio": 1.5},
        {"memory_mb": 100},
        False,
    ),
    Fit(
        "no overcommit of one instance against itself",
        {"memory_mb": 2048, "ram_allocation_ratio": 16.0},
        {"memory_mb": 2049},
        False,
    ),
    # limit (2048 - 512) * 1.5 + 512 = 2816, used 512
    Fit(
        "reserved memory is not overcommitted",
        {"memory_mb": 2048, "memory_mb_used": 512, "reserved_memory_mb": 512, "ram_allocation_ratio": 1.5},
        {"memory_mb": 1536},
        True,
        {"memory_mb": 2816.0},
    ),
    Fit("no ratio reported means nova's 1.5", {"memory_mb": 1000, "ram_allocation_ratio": 0.0}, {}, False),
]
CORE = [
    Fit("equality passes", {"vcpus": 4, "vcpus_used": 2}, {"vcpus": 2}, True, {"vcpu": 4.0}),
    Fit("one too many", {"vcpus": 4, "vcpus_used": 3}, {"vcpus": 2}, False),
    # limit 4 * 2 = 8
    Fit("overcommit", {"vcpus": 4, "vcpus_used": 6, "cpu_allocation_ratio": 2.0}, {"vcpus": 2}, True, {"vcpu": 8.0}),
    Fit("no overcommit against itself", {"vcpus": 4, "cpu_allocation_ratio": 16.0}, {"vcpus": 5}, False),
    Fit("no CPU reported passes, unlimited", {"vcpus": 0}, {"vcpus": 2}, True),
]
DISK = [
    Fit("root, ephemeral and swap are added up", {"local_gb": 10}, {"root_gb": 5, "ephemeral_gb": 5, "swap": 1}, False),
    Fit("equality passes", {"local_gb": 10}, {"root_gb": 9, "swap": 1024}, True, {"disk_gb": 10.0}),
    # the hypervisor has 4 GB left, whatever the records say
    Fit("the least available counts", {"local_gb": 10, "disk_available_least": 4}, {"root_gb": 5}, False),
    Fit(
        "more available than recorded does not count",
        {"local_gb": 10, "local_gb_used": 8, "disk_available_least": 9},
        {"root_gb": 5},
        False,
    ),
    # limit 10 * 2 = 20, used 10
    Fit(
        "overcommit",
        {"local_gb": 10, "local_gb_used": 10, "disk_allocation_ratio": 2.0},
        {"root_gb": 10},
        True,
        {"disk_gb": 20.0},
    ),
    Fit("no overcommit against itself", {"local_gb": 10, "disk_allocation_ratio": 2.0}, {"root_gb": 11}, False),
    Fit("full, for an instance without disk", {"local_gb": 10, "local_gb_used": 10}, {}, True, {"disk_gb": 10.0}),
]


@pytest.mark.parametrize(
    ("each", "fit"),
    [
        pytest.param(each, fit, id=f"{each.__name__}: {fit.name}")
        for each, fits in (
            (filters.RamFilter, RAM),
            (filters.AggregateRamFilter, RAM),
            (filters.CoreFilter, CORE),
            (filters.AggregateCoreFilter, CORE),
            (filters.DiskFilter, DISK),
            (filters.AggregateDiskFilter, DISK),
        )
        for fit in fits
    ],
)
def test_capacity(each, fit):
    """A host passes if what is usable under its limit is enough, and hands the limit to the claim."""
    hosts = factories.candidates(node(**fit.host))
    asked = request(fit.sizes)
    assert ({"host1"} if fit.fits else set()) == passed(each(), hosts, asked)
    if fit.fits:
        limits = {
            name: value[0]
            for name, value in each().limits(hosts.subset(numpy.array([0])), asked).items()
            if value[0] == value[0]
        }
        assert fit.limits == limits


@pytest.mark.parametrize(
    ("each", "key", "host", "sizes"),
    [
        # used 2048 of 2048: passes under 2048 * 2 only
        (
            filters.AggregateRamFilter,
            "ram_allocation_ratio",
            {"memory_mb": 2048, "memory_mb_used": 2048},
            {"memory_mb": 2048},
        ),
        (filters.AggregateCoreFilter, "cpu_allocation_ratio", {"vcpus": 2, "vcpus_used": 2}, {"vcpus": 2}),
        (filters.AggregateDiskFilter, "disk_allocation_ratio", {"local_gb": 5, "local_gb_used": 5}, {"root_gb": 5}),
    ],
)
def test_aggregate_overrides_the_ratio(each, key, host, sizes):
    """The smallest ratio of the aggregates counts; a value that is no number leaves the host its own."""
    hosts = factories.candidates(
        *(node(name, **host) for name in ("plain", "two", "two-and-one", "bad")),
        aggregates=[
            aggregate(["two", "two-and-one"], 1, **{key: "2.0"}),
            aggregate(["two-and-one"], 2, **{key: "1.0"}),
            aggregate(["bad"], 3, **{key: "many"}),
        ],
    )
    assert {"two"} == passed(each(), hosts, request(sizes))


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("", ["east", "nowhere", "listed"]),
        ("east", ["east", "listed"]),
        ("west", ["listed"]),
        ("nova", ["nowhere"]),
        ("atlantis", []),
    ],
)
def test_availability_zone(zone, expected):
    """Zones come from aggregates, several separated by commas; hosts in none are in the default zone."""
    hosts = factories.candidates(
        node("east"),
        node("nowhere"),
        node("listed"),
        aggregates=[
            aggregate(["east"], 1, availability_zone="east"),
            aggregate(["listed"], 2, availability_zone="west, east"),
            aggregate(["nowhere"], 3, rack="7"),
        ],
    )
    each = filters.AvailabilityZoneFilter("nova")
    assert set(expected) == passed(each, hosts, request(instance={"availability_zone": zone}))


@pytest.mark.parametrize(
    ("name", "service", "up"),
    [
        ("heard from at the limit", {"last_seen_up": NOW - datetime.timedelta(seconds=60)}, True),
        ("silent", {"last_seen_up": NOW - datetime.timedelta(seconds=61)}, False),
        ("from a clock ahead, within the limit", {"last_seen_up": NOW + datetime.timedelta(seconds=60)}, True),
        ("from a clock too far ahead", {"last_seen_up": NOW + datetime.timedelta(seconds=61)}, False),
        ("never heard from", {"last_seen_up": None}, False),
        ("disabled", {"disabled": True}, False),
        ("forced down", {"forced_down": True}, False),
    ],
)
def test_compute(name, service, up):
    """A host passes whose service is enabled, not forced down, and was heard from within the limit."""
    hosts = factories.candidates(node(), services=[Service(**service)])
    assert ({"host1"} if up else set()) == passed(filters.ComputeFilter(60), hosts, request()), name


@pytest.mark.parametrize(
    ("heard_s_ago", "expected_s"),
    [((10, 50), 10), ((10, 61), 50), ((-61,), 1), ((-30, 20), 40), ((60,), 0), ((1000,), math.inf)],
)
def test_until_when_time_alone_changes_nothing(heard_s_ago, expected_s):
    """The next host goes silent 60 s after it was heard from, or was heard from by a clock that is 60 s ahead."""
    names = [f"h{number}" for number in range(len(heard_s_ago))]
    seen = [NOW - datetime.timedelta(seconds=ago) for ago in heard_s_ago]
    services = [Service(name, last_seen_up=each) for name, each in zip(names, seen, strict=True)]
    hosts = factories.candidates(*map(node, names), services=services)
    assert expected_s == liveness.steady_until(hosts, 60) - hosts.now


def test_retry_excludes_the_exact_node():
    """A retry goes to another node of the same host, and a pair that is not known is no matter."""
    hosts = factories.candidates(node("a", "n1"), node("a", "n2"), node("b", "n1"))
    asked = request(retry={"num_attempts": 2, "hosts": [["a", "n1"], ["gone", "n1"], ["b", None]]})
    mask = filters.RetryFilter().mask(hosts, asked)
    assert [("a", "n2"), ("b", "n1")] == [hosts.key(row) for row in hosts.rows[mask & hosts.present()].tolist()]


HINTS = [
    ("same_host", uuid(1), ["a"]),
    ("same_host", [uuid(1), uuid(2)], ["a", "b"]),
    ("same_host", [uuid(9)], []),
    ("same_host", [], ["a", "b", "empty"]),
    ("different_host", uuid(1), ["b", "empty"]),
    ("different_host", [uuid(1), uuid(2)], ["empty"]),
    ("different_host", [uuid(9)], ["a", "b", "empty"]),
]


@pytest.mark.parametrize(("hint", "value", "expected"), HINTS)
def test_host_hints(hint, value, expected):
    """The hints name one instance or several; an instance that is nowhere is on no host."""
    hosts = factories.candidates(
        node("a"),
        node("b"),
        node("empty"),
        instances=[PlacedInstance(uuid(1), "a"), PlacedInstance(uuid(2), "b")],
    )
    each = {"same_host": filters.SameHostFilter(), "different_host": filters.DifferentHostFilter()}[hint]
    assert set(expected) == passed(each, hosts, request(scheduler_hints={hint: value}))


MEMBERS = {"group_members": [uuid(1), uuid(2), uuid(3), uuid(1000)]}
GROUPS = [
    ("no policy", filters.ServerGroupAntiAffinityFilter, {"group_hosts": ["a"]}, ["a", "b", "c"]),
    (
        "soft policy",
        filters.ServerGroupAntiAffinityFilter,
        {"group_policies": ["soft-anti-affinity"], "group_hosts": ["a"]},
        ["a", "b", "c"],
    ),
    (
        "hosts without members",
        filters.ServerGroupAntiAffinityFilter,
        {"group_policies": ["anti-affinity"], "group_hosts": ["a"]},
        ["b", "c"],
    ),
    (
        "members where they are",
        filters.ServerGroupAntiAffinityFilter,
        {"group_policies": ["anti-affinity"], **MEMBERS},
        ["c"],
    ),
    (
        "two a host",
        filters.ServerGroupAntiAffinityFilter,
        {"group_policies": ["anti-affinity"], "group_max_server_per_host": 2, **MEMBERS},
        ["b", "c"],
    ),
    (
        "first of an affinity group",
        filters.ServerGroupAffinityFilter,
        {"group_policies": ["affinity"]},
        ["a", "b", "c"],
    ),
    (
        "affinity",
        filters.ServerGroupAffinityFilter,
        {"group_policies": ["affinity"], "group_hosts": ["b"]},
        ["b"],
    ),
    (
        "affinity while a member moves",
        filters.ServerGroupAffinityFilter,
        {"group_policies": ["affinity"], "group_places": [(uuid(7), "b"), (uuid(7), "c")]},
        [],
    ),
    (
        "affinity while the requested instance moves",
        filters.ServerGroupAffinityFilter,
        {"group_policies": ["affinity"], "group_hosts": ["b"], "group_places": [(uuid(1000), "b"), (uuid(1000), "c")]},
        ["b"],
    ),
    (
        "affinity with members that the sender has not seen placed",
        filters.ServerGroupAffinityFilter,
        {"group_policies": ["affinity"], **MEMBERS},
        ["a", "b"],
    ),
]


@pytest.mark.parametrize(("each", "group", "expected"), [pytest.param(*row[1:], id=row[0]) for row in GROUPS])
def test_server_groups(each, group, expected):
    """Two members on a, one on b, none on c."""
    hosts = factories.candidates(
        node("a"),
        node("b"),
        node("c"),
        instances=[PlacedInstance(uuid(1), "a"), PlacedInstance(uuid(2), "a"), PlacedInstance(uuid(3), "b")],
    )
    assert set(expected) == passed(each(), hosts, request(**group))


@pytest.mark.parametrize(
    ("members", "expected", "rest"),
    [
        pytest.param(
            [1000], {"mine", "free"}, {"mine": 1, "other": 0, "free": 1}, id="the sender names the other host"
        ),
        pytest.param([], {"mine", "free"}, {"mine": 1, "other": 0, "free": 1}, id="without a list of members"),
        pytest.param([1000, 1001], {"free"}, {"mine": 0, "other": 0, "free": 1}, id="another member is there too"),
    ],
)
def test_anti_affinity_does_not_count_the_requested_instance(members, expected, rest):
    """Its own host may be among the hosts of the group, as nova's conductor sends them: it may stay for a resize."""
    instances = [PlacedInstance(uuid(1000), "mine"), PlacedInstance(uuid(1001), "mine")]
    hosts = factories.candidates(node("mine"), node("other"), node("free"), instances=instances)
    asked = request(
        group_policies=["anti-affinity"],
        group_hosts=["mine", "other"],
        group_members=[uuid(number) for number in members],
    )
    asked = dataclasses.replace(asked, instance_uuids=(uuid(1000),))
    each = filters.ServerGroupAntiAffinityFilter()
    assert expected == passed(each, hosts, asked)
    left = each.shortfall(hosts, asked)
    assert rest == {hosts.key(row)[0]: places for row, places in zip(hosts.rows, left.usable(), strict=True)}


def test_anti_affinity_lets_an_instance_stay():
    """The instance itself does not count against its own host."""
    hosts = factories.candidates(node("a"), node("b"), instances=[PlacedInstance(uuid(1000), "a")])
    asked = request(group_policies=["anti-affinity"], group_members=[uuid(1000)])
    assert {"a", "b"} == passed(filters.ServerGroupAntiAffinityFilter(), hosts, asked)


def test_all_hosts():
    """No objection."""
    assert {"host1"} == passed(filters.AllHostsFilter(), factories.candidates(node()), request())
