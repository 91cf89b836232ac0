# SPDX-License-Identifier: Apache-2.0
"""Labels of hosts and rules of server groups: what is stored, what the scheduler is sent, and what claims keep."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet import errors
from fleet.context import RequestContext
from fleet.db.feed.feed import ChangeFeed
from fleet.objects import group_rule
from tests.worlds.conductor import Conductor, Operator

RACKS = {"h1": "r1", "h2": "r1", "h3": "r2"}
LIMIT = f"{group_rule.LIMIT}rack"
SPREAD = {"policy": "spread", "label": "rack"}


@pytest.fixture
def racks(conductor: Conductor) -> Conductor:
    """Hosts h1 and h2 report rack r1; h3 gets r2 from the administrator; h4 has no rack."""
    for host in ("h1", "h2"):
        conductor.add_host(host, stats={"labels": {"rack": "r1", "room": "a"}})
    conductor.add_host("h3", stats={"labels": {"rack": "wrong"}})
    conductor.add_host("h4")
    conductor.operator.set_host_labels("h3", {"rack": "r2"})
    return conductor


def group(conductor: Conductor, *rules: dict[str, Any], policy: str = "none") -> None:
    conductor.operator.create_group("g", policy, rules=list(rules))


def labels(conductor: Conductor) -> dict[str, dict[str, str]]:
    return {each["host"]: each["labels"] for each in conductor.operator.list_hosts()}


def test_labels_are_shown(racks: Conductor) -> None:
    """In lists, in tables and of one host: the administrator's win."""
    known = {"h1": {"rack": "r1", "room": "a"}, "h2": {"rack": "r1", "room": "a"}, "h3": {"rack": "r2"}, "h4": {}}
    assert known == {host: found for host, found in labels(racks).items() if host in known}
    assert [["h3", {"rack": "r2"}]] == [
        each for each in racks.operator.host_table(["host", "labels"]) if each[0] == "h3"
    ]
    assert {"rack": "r2"} == racks.operator.show_host("h3")["nodes"][0]["labels"]


def test_labels_survive_a_report_and_can_be_taken_back(racks: Conductor) -> None:
    racks.add_host("h3", stats={"labels": {"rack": "wrong", "power": "p"}})
    assert {"power": "p", "rack": "r2"} == labels(racks)["h3"]
    assert {"power": "p"} == racks.operator.set_host_labels("h3", {"rack": ""})
    assert {"power": "p", "rack": "wrong"} == racks.operator.set_host_labels("h3", {"rack": None})


def test_a_changed_label_is_an_act_and_reaches_schedulers(racks: Conductor) -> None:
    (act,) = racks.operator.list_acts(limit=1)
    assert ("host.label", "h3", {"rack": ["wrong", "r2"]}) == (act["act"], act["subject"], act["changes"])
    feed = ChangeFeed(racks.database)
    before = feed.read(0).generation
    racks.operator.set_host_labels("h4", {"rack": "r9"})
    changes = feed.read(before)
    assert [("h4", {"rack": "r9"})] == [(node.host, json.loads(node.labels)) for node in changes.nodes]
    racks.operator.set_host_labels("h4", {"rack": "r9"})
    assert [] == list(feed.read(changes.generation).nodes)


@pytest.mark.parametrize("changes", [{"rack": "a b"}, {"rack": "a=b"}, {"ra ck": "a"}, {"rack": 7}, {"rack": "x" * 64}])
def test_wrong_labels_are_refused(racks: Conductor, changes: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput, match="labels(.ra| has a key that)"):
        racks.operator.set_host_labels("h1", changes)
    assert {"rack": "r1", "room": "a"} == labels(racks)["h1"]


def test_a_host_that_is_not_there(racks: Conductor) -> None:
    with pytest.raises(errors.NotFound, match="nowhere"):
        racks.operator.set_host_labels("nowhere", {"rack": "r1"})


def test_the_scheduler_is_sent_the_rules(racks: Conductor) -> None:
    """Policy none is no policy over hosts."""
    group(racks, {**SPREAD, "max_skew": 2})
    uuid = racks.place("h1", group="g")
    (_spec, asked) = racks.scheduler.requests[-1]
    assert ([], [{**SPREAD, "max_skew": 2}]) == (asked["group_policies"], asked["group_rules"])
    assert [uuid] == asked["group_members"]


