# SPDX-License-Identifier: Apache-2.0
"""How many more instances fit, what runs out first, and what is left that they cannot use."""

from __future__ import annotations

import math

import numpy
import pytest

from fleet import errors
from fleet.reasons import Reason
from scheduler.compute import filters, weights
from scheduler.compute.drivers import capacity_count
from scheduler.engine.pipeline import prepare
from scheduler.engine.supervision.supervision import PluginWatch
from scheduler.why.shortfall import Shortfall
from tests import factories
from tests.factories import PlacedInstance, Service, aggregate, node, request, uuid

CHOSEN = (
    filters.AvailabilityZoneFilter(),
    filters.RamFilter(),
    filters.DiskFilter(),
    filters.CoreFilter(),
    filters.ComputeFilter(),
)
#: 8 vcpus, 16 GB and 100 GB, empty: 4 instances by RAM, 8 by vcpus, 10 by disk.
SIZES = {"memory_mb": 4096, "vcpus": 1, "root_gb": 10}


def counted(*nodes, asked=None, group_by=None, chosen=CHOSEN, **known):
    hosts = factories.candidates(*nodes, **known)
    return capacity_count.survey(prepare(factories.pipeline(chosen), asked or request(SIZES)), hosts, group_by).answer()


FITS = [
    ("RAM binds", {}, SIZES, 4, "RAM"),
    ("vcpus bind", {"vcpus": 3}, SIZES, 3, "vcpus"),
    ("disk binds", {"local_gb": 25}, SIZES, 2, "disk"),
    ("nothing left", {"memory_mb_used": 16384}, SIZES, 0, "RAM"),
    ("overcommitted", {"ram_allocation_ratio": 1.5}, SIZES, 6, "RAM"),
    ("never against itself", {"ram_allocation_ratio": 3.0}, {**SIZES, "memory_mb": 20000}, 0, "RAM"),
    ("swap is looked for once", {"local_gb": 21}, {**SIZES, "root_gb": 10, "swap": 1024}, 2, "disk"),
    ("swap that the last does not find", {"local_gb": 20}, {**SIZES, "root_gb": 10, "swap": 1024}, 1, "disk"),
    ("no CPU reported is no limit", {"vcpus": 0}, SIZES, 4, "RAM"),
]


@pytest.mark.parametrize(("name", "columns", "sizes", "fits", "binds"), FITS)
def test_one_host(name, columns, sizes, fits, binds):
    """The count equals placing one after the other; the resource with the least room binds first."""
    answer = counted(node("a", **columns), asked=request(sizes))
    assert (fits, binds) == (answer["fits"], answer["binds_first"]), name


@pytest.mark.parametrize(("name", "columns", "sizes", "fits", "binds"), FITS)
def test_it_is_what_would_be_placed(name, columns, sizes, fits, binds):
    """The count is the number of instances that a request for more than fit would have placed."""
    made = factories.decision(
        factories.pipeline(CHOSEN), factories.candidates(node("a", **columns)), request(sizes, count=20)
    )
    assert fits == len(made.picks), name


def test_hosts_that_may_not_take_it_do_not_count():
    """What a zone or a dead agent keeps away has no room, and is shown in the filters' counts."""
    answer = counted(node("a"), node("b"), services=[Service("a"), Service("b", disabled=True)])
    assert (4, 1, 2) == (answer["fits"], answer["hosts"], answer["considered"])
    assert {"name": "ComputeFilter", "start": 2, "end": 1} in answer["filters"]


def test_what_is_stranded():
    """Usable for others, but left when no further instance of this flavor fits."""
    answer = counted(node("a"), node("b", memory_mb_used=14000))
    # a: 4 × 4096 MB; b: 2384 MB are too little. Of 16 vcpus and 200 GB, 4 and 40 are taken.
    assert {"RAM": 2384.0, "disk": 160.0, "vcpus": 12.0} == {
        name: each["stranded"] for name, each in answer["stranded"].items()
    }


def test_the_largest_single_instance():
    """Of the flavor's shape: what the roomiest host could take as one."""
    answer = counted(node("a", memory_mb=8192), node("b", memory_mb_used=4096))
    assert ("b", 3.0, 3.0) == tuple(answer["largest"][key] for key in ("host", "times", "fits"))
    assert {"RAM": 12288.0, "disk": 100.0, "vcpus": 8.0} == answer["largest"]["room"]


GROUPS = [
    ("zone", {"east": 4, "nova": 4, "west": 4}),
    ("aggregate", {"(none)": 4, "aggregate1": 8, "aggregate2": 4, "aggregate3": 4}),
]


