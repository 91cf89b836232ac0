# SPDX-License-Identifier: Apache-2.0
"""Lost hosts, proved by the filters and the decision code on a copy of the fleet."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fleet import errors
from fleet.objects.survival import Loss
from fleet.objects.whatif import Demand
from scheduler.compute.planning import survival
from scheduler.planning.hypothetical import ChangedRow
from scheduler.planning.survival.room import Proof, Verdict
from tests.factories import Service, uuid
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_rebalance import FilledHosts


class Drill:
    """Hosts of 8 vcpus and 8 GB, with guests of these sizes in GB and vcpus."""

    def __init__(self, hosts: dict[str, list[int]], **properties: Mapping[str, Any]) -> None:
        """:param properties: filter properties of single guests: ``g1`` is the first"""
        self.fleet = FilledHosts(hosts)
        self._properties = {uuid(int(name[1:])): value for name, value in properties.items()}

    def requests_of(self, uuids: Sequence[str]) -> dict[str, Demand | errors.FleetError]:
        found: dict[str, Demand | errors.FleetError] = {}
        for name in uuids:
            demand = self.fleet.request_of(name)
            more = {**demand.filter_properties, **self._properties.get(name, {})}
            found[name] = dataclasses.replace(demand, filter_properties=more)
        return found

    def lose(self, *hosts: str, **options: Any) -> Proof:
        report = survival.run(
            configuration(**options),
            self.fleet.state,
            [Loss("+".join(hosts), hosts)],
            self.requests_of,
            lambda _name: None,
        )
        (proof,) = report.proofs
        return proof

    def disable(self, host: str) -> None:
        services = [
            dataclasses.replace(each, disabled=True) if each.host == host else each
            for each in self.fleet.state.services
        ]
        self.fleet.state = dataclasses.replace(self.fleet.state, services=services)


def group(policy: str, *members: int, most: int = 1, hosts: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "group_policies": [policy],
        "group_uuid": uuid(500),
        "group_members": [uuid(each) for each in members],
        "group_hosts": list(hosts),
        "group_max_server_per_host": most,
    }


def test_each_guest_gets_a_host_of_its_own() -> None:
    proof = Drill({"a": [2, 2], "b": [6], "c": [5]}).lose("a")
    assert (Verdict.SAFE, {"b", "c"}) == (proof.verdict, set(proof.plan.values()))


def test_guests_share_a_host_if_they_must() -> None:
    """8 of 8 are taken at the end; the scheduler itself has placed them."""
    proof = Drill({"a": [3, 3, 2], "b": []}).lose("a")
    assert (Verdict.SAFE, {"b"}) == (proof.verdict, set(proof.plan.values()))
    assert "one after the other" in proof.why


def test_room_in_sum_is_not_room_for_each() -> None:
    """12 of 24 are free, and a guest of 5 fits on no other host."""
    proof = Drill({"a": [5], "b": [4], "c": [4]}).lose("a")
    assert (Verdict.UNSAFE, [uuid(1)]) == (proof.verdict, proof.lacking)


def test_together_they_do_not_fit() -> None:
    proof = Drill({"a": [3, 3, 3], "b": [2], "c": [6]}).lose("a")
    assert (Verdict.UNSAFE, 3) == (proof.verdict, len(proof.lacking))
    assert "no arrangement of the 3 guests" in proof.why


def test_a_rack_is_lost_as_a_whole() -> None:
    drill = Drill({"a": [4], "b": [4], "c": [2]})
    assert [Verdict.SAFE, Verdict.SAFE] == [drill.lose(each).verdict for each in ("a", "b")]
    assert Verdict.UNSAFE is drill.lose("a", "b").verdict


def test_a_host_that_takes_no_builds_saves_nobody() -> None:
    drill = Drill({"a": [4], "b": []})
    assert Verdict.SAFE is drill.lose("a").verdict
    drill.disable("b")
    assert Verdict.UNSAFE is drill.lose("a").verdict


def test_members_of_a_group_stay_apart() -> None:
    """b has a member already, so only c may take the other one."""
    apart = group("anti-affinity", 1, 2, hosts=["a", "b"])
    full = {"a": [2], "b": [2], "c": [7]}
    assert Verdict.UNSAFE is Drill(full, g1=apart, g2=apart).lose("a").verdict
    assert Verdict.SAFE is Drill(full).lose("a").verdict
    proof = Drill({**full, "c": [6]}, g1=apart, g2=apart).lose("a")
    assert (Verdict.SAFE, {uuid(1): "c"}) == (proof.verdict, proof.plan)


def test_members_that_were_lost_stay_apart_from_each_other() -> None:
    """Two members of a lost rack, and one host with room for both."""
    apart = group("anti-affinity", 1, 2, hosts=["a", "b"])
    drill = Drill({"a": [2], "b": [2], "c": [], "d": [8]}, g1=apart, g2=apart)
    assert Verdict.UNSAFE is drill.lose("a", "b").verdict
    two = group("anti-affinity", 1, 2, most=2, hosts=["a", "b"])
    proof = Drill({"a": [2], "b": [2], "c": [], "d": [8]}, g1=two, g2=two).lose("a", "b")
    assert (Verdict.SAFE, {"c"}) == (proof.verdict, set(proof.plan.values()))


def test_members_that_stay_together_go_together() -> None:
    """Their host is gone, so it does not bind them; b and c have room for one member each, d for both."""
    together = group("affinity", 1, 2, hosts=["a"])
    hosts = {"a": [3, 3], "b": [4], "c": [4]}
    assert Verdict.SAFE is Drill(hosts).lose("a").verdict
    assert Verdict.UNSAFE is Drill(hosts, g1=together, g2=together).lose("a").verdict
    proof = Drill({**hosts, "d": [1]}, g1=together, g2=together).lose("a")
    assert (Verdict.SAFE, {"d"}) == (proof.verdict, set(proof.plan.values()))


def test_a_preference_forbids_nothing() -> None:
    soft = group("soft-anti-affinity", 1, 2, hosts=["a"])
    assert Verdict.SAFE is Drill({"a": [2, 2], "b": []}, g1=soft, g2=soft).lose("a").verdict


def test_a_host_that_the_request_leaves_out_takes_nobody() -> None:
    """Such as one that does not reach its volumes."""
    left_out = {"ignore_hosts": ["b"]}
    assert Verdict.UNSAFE is Drill({"a": [2], "b": []}, g1=left_out).lose("a").verdict
    proof = Drill({"a": [2, 2], "b": [4], "c": [6]}, g1=left_out).lose("a")
    assert (Verdict.SAFE, {uuid(1): "c", uuid(2): "b"}) == (proof.verdict, proof.plan)


def test_without_a_filter_nothing_is_limited_by_it() -> None:
    drill = Drill({"a": [6], "b": [4]})
    assert Verdict.UNSAFE is drill.lose("a").verdict
    assert Verdict.SAFE is drill.lose("a", scheduler_default_filters=["ComputeFilter"]).verdict


def test_nothing_stays_booked() -> None:
    """The second loss is proved on the fleet as it is."""
    drill = Drill({"a": [3, 3, 2], "b": [], "c": [4, 4]})
    losses = [Loss(name, [name]) for name in ("a", "c", "a")]
    report = survival.run(configuration(), drill.fleet.state, losses, drill.requests_of, lambda _name: None)
    assert [Verdict.SAFE] * 3 == [each.verdict for each in report.proofs]


def test_a_request_that_cannot_be_read_is_named() -> None:
    drill = Drill({"a": [3], "b": []})
    unreadable = {uuid(1): errors.NotFound(kind="Instance", name=uuid(1))}
    report = survival.run(
        configuration(), drill.fleet.state, [Loss("a", ["a"])], lambda _uuids: unreadable, lambda _name: None
    )
    assert Verdict.NOT_PROVED is report.proofs[0].verdict
    assert uuid(1) in report.proofs[0].why


@pytest.mark.parametrize("hosts", [{"a": [2], "b": [2]}])
def test_a_silent_host_takes_nobody(hosts: dict[str, list[int]]) -> None:
    drill = Drill(hosts)
    services = [each for each in drill.fleet.state.services if each.host != "b"]
    drill.fleet.state = dataclasses.replace(drill.fleet.state, services=[*services, Service("b", forced_down=True)])
    assert Verdict.UNSAFE is drill.lose("a").verdict


#: Racks r1 to r3 of two hosts each.
RACKS = {"a1": "r1", "a2": "r1", "b1": "r2", "b2": "r2", "c1": "r3", "c2": "r3"}


def racked(guests: dict[str, list[int]], rule: dict[str, Any], *members: int) -> Drill:
    """These guests are in a group with this rule."""
    known = {
        "group_uuid": uuid(500),
        "group_rules": [{"label": "rack", **rule}],
        "group_members": [uuid(each) for each in members],
        "group_policies": [],
    }
    drill = Drill({host: guests.get(host, []) for host in RACKS}, **{f"g{each}": known for each in members})
    nodes = [ChangedRow(each, labels=json.dumps({"rack": RACKS[each.host]})) for each in drill.fleet.state.nodes]
    drill.fleet.state = dataclasses.replace(drill.fleet.state, nodes=nodes)
    return drill


def test_rules_over_labels_are_kept_among_members() -> None:
    """One member a rack: the member of a1 goes to the other host of its rack, though that has the least room."""
    drill = racked({"a1": [2], "b1": [2], "c1": [2], "a2": [5]}, {"policy": "anti-affinity"}, 1, 3, 4)
    proof = drill.lose("a1")
    assert (Verdict.SAFE, {uuid(1): "a2"}) == (proof.verdict, proof.plan)
    assert Verdict.NOT_PROVED is drill.lose("a1", "a2").verdict


def test_a_lost_rack_does_not_hold_up_a_spread() -> None:
    """Its members are nowhere, and it takes none: racks r2 and r3 share them."""
    drill = racked({"a1": [2, 2], "b1": [2, 2], "c1": [2, 2]}, {"policy": "spread", "max_skew": 1}, 1, 2, 3, 4, 5, 6)
    proof = drill.lose("a1", "a2")
    assert Verdict.SAFE is proof.verdict
    assert ["r2", "r3"] == sorted(RACKS[host] for host in proof.plan.values())


def test_members_that_share_a_rack_move_to_another_one_together() -> None:
    drill = racked({"a1": [4], "a2": [5], "b1": [6], "b2": [4]}, {"policy": "affinity"}, 1, 2)
    assert Verdict.NOT_PROVED is drill.lose("a1").verdict
    proof = drill.lose("a1", "a2")
    assert (Verdict.SAFE, {"r3"}) == (proof.verdict, {RACKS[host] for host in proof.plan.values()})


def test_a_trial_leaves_the_copy_as_it_was() -> None:
    drill = racked({"a1": [2], "b1": [2], "c1": [2]}, {"policy": "anti-affinity"}, 1, 2, 3)
    losses = [Loss(name, [name]) for name in ("a1", "b1", "a1")]
    report = survival.run(configuration(), drill.fleet.state, losses, drill.requests_of, lambda _name: None)
    assert ["a2", "b2", "a2"] == [host for proof in report.proofs for host in proof.plan.values()]
