# SPDX-License-Identifier: Apache-2.0
"""BridgeFilter: where a guest can be plugged."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from fleet.context import new_context
from fleet.objects.rebalance import Goal
from fleet.objects.whatif import Demand
from scheduler.compute import filters
from scheduler.planning.survival.room import Verdict
from tests import factories
from tests.factories import changes, node, request
from tests.unit.scheduler.judging import passed
from tests.unit.scheduler.test_manager import Scheduler, explained
from tests.unit.scheduler.test_rebalance import FilledHosts
from tests.unit.scheduler.test_survival import Drill

HOSTS = (
    node("both", stats={"bridges": "br0,br1"}),
    node("first", stats={"bridges": "br0"}),
    node("second", stats={"bridges": "br1"}),
    node("none", stats={"bridges": ""}),
    node("any"),
    node("other", stats={"rack": "7"}),
)


@pytest.mark.parametrize(
    ("bridges", "expected"),
    [
        (None, {"both", "first", "second", "none", "any", "other"}),
        ([], {"both", "first", "second", "none", "any", "other"}),
        (["br0"], {"both", "first", "any", "other"}),
        (["br0", "br1"], {"both", "any", "other"}),
        (["br"], {"any", "other"}),
    ],
)
def test_bridges(bridges: Sequence[str] | None, expected: set[str]) -> None:
    """All of the request's must be there. A host that does not report any counts as one that has them all."""
    hosts = factories.candidates(*HOSTS)
    assert expected == passed(filters.BridgeFilter(), hosts, request(instance={"bridges": bridges}))


def test_the_reason() -> None:
    """It names the bridge that is missing, and those that are there."""
    scheduler = Scheduler(*(each for each in HOSTS if each.host in ("first", "none")))
    answer = explained(scheduler, request(instance={"bridges": ["br1"]}))
    assert ("POLICY", {"BridgeFilter": 2}) == (answer["reason_code"], answer["dropped"])
    assert {"first has no bridge br1; it has br0", "none has no bridge br1; it has none"} == {
        each["text"] for each in answer["nearest"]
    }


def test_capacity() -> None:
    """Only hosts with the bridge are counted."""
    scheduler = Scheduler(*HOSTS[:4])

    def hosts_with_room(*bridges: str) -> int:
        wanted = request(instance={"bridges": list(bridges)})
        asked = {"request_spec": wanted.request_spec, "filter_properties": dict(wanted.filter_properties)}
        count: int = scheduler.manager.capacity(new_context(), **asked)["hosts_with_room"]
        return count

    assert [4, 2, 1] == [hosts_with_room(), hosts_with_room("br0"), hosts_with_room("br0", "br1")]


def test_a_request_with_another_bridge_is_not_answered_from_the_cache() -> None:
    scheduler = Scheduler(*HOSTS[1:3])

    def chosen(bridge: str) -> str:
        wanted = request(instance={"bridges": [bridge]})
        (found,) = scheduler.select(wanted)
        return str(found["host"])

    assert ["first", "second", "first"] == [chosen("br0"), chosen("br1"), chosen("br0")]


class Wired(FilledHosts):
    """Host ``c`` lacks the bridge of every guest's network; the others have it."""

    def __init__(self, hosts: dict[str, list[int]]) -> None:
        super().__init__(hosts)
        nodes = [
            dataclasses.replace(each, stats={"bridges": "br1" if each.host == "c" else "br0"})
            for each in self.state.nodes
        ]
        self.state = changes(nodes, instances=self.state.instances)

    def request_of(self, name: str) -> Demand:
        found = super().request_of(name)
        found.request_spec["instance_properties"]["bridges"] = ["br0"]
        return found


def test_a_rebalance() -> None:
    """The fullest host with room has no such bridge: guests go to the other."""
    hosts = {"a": [1], "b": [2], "c": [4]}
    assert ["c"] == list({each.destination for each in FilledHosts(hosts).plan(Goal(50)).moves})
    assert ["b"] == list({each.destination for each in Wired(hosts).plan(Goal(50)).moves})


def test_survival() -> None:
    """Room on a host without the bridge saves nobody."""
    drill = Drill({"a": [2], "b": [8], "c": [1]})
    assert Verdict.SAFE is drill.lose("a").verdict
    drill.fleet = Wired({"a": [2], "b": [8], "c": [1]})
    assert Verdict.UNSAFE is drill.lose("a").verdict