@pytest.mark.parametrize(("group_by", "expected"), GROUPS)
def test_groups(group_by, expected):
    """A host counts in each of its aggregates; in zones, one that is in none counts in the default one."""
    found = [
        aggregate(["a", "b"], 1),
        aggregate(["a"], 2, availability_zone="east"),
        aggregate(["b"], 3, availability_zone="west"),
    ]
    answer = counted(node("a"), node("b"), node("c"), aggregates=found, group_by=group_by)
    assert expected == {group["name"]: group["fits"] for group in answer["groups"]}


def test_nothing_limits():
    """Without a filter of capacity there is no number."""
    answer = counted(node("a"), chosen=())
    assert (None, None, None) == (answer["fits"], answer["binds_first"], answer["largest"])


def test_a_filter_without_numbers_is_remarked():
    """Such a filter can judge one instance only."""

    class Mine(filters.BaseHostFilter):
        reason = Reason.CAPACITY

        def host_passes(self, host_state, filter_properties):
            return True

    answer = counted(node("a", memory_mb=4096), chosen=(Mine(),))
    assert ["Filter Mine tells one instance only: fewer may fit than are counted."] == answer["remarks"]


EXACTLY = [
    ("fits", {"memory_mb": 4096}, {}, 1),
    ("too much is free", {"memory_mb": 8192}, {}, 0),
    ("too little", {"memory_mb": 2048}, {}, 0),
]


@pytest.mark.parametrize(("name", "columns", "sizes", "fits"), EXACTLY)
def test_exactly(name, columns, sizes, fits):
    """A host that must fit exactly takes one, and then none."""
    answer = counted(node("a", **columns), asked=request({**SIZES, **sizes}), chosen=(filters.ExactRamFilter(),))
    assert (fits, "RAM", []) == (answer["fits"], answer["binds_first"], answer["remarks"]), name


def test_a_diskless_instance_fits_an_empty_disk_exactly_for_ever():
    """An instance that takes no disk does not reduce it."""
    answer = counted(node("a", local_gb=0), asked=request({"root_gb": 0}), chosen=(filters.ExactDiskFilter(),))
    assert None is answer["fits"]


MEMBERS = [uuid(1), uuid(2)]
ON_A = [PlacedInstance(uuid(1), "a", "a")]
GROUPED = [
    ("apart", {"group_policies": ["anti-affinity"]}, {}, 3),
    ("apart, and one is on a", {"group_policies": ["anti-affinity"], "group_hosts": ["a"]}, {}, 2),
    (
        "two a host, and one is on a",
        {"group_policies": ["anti-affinity"], "group_members": MEMBERS, "group_max_server_per_host": 2},
        {"instances": ON_A},
        5,
    ),
    ("together: on the roomiest", {"group_policies": ["affinity"]}, {}, 8),
    ("together with those on a", {"group_policies": ["affinity"], "group_hosts": ["a"]}, {}, 4),
    ("softly apart is no rule", {"group_policies": ["soft-anti-affinity"]}, {}, 16),
]


@pytest.mark.parametrize(("name", "group", "known", "fits"), GROUPED)
def test_groups_are_kept(name, group, known, fits):
    """As many as the group's policy lets in: what a request for more than fit would have placed."""
    chosen = (*CHOSEN, filters.ServerGroupAntiAffinityFilter(), filters.ServerGroupAffinityFilter())
    nodes = node("a"), node("b"), node("c", memory_mb=32768)
    asked = request(SIZES, group_updated=True, **group)
    answer = counted(*nodes, asked=asked, chosen=chosen, **known)
    assert fits == answer["fits"], name
    hosts = factories.candidates(*nodes, **known)
    weighers = [weights.RAMWeigher()]
    made = factories.decision(factories.pipeline(chosen, weighers), hosts, factories.repeated(asked, 30))
    assert fits == len(made.picks), name


def test_no_hosts():
    """An empty fleet has no room, and nothing binds."""
    answer = counted()
    assert (0, None, None, []) == tuple(answer[key] for key in ("fits", "binds_first", "largest", "groups"))


def test_what_is_not_asked_for_does_not_limit():
    """A diskless instance fits any number of times into any disk."""
    numbers = Shortfall("disk", "GB", 0, numpy.array([5.0]), numpy.array([1.0]), numpy.array([5.0]))
    assert [math.inf] == numbers.fits().tolist()


class Spoilt(filters.RamFilter):
    """Its numbers are none."""

    def shortfall(self, hosts, request):
        return {"RAM": len(hosts)}


class Uncounted(filters.RamFilter):
    """Its numbers cannot be counted."""

    def shortfall(self, hosts, request):
        return _Uncounted(**vars(super().shortfall(hosts, request)))


class _Uncounted(Shortfall):
    def fits(self, bound=None):
        return "many"