@pytest.mark.parametrize(
    ("rule", "first", "refused", "taken"),
    [
        pytest.param({"policy": "anti-affinity", "label": "rack"}, "h1", ["h2"], "h3", id="apart"),
        pytest.param({"policy": "anti-affinity", "label": "rack"}, "h4", [], "h4", id="apart, without a rack"),
        pytest.param({"policy": "affinity", "label": "rack"}, "h1", ["h3", "h4"], "h2", id="together"),
        pytest.param({"policy": "must", "label": "rack", "values": ["r1"]}, "h1", ["h3", "h4"], "h1", id="must"),
        pytest.param({"policy": "must-not", "label": "rack", "values": ["r2"]}, "h1", ["h3"], "h4", id="must not"),
        pytest.param({"policy": "soft-affinity", "label": "rack"}, "h1", [], "h3", id="a preference"),
    ],
)
def test_a_rule_is_held_at_the_claim(
    racks: Conductor, rule: dict[str, Any], first: str, refused: list[str], taken: str
) -> None:
    """A scheduler that did not know of the first member, or not of the rules, has sent the second one wrong."""
    group(racks, rule)
    racks.claim(racks.place(first, group="g"), first)
    for host in refused:
        with pytest.raises(errors.GroupAffinityViolation, match=f"policy={rule['policy']}"):
            racks.claim(racks.place(host, group="g"), host)
    assert taken == racks.claim(racks.place(taken, group="g"), taken).host


def test_a_spread_is_held_at_the_claim(racks: Conductor) -> None:
    """The limit of the scheduler's choice counts: two choices of the same moment do not both go to the emptiest rack."""
    group(racks, SPREAD)
    racks.scheduler.limits = {LIMIT: 1.0}
    one, two = (racks.place("h1", group="g") for _number in range(2))
    racks.claim(one, "h1")
    with pytest.raises(errors.GroupAffinityViolation, match="policy=spread"):
        racks.claim(two, "h1")
    racks.scheduler.limits = {LIMIT: 2.0}
    third = racks.place("h2", group="g")
    assert "h2" == racks.claim(third, "h2").host


def test_both_the_policy_and_the_rules_count(racks: Conductor) -> None:
    group(racks, {"policy": "anti-affinity", "label": "rack", "max_members": 2}, policy="anti-affinity")
    racks.claim(racks.place("h1", group="g"), "h1")
    with pytest.raises(errors.GroupAffinityViolation, match="the anti-affinity policy"):
        racks.claim(racks.place("h1", group="g"), "h1")
    assert "h2" == racks.claim(racks.place("h2", group="g"), "h2").host


def test_a_group_needs_a_policy_or_rules(racks: Conductor) -> None:
    group(racks, SPREAD)
    with pytest.raises(errors.InvalidInput, match="policy can be none only for a group with rules"):
        racks.operator.update_group("g", rules=[])
    racks.operator.update_group("g", policy="affinity", rules=[])
    with pytest.raises(errors.InvalidInput, match="policy can be none only for a group with rules"):
        racks.operator.update_group("g", policy="none")


def test_rules_stay_while_the_group_has_members(racks: Conductor) -> None:
    group(racks, SPREAD)
    changed = racks.operator.update_group("g", rules=[{**SPREAD, "max_skew": 3}])
    assert [{**SPREAD, "max_skew": 3}] == changed["rules"]
    racks.place("h1", group="g")
    with pytest.raises(errors.Conflict, match="has 1 members, so its rules stay"):
        racks.operator.update_group("g", rules=[])
    racks.operator.update_group("g", rules=[{**SPREAD, "max_skew": 3}], new_name="same rules")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], "policy can be none only for a group with rules"),
        ([{"policy": "spread"}], "rules.0.label is required"),
    ],
)
def test_a_wrong_group_is_refused(racks: Conductor, rules: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        group(racks, *rules)


def test_a_project_chooses_no_hosts(racks: Conductor) -> None:
    """Rules among members are every user's, rules that choose hosts are the administrator's."""
    web = RequestContext(project_id="web", user_id="wendy", is_admin=False)
    theirs = Operator(*racks.operator.endpoints, asking=lambda: web)
    assert [{**SPREAD, "max_skew": 1}] == theirs.create_group("theirs", "none", rules=[SPREAD])["rules"]
    for policy in ("must", "must-not", "should"):
        rule = {"policy": policy, "label": "rack", "values": ["r1"]}
        with pytest.raises(errors.NotTrusted, match=policy):
            theirs.create_group("hosts", "none", rules=[rule])
        with pytest.raises(errors.NotTrusted, match=policy):
            theirs.update_group("theirs", rules=[rule])
