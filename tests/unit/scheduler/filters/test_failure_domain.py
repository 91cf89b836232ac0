# SPDX-License-Identifier: Apache-2.0
"""FailureDomainFilter and FailureDomainWeigher: rules of a server group over labels of hosts."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fleet.objects import group_rule
from scheduler.compute import filters, weights
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine.decide import decide
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.pipeline import prepare
from scheduler.planning.hypothetical import FixedFeed
from tests import factories
from tests.factories import NOW, PlacedInstance, Service, node, request, uuid
from tests.unit.scheduler.judging import passed, raw
from tests.unit.scheduler.test_manager import Scheduler, explained

MEMBERS = [uuid(1), uuid(2), uuid(3)]
ALL = {"a1", "a2", "b1", "c1", "bare"}
#: Racks a (two hosts), b and c; host bare has no rack.
HOSTS = (
    node("a1", stats={"labels": {"rack": "a", "gpu": "yes"}}),
    node("a2", labels={"rack": "a"}),
    node("b1", stats={"labels": {"rack": "x"}}, labels={"rack": "b"}),
    node("c1", labels={"rack": "c"}),
    node("bare", stats={"labels": {"rack": "c"}}, labels={"rack": ""}),
)


def rule(policy: str, label: str = "rack", **more: Any) -> dict[str, Any]:
    return {"policy": policy, "label": label, **more}


def fleet(*members_on: str, services: Sequence[Service] = ()) -> Candidates:
    """The hosts, with a member of the group on each of these."""
    placed = [PlacedInstance(member, host, host) for member, host in zip(MEMBERS, members_on, strict=False)]
    up = [Service(host) for host in ALL - {each.host for each in services}]
    return factories.candidates(*HOSTS, instances=placed, services=[*up, *services])


@pytest.mark.parametrize(
    ("rules", "members_on", "expected"),
    [
        pytest.param([], ["a1"], ALL, id="no rule"),
        pytest.param([rule("soft-spread")], ["a1"], ALL, id="a preference"),
        pytest.param([rule("anti-affinity")], [], ALL, id="apart, the first member"),
        pytest.param([rule("anti-affinity")], ["a1"], {"b1", "c1", "bare"}, id="apart, rack a has its one"),
        pytest.param([rule("anti-affinity", max_members=2)], ["a1"], ALL, id="apart, two in a rack"),
        pytest.param([rule("anti-affinity", max_members=2)], ["a1", "a2"], {"b1", "c1", "bare"}, id="apart, two there"),
        pytest.param([rule("affinity")], [], ALL - {"bare"}, id="together, the first member needs a rack"),
        pytest.param([rule("affinity")], ["a2"], {"a1", "a2"}, id="together, in rack a"),
        pytest.param([rule("spread")], [], ALL - {"bare"}, id="spread, the first member"),
        pytest.param([rule("spread")], ["a1"], {"b1", "c1"}, id="spread, 1 0 0"),
        pytest.param([rule("spread", max_skew=2)], ["a1", "b1"], ALL - {"bare"}, id="spread by 2, 1 1 0"),
        pytest.param([rule("spread", max_skew=2)], ["a1", "a2"], {"b1", "c1"}, id="spread by 2, 2 0 0"),
        pytest.param([rule("spread")], ["a1", "b1", "c1"], ALL - {"bare"}, id="spread, 1 1 1"),
        pytest.param([rule("must", values=["a", "c"])], [], {"a1", "a2", "c1"}, id="must"),
        pytest.param([rule("must-not", values=["a", "c"])], [], {"b1", "bare"}, id="must not"),
        pytest.param([rule("must", label="gpu", values=["yes"])], [], {"a1"}, id="another label"),
        pytest.param([rule("spread"), rule("must-not", values=["b"])], ["a1"], {"c1"}, id="two rules"),
        pytest.param([rule("affinity", label="row")], [], set(), id="a label that no host has"),
    ],
)
def test_rules(rules: list[dict[str, Any]], members_on: Sequence[str], expected: set[str]) -> None:
    asked = request(group_rules=rules, group_members=[*MEMBERS, uuid(1000)])
    assert expected == passed(filters.FailureDomainFilter(), fleet(*members_on), asked)


@pytest.mark.parametrize(
    "dead",
    [
        {"disabled": True},
        {"forced_down": True},
        {"last_seen_up": NOW - datetime.timedelta(seconds=61)},
    ],
)
def test_a_domain_without_a_live_host_is_not_the_emptiest(dead: Mapping[str, Any]) -> None:
    """Racks a and b have a member each; rack c is dead, and does not block the spread."""
    hosts = fleet("a1", "b1", services=[Service("c1", **dead)])
    asked = request(group_rules=[rule("spread")], group_members=MEMBERS)
    assert {"a1", "a2", "b1", "c1"} == passed(filters.FailureDomainFilter(), hosts, asked)


def test_a_domain_outside_the_zone_is_not_the_emptiest() -> None:
    """Racks a and b are in the zone: of the three racks, the group can use these two."""
    east = factories.aggregate(["a1", "a2", "b1"], 1, availability_zone="east")
    placed = [PlacedInstance(member, host, host) for member, host in zip(MEMBERS, ["a1", "b1"], strict=False)]
    hosts = factories.candidates(*HOSTS, instances=placed, services=map(Service, ALL), aggregates=[east])
    asked = request({}, {"availability_zone": "east"}, group_rules=[rule("spread")], group_members=MEMBERS)
    assert {"a1", "a2", "b1", "c1"} == passed(filters.FailureDomainFilter(), hosts, asked)


def test_members_that_only_the_sender_knows_count() -> None:
    asked = request(group_rules=[rule("anti-affinity")], group_hosts=["a1"], group_members=MEMBERS)
    assert {"b1", "c1", "bare"} == passed(filters.FailureDomainFilter(), fleet(), asked)


def test_instances_of_one_request_are_spread() -> None:
    """When each rack has one, each takes one more: a host that was dropped passes again."""
    made = factories.pipeline([filters.FailureDomainFilter()], [weights.RAMWeigher()])
    asked = request(count=6, group_rules=[rule("spread")])
    picks = factories.decision(made, fleet(), asked).picks
    racks = ["".join(pick.key[0][0] for pick in part) for part in (picks[:3], picks[3:])]
    assert ["abc", "abc"] == ["".join(sorted(part)) for part in racks]
    assert {f"{group_rule.LIMIT}rack": 2.0} == picks[0].limits


@pytest.mark.parametrize(
    ("rules", "members_on", "expected"),
    [
        pytest.param([rule("soft-anti-affinity")], ["a1", "a2"], [-2, -2, 0, 0, 0], id="fewer is better"),
        pytest.param([rule("soft-spread")], ["a1", "b1"], [-1, -1, -1, 0, 0], id="the same of a spread"),
        pytest.param([rule("soft-affinity")], ["a1", "bare"], [1, 1, 0, 0, 0], id="more is better; bare is no rack"),
        pytest.param([rule("should", values=["b", "c"])], [], [0, 0, 1, 1, 0], id="should"),
        pytest.param(
            [rule("soft-affinity"), rule("should", label="gpu", values=["yes"])], ["a1"], [2, 1, 0, 0, 0], id="both"
        ),
    ],
)
def test_preferences(rules: list[dict[str, Any]], members_on: Sequence[str], expected: list[float]) -> None:
    """Raw weights of the hosts a1, a2, b1, c1 and bare."""
    asked = request(group_rules=rules, group_members=MEMBERS)
    weigher = weights.FailureDomainWeigher()
    found = raw(weigher, fleet(*members_on), asked)
    assert (True, expected) == (weigher.applies(asked), [found[each.host] for each in HOSTS])


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity", "spread"])
def test_a_hard_rule_is_no_preference(policy: str) -> None:
    assert not weights.FailureDomainWeigher().applies(request(group_rules=[rule(policy)]))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            rule("anti-affinity"),
            {
                "a1 is in rack a with 1 members of the group; at most 1 may be in one rack",
                "a2 is in rack a with 1 members of the group; at most 1 may be in one rack",
            },
        ),
        (
            rule("spread"),
            {
                "a1 is in rack a with 1 members of the group; the emptiest rack has 0, and max_skew is 1",
                "a2 is in rack a with 1 members of the group; the emptiest rack has 0, and max_skew is 1",
                "bare has no label rack, which a rule of the group needs (policy=spread,label=rack,max_skew=1)",
            },
        ),
        (
            rule("affinity"),
            {
                "b1 is in rack b with 0 members of the group; the members are in rack a",
                "c1 is in rack c with 0 members of the group; the members are in rack a",
                "bare has no label rack, which a rule of the group needs (policy=affinity,label=rack)",
            },
        ),
        (rule("must", values=["a", "b"]), {
            "c1 is in rack c; the group must use a or b",
            "bare has no label rack, which a rule of the group needs (policy=must,label=rack,value=a,value=b)",
        }),
        (rule("must-not", values=["b"]), {"b1 is in rack b, which the group must not use"}),
    ],
)  # fmt: skip
def test_the_reason_names_the_domain_and_the_count(asked: dict[str, Any], expected: set[str]) -> None:
    """Another filter drops the hosts that pass, so the request is refused and its reasons are given."""
    scheduler = Scheduler(*HOSTS, scheduler_default_filters=["FailureDomainFilter", "SameHostFilter"])
    nowhere = {"same_host": [uuid(9)]}
    wanted = request(scheduler_hints=nowhere, group_rules=[asked], group_hosts=["a1"], group_members=MEMBERS)
    said = {each["text"] for each in explained(scheduler, wanted)["nearest"] if each["filter"] == "FailureDomainFilter"}
    assert expected == said


INSIDE, ACROSS = [(MEMBERS[0], "a1"), (MEMBERS[0], "a2")], [(MEMBERS[0], "a1"), (MEMBERS[0], "b1")]


@pytest.mark.parametrize(
    ("asked", "places", "expected"),
    [
        pytest.param(rule("anti-affinity", max_members=2), INSIDE, ALL, id="inside a rack it is one member"),
        pytest.param(rule("spread"), INSIDE, {"b1", "c1"}, id="and a spread sees 1 0 0"),
        pytest.param(rule("affinity"), INSIDE, {"a1", "a2"}, id="and others may join it there"),
        pytest.param(rule("anti-affinity"), ACROSS, {"c1", "bare"}, id="between racks it counts in both"),
        pytest.param(rule("spread"), ACROSS, {"c1"}, id="and a spread sees 1 1 0"),
        pytest.param(rule("affinity"), ACROSS, set(), id="and none can join it: nobody knows where it will end"),
    ],
)
def test_a_member_that_is_being_moved(
    asked: dict[str, Any], places: Sequence[tuple[str, str]], expected: set[str]
) -> None:
    """As the claim counts it. The database shows it on a1."""
    hosts = {host for _uuid, host in places}
    wanted = request(group_rules=[asked], group_hosts=sorted(hosts), group_members=MEMBERS, group_places=places)
    assert expected == passed(filters.FailureDomainFilter(), fleet("a1"), wanted)


def test_a_member_that_is_booked_for_a_move_counts_on_both_hosts() -> None:
    """Such as in a plan of moves."""
    judged, asked = (
        filters.ServerGroupAntiAffinityFilter(),
        request(group_policies=["anti-affinity"], group_members=MEMBERS),
    )
    state = factories.changes(HOSTS, instances=[PlacedInstance(MEMBERS[0], "a1", "a1")])
    feed = FixedFeed(dataclasses.replace(state, services=[Service(host) for host in ALL]))
    manager = HostManager(feed, feed, lambda: NOW)
    manager.refresh()
    made = factories.pipeline([judged])
    moved = dataclasses.replace(asked, instance_uuids=(MEMBERS[0],), requested_hosts=("b1",))
    manager.decide(functools.partial(decide, made, prepare(made, moved), chance=random.Random(1)), (MEMBERS[0],))
    assert ALL - {"a1", "b1"} == manager.consider(lambda hosts, _age: passed(judged, hosts, asked))
    manager.release([MEMBERS[0]])
    assert ALL - {"a1"} == manager.consider(lambda hosts, _age: passed(judged, hosts, asked))