@pytest.mark.parametrize("bad", [Spoilt(), Uncounted()])
def test_a_filters_bad_numbers(bad):
    """The question fails with the filter's name, or is answered without it, as the operator has chosen."""
    with pytest.raises(errors.PluginFailed) as failed:
        counted(node("a"), chosen=(bad, filters.CoreFilter()))
    assert f"Filter {type(bad).__name__} failed: gave " in failed.value.message
    pipeline = factories.pipeline((bad, filters.CoreFilter()), watch=PluginWatch("skip"))
    answer = capacity_count.survey(prepare(pipeline, request(SIZES)), factories.candidates(node("a"))).answer()
    assert (8, 1) == (answer["fits"], len(answer["remarks"]))


#: Racks a (a1, a2), b and c; bare has no rack. By RAM: 4 on each, 8 on c1.
RACKED = (
    *(node(name, labels={"rack": name[0]}) for name in ("a1", "a2", "b1")),
    node("c1", labels={"rack": "c"}, memory_mb=32768),
    node("bare"),
)
RULES = [
    ("one a rack, and bare", [{"policy": "anti-affinity"}], [], 3 + 4),
    ("two a rack, one is on a1", [{"policy": "anti-affinity", "max_members": 2}], ["a1"], 1 + 2 + 2 + 4),
    ("in one rack", [{"policy": "affinity"}], [], 8),
    ("in the rack of b1", [{"policy": "affinity"}], ["b1"], 4),
    ("in the rack of a1", [{"policy": "affinity"}], ["a1"], 8),
    ("b holds up the others at 4 + 1", [{"policy": "spread"}], [], 5 + 4 + 5),
    ("b ends at 5, the others at 6", [{"policy": "spread"}], ["b1"], 6 + 4 + 6),
    ("by 3", [{"policy": "spread", "max_skew": 3}], [], 7 + 4 + 7),
    ("a preference", [{"policy": "soft-spread"}], [], 24),
    ("not in c, and spread: c takes none and holds up all", [
        {"policy": "spread"}, {"policy": "must-not", "values": ["c"]}], [], 1 + 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "rules", "members_on", "fits"), RULES)
def test_rules_over_labels_are_kept(name, rules, members_on, fits):
    """As many as a request for more than fit would have placed, if it begins in the rack with the most room."""
    chosen = (*CHOSEN, filters.FailureDomainFilter())
    placed = [PlacedInstance(uuid(1), host, host) for host in members_on]
    asked = request(
        SIZES, group_rules=[{"label": "rack", **rule} for rule in rules], group_members=[uuid(1)], group_updated=True
    )
    answer = counted(*RACKED, asked=asked, chosen=chosen, instances=placed)
    assert fits == answer["fits"], name
    hosts = factories.candidates(*RACKED, instances=placed)
    made = factories.decision(factories.pipeline(chosen, [weights.RAMWeigher()]), hosts, factories.repeated(asked, 40))
    assert fits == len(made.picks), name


@pytest.mark.parametrize("policy", ["spread", "anti-affinity", "affinity"])
def test_a_rule_over_labels_without_a_host_that_may_take_it(policy):
    """Where other filters leave no host, nothing fits."""
    chosen = (*CHOSEN, filters.IsolatedHostsFilter(["image1"]), filters.FailureDomainFilter())
    rule = {"label": "rack", "policy": policy}
    asked = request(SIZES, {"image_ref": "image1"}, group_rules=[rule], group_members=[uuid(1)])
    placed = [PlacedInstance(uuid(1), "a1", "a1")]
    answer = counted(*RACKED, asked=asked, chosen=chosen, instances=placed)
    assert (0, 0, None) == (answer["fits"], answer["hosts"], answer["largest"])


def test_a_spread_over_domains_that_take_no_instances():
    """Without ComputeFilter hosts that are down pass. The emptiest domain then has no member, here as in a decision."""
    chosen = (filters.RamFilter(), filters.FailureDomainFilter())
    asked = request(SIZES, group_rules=[{"label": "rack", "policy": "spread"}], group_members=[uuid(1)])
    rest = {
        "instances": [PlacedInstance(uuid(1), "a1", "a1")],
        "services": [factories.Service(each.host, forced_down=True) for each in RACKED],
    }
    answer = counted(*RACKED, asked=asked, chosen=chosen, **rest)
    made = factories.decision(
        factories.pipeline(chosen, [weights.RAMWeigher()]),
        factories.candidates(*RACKED, **rest),
        factories.repeated(asked, 40),
    )
    assert 2 == len(made.picks) == answer["fits"]


def test_several_rules_are_a_bound():
    asked = request(SIZES, group_rules=[{"label": label, "policy": "anti-affinity"} for label in ("rack", "power")])
    answer = counted(*RACKED, asked=asked, chosen=(*CHOSEN, filters.FailureDomainFilter()))
    assert 7 == answer["fits"]
    assert ["Each rule of the group is counted by itself: all of them together may let fewer in."] == answer["remarks"]
