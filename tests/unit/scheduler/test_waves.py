# SPDX-License-Identifier: Apache-2.0
"""Waves of hosts that can be empty together."""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import pytest

from fleet import states
from fleet.hardware.node import Hardware, Wanted, fit, take
from fleet.objects import numa
from fleet.objects.tolerance import Tolerance
from fleet.objects.waves import WavesGoal, WavesPlan
from fleet.objects.whatif import Demand
from scheduler.compute.planning import waves
from scheduler.compute.planning.ground import Ground
from tests.factories import uuid
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_rebalance import GB, FilledHosts


def plan(fleet: FilledHosts, *hosts: str, at_a_time: int = 10, promised: Sequence[Tolerance] = ()) -> WavesPlan:
    goal = WavesGoal(hosts or list(dict.fromkeys(node.host for node in fleet.state.nodes)), at_a_time, promised)
    return waves.run(configuration(), fleet.state, goal, fleet.request_of, lambda _host: None)


def violations(fleet: FilledHosts, found: WavesPlan) -> list[str]:
    """Make the moves wave by wave, by these numbers alone: what is wrong on the way."""
    where, wrong = dict(fleet.hosts), []
    for number, wave in enumerate(found.waves, 1):
        for move in wave.moves:
            if where[move.instance_uuid] != move.source or move.destination in wave.hosts:
                wrong.append(f"wave {number}: {move}")
            where[move.instance_uuid] = move.destination
        used = collections.Counter[str]()
        for name, host in where.items():
            used[host] += fleet.sizes[name]
        wrong += [f"wave {number}: {host} has {size} of 8" for host, size in used.items() if size > 8]
        wrong += [f"wave {number}: {host} is not empty" for host in wave.hosts if used[host]]
    return wrong


CASES = [
    ("one after the other, into the one that had its turn", {"a": [8], "b": [8], "c": []}, 10, [["c"], ["a"], ["b"]]),
    ("the emptiest go first, and together", {"a": [1], "b": [1], "c": [8], "d": []}, 2, [["d", "a"], ["b", "c"]]),
    (
        "no more than must, so that guests move once",
        {"a": [1], "b": [1], "c": [6], "d": []},
        10,
        [["d"], ["a", "b", "c"]],
    ),
    (
        "more than must, where that takes fewer waves",
        {"a": [], "b": [3, 4], "c": [3, 1, 3], "d": [2], "e": []},
        10,
        [["a", "e", "c"], ["b", "d"]],
    ),
    ("no more at a time than allowed", {"a": [1], "b": [1], "c": [6], "d": []}, 1, [["d"], ["a"], ["b"], ["c"]]),
    ("empty hosts need no moves", {"a": [], "b": []}, 10, [["a", "b"]]),
]


@pytest.mark.parametrize(("hosts", "at_a_time", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_waves(hosts: dict[str, list[int]], at_a_time: int, expected: list[list[str]]) -> None:
    """Hosts of 8 vcpus, with guests of these sizes."""
    fleet = FilledHosts(hosts)
    found = plan(fleet, at_a_time=at_a_time)
    assert (expected, {}) == ([list(each.hosts) for each in found.waves], found.stuck)
    assert [] == violations(fleet, found)


def test_guests_move_once_where_there_is_room() -> None:
    """Hosts that are not to be emptied, and those that had their turn, take the guests."""
    fleet = FilledHosts({"spare": [], **{f"h{number}": [4, 4] for number in range(8)}})
    found = plan(fleet, *(f"h{number}" for number in range(8)))
    assert [] == violations(fleet, found)
    assert 16 == found.guests == sum(len(each.moves) for each in found.waves)
    assert (8, 8) == (len(found.waves), found.bound)


def test_what_cannot_be_emptied_is_named() -> None:
    """A host whose guests fit nowhere, and one with a guest that is not at rest."""
    full = plan(FilledHosts({"a": [8], "b": [8]}))
    assert ([], {"a", "b"}) == (list(full.waves), set(full.stuck))
    assert all("finds no other host: There are not enough hosts available" in each for each in full.stuck.values())
    busy = plan(FilledHosts({"a": [1], "b": []}, a={"vm_state": "error"}))
    assert "is error" in busy.stuck["a"]
    assert [["b"]] == [list(each.hosts) for each in busy.waves]


def test_a_host_that_is_down_is_left_out() -> None:
    """One that is disabled, maybe for its maintenance, is not."""
    fleet = FilledHosts({"a": [1], "b": [1], "c": []})
    of = {"a": {"disabled": True}, "b": {"forced_down": True}}
    services = [dataclasses.replace(each, **of.get(each.host, {})) for each in fleet.state.services]
    fleet.state = dataclasses.replace(fleet.state, services=services)
    found = plan(fleet)
    assert ({"b": "is down"}, [["c"], ["a"]]) == (found.stuck, [list(each.hosts) for each in found.waves])
    assert [] == violations(fleet, found)


@pytest.mark.parametrize("state", states.AT_REST)
def test_guests_at_rest_stay(state: str) -> None:
    """They hold their room, which is neither free for others nor to be moved: two waves are enough, and needed."""
    fleet = FilledHosts({"a": [4], "b": [6], "c": [3]}, b={"vm_state": state})
    found = plan(fleet)
    assert ([["b", "c"], ["a"]], {}) == ([list(each.hosts) for each in found.waves], found.stuck)
    assert (2, 2) == (found.guests, found.bound)
    moves = [(each.source, each.destination) for wave in found.waves for each in wave.moves]
    assert [("c", "a"), ("a", "c"), ("a", "c")] == moves


@pytest.mark.parametrize("more", [{}, {"group_places": True}], ids=["hosts", "places"])
def test_a_host_that_a_member_has_left_is_free_for_another(more: dict[str, Any]) -> None:
    """The conductor says where the members of a group are; the plan knows where its moves bring them."""
    fleet = FilledHosts({"a": [1], "b": [1], "c": []})
    first, second = fleet.hosts
    fleet.group("anti-affinity", first, second)
    if more:
        for name, other in ((first, second), (second, first)):
            fleet.properties[name]["group_places"] = [[other, fleet.hosts[other]]]
    found = plan(fleet, at_a_time=1)
    assert ({}, [["c"], ["a"], ["b"]]) == (found.stuck, [list(each.hosts) for each in found.waves])


def test_a_member_with_two_places_keeps_both() -> None:
    """It is being moved, so no plan moves it. The conductor says what the feed does not show."""
    fleet = FilledHosts({"a": [1], "b": [1], "c": []})
    guest, member = fleet.hosts
    places = [[member, "b"], [member, "c"]]
    fleet.group("anti-affinity", guest, member)
    fleet.properties[guest].update(group_places=places, group_hosts=["b", "c"])
    (asked,) = Ground(configuration(), fleet.state, fleet.request_of).movable("a")
    assert ({(member, "b"), (member, "c")}, {"b", "c"}) == (asked.request.group_places, asked.request.group_hosts)
    assert "finds no other host" in plan(fleet, "a").stuck["a"]


def test_what_is_reserved_does_not_move() -> None:
    """c takes the guests of both hosts, beside what it keeps for itself."""
    fleet = FilledHosts({"a": [3], "b": [3], "c": []})
    nodes = [
        dataclasses.replace(each, memory_mb_used=each.memory_mb_used + GB, free_ram_mb=each.free_ram_mb - GB)
        for each in fleet.state.nodes
    ]
    fleet.state = dataclasses.replace(fleet.state, nodes=nodes)
    found = plan(fleet, "a", "b")
    assert ([["a", "b"]], 1) == ([list(each.hosts) for each in found.waves], found.bound)


def test_hosts_with_several_nodes_are_left_out() -> None:
    found = plan(FilledHosts({"a/n1": [2], "a/n2": [], "b": [1], "c": []}), "a", "b")
    assert ([["b"]], {"a": "has several nodes"}) == ([list(each.hosts) for each in found.waves], found.stuck)


def test_few_proofs_find_the_hosts_of_a_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a proof of the whole fleet, and says here that two hosts can be spared."""
    proofs: list[int] = []

    def proved(_conf: object, state: Any, *_more: object) -> set[str]:
        proofs.append(sum(each.disabled for each in state.services))
        return {"x"} if proofs[-1] > 2 else set()

    monkeypatch.setattr(waves.kept_promises, "broken", proved)
    fleet = FilledHosts({f"a{number:02}": [] for number in range(16)})
    found = plan(fleet, at_a_time=16, promised=[Tolerance()])
    assert [2] * 8 == [len(each.hosts) for each in found.waves]
    # Of the state before, and of waves of these sizes.
    assert [0, 16, 1, 8, 4, 2, 3] == proofs[:7]


def test_a_host_over_its_limit_needs_no_room_for_it_elsewhere() -> None:
    """a has 24 of 8 and stays: b and c can be empty together."""
    found = plan(FilledHosts({"a": [8, 8, 8], "b": [], "c": [], "d": []}), "b", "c")
    assert (1, [["b", "c"]]) == (found.bound, [list(each.hosts) for each in found.waves])


def test_what_no_filter_judges_bounds_no_plan() -> None:
    """All vcpus are in use, and neither CoreFilter nor RamFilter is configured: one host could take all guests."""
    fleet = FilledHosts({f"h{number}": [8] for number in range(6)})
    goal = WavesGoal([f"h{number}" for number in range(6)], 10, [])
    conf = configuration(scheduler_default_filters=["ComputeFilter"])
    assert 2 == waves.run(conf, fleet.state, goal, fleet.request_of, lambda _host: None).bound


def test_a_member_that_the_fleet_does_not_show_counts() -> None:
    """It is being built on c, which is no place for another member."""
    fleet = FilledHosts({"a": [1], "c": []})
    (name,) = fleet.hosts
    fleet.group("anti-affinity", name, group_members=[name, uuid(99)], group_hosts=["c"])
    assert "finds no other host" in plan(fleet, "a").stuck["a"]


@pytest.mark.parametrize("seed", range(20))
def test_no_wave_breaks_anything(seed: int) -> None:
    """Random fleets: every host is in one wave or named, no host is over its size, and no plan beats the bound."""
    chance = random.Random(seed)
    hosts: dict[str, list[int]] = {}
    for number in range(12):
        sizes: list[int] = []
        while sum(sizes) < 8 * chance.random():
            sizes.append(chance.choice([1, 1, 2, 3]))
        hosts[f"h{number:02}"] = sizes if sum(sizes) <= 8 else sizes[:-1]
    fleet = FilledHosts(hosts)
    found = plan(fleet, at_a_time=chance.choice([1, 3, 12]))
    assert [] == violations(fleet, found)
    assert sorted(hosts) == sorted([*(host for each in found.waves for host in each.hosts), *found.stuck])
    assert len(found.waves) >= found.bound or found.stuck


def test_a_wave_leaves_room_for_a_loss() -> None:
    """With two hosts empty, the guests of none of the others have a place; with one, those of any."""
    hosts = {"a": [], "b": [], "c": [5], "d": [5]}
    assert [["a", "b"]] == [list(each.hosts) for each in plan(FilledHosts(hosts), "a", "b").waves]
    found = plan(FilledHosts(hosts), "a", "b", promised=[Tolerance()])
    assert ([["a"], ["b"]], {}) == ([list(each.hosts) for each in found.waves], found.stuck)


def test_a_host_whose_maintenance_would_break_a_promise_is_stuck() -> None:
    """b is the only place for the guest of a."""
    found = plan(FilledHosts({"a": [5], "b": []}), "b", promised=[Tolerance()])
    assert [] == found.waves
    assert "the promise would not hold while it is empty: the loss of a is not survived" == found.stuck["b"]


def test_a_host_that_a_promise_needs_holds_up_no_other() -> None:
    """b is the emptiest, so its turn would be first. When c is empty, the guest of a has another place."""
    found = plan(FilledHosts({"a": [5], "b": [], "c": [4], "d": [4]}), "b", "c", promised=[Tolerance()])
    assert ([["c"], ["b"]], {}) == ([list(each.hosts) for each in found.waves], found.stuck)


def test_a_promise_is_proved_by_what_a_loss_asks_for() -> None:
    """d takes no running guest of a and b, which may be built there anew when a or b is lost."""
    fleet = FilledHosts({"a": [5], "b": [5], "d": []})

    def running(name: str) -> Demand:
        demand = fleet.request_of(name)
        return dataclasses.replace(demand, filter_properties={**demand.filter_properties, "ignore_hosts": ["d"]})

    goal = WavesGoal(["d"], 10, [Tolerance()])
    found = waves.run(configuration(), fleet.state, goal, running, lambda _host: None, fleet.request_of)
    assert ([], ["d"]) == (found.waves, list(found.stuck))


def test_what_is_lost_already_holds_up_no_maintenance() -> None:
    """The guest of a has no place anyway."""
    found = plan(FilledHosts({"a": [8], "b": [1], "c": [1], "d": [1]}), "b", promised=[Tolerance()])
    assert [["b"]] == [list(each.hosts) for each in found.waves]


class Pinned(FilledHosts):
    """All hosts have two cells with 3 CPUs for pinning; all guests pin 2, so a cell has room for one of them."""

    HOST = numa.HostTopology(
        tuple(
            numa.HostCell(
                id=number, cpuset=frozenset(), memory=8192, pcpuset=frozenset(range(3 * number, 3 * number + 3))
            )
            for number in (0, 1)
        )
    )
    GUEST = numa.InstanceTopology(
        (
            numa.InstanceCell(
                id=0, cpuset=frozenset((0, 1)), pcpuset=frozenset((0, 1)), memory=64, cpu_policy="dedicated"
            ),
        )
    )

    def __init__(self, hosts: dict[str, int]) -> None:
        super().__init__({name: [2] * number for name, number in hosts.items()})
        self.held: dict[str, object] = {}
        free = {name: Hardware(self.HOST) for name in hosts}
        for guest, host in self.hosts.items():
            got = fit(free[host], Wanted(self.GUEST))
            assert got is not None
            assert got.topology is not None
            self.held[guest], free[host] = got.topology.to_wire(), take(free[host], got)
        nodes = [
            dataclasses.replace(each, numa_topology=topology.to_wire())
            for each in self.state.nodes
            if (topology := free[each.host].topology)
        ]
        self.state = dataclasses.replace(self.state, nodes=nodes)

    def request_of(self, name: str) -> Demand:
        demand = super().request_of(name)
        spec = demand.request_spec
        spec["instance_properties"]["numa_topology"] = self.GUEST.to_wire()
        spec["holding"]["claimed"]["numa_topology"] = self.held[name]
        return demand


def test_pinned_guests_give_back_their_cells() -> None:
    """A host that has had its turn has both cells free: it takes the guests of the next one, though vcpus fit elsewhere."""
    fleet = Pinned({"a": 2, "b": 2, "c": 0, "d": 1})
    found = plan(fleet, "a", "b")
    assert ([["a"], ["b"]], {}) == ([list(each.hosts) for each in found.waves], found.stuck)
    where = collections.Counter(fleet.hosts.values())
    for wave in found.waves:
        for move in wave.moves:
            where.update({move.source: -1, move.destination: 1})
        assert all(number <= 2 for number in where.values())
        assert not any(where[host] for host in wave.hosts)


def test_pinned_guests_need_cells() -> None:
    """By its vcpus the host with two guests has room for a third."""
    fleet = Pinned({"a": 1, "b": 2})
    assert "finds no other host" in plan(fleet, "a").stuck["a"]


def test_guests_that_fit_only_if_they_are_packed() -> None:
    """On the fullest host that takes each, the last one finds no place."""
    fleet = FilledHosts({"a": [6, 5, 5, 3, 3], "b": [22], "c": [20], "d": [31]}, capacity=32)
    found = plan(fleet, "a")
    assert (["a"], {}) == (found.waves[0].hosts, found.stuck)
    sizes = collections.defaultdict(list)
    for move in found.waves[0].moves:
        sizes[move.destination].append(fleet.sizes[move.instance_uuid])
    assert {"b": [5, 5], "c": [3, 3, 6]} == {host: sorted(there) for host, there in sizes.items()}


def test_a_promise_that_holds_only_if_the_emptiest_host_takes_the_guest() -> None:
    """On the fullest host that takes it, too little would be left for the guests of b."""
    hosts = {"a": [8], "b": [12, 12, 1], "c": [13], "d": [10]}
    found = plan(FilledHosts(hosts, capacity=32), "a", promised=[Tolerance()])
    assert (["d"], {}) == ([each.destination for each in found.waves[0].moves], found.stuck)


def test_guests_that_fit_nowhere_together_are_left_where_they_are() -> None:
    """And nothing stays booked: the next host goes."""
    found = plan(FilledHosts({"a": [6, 5, 5, 3, 3], "b": [23], "c": [20], "d": [30, 1]}, capacity=32), "a", "d")
    assert (["a", "d"], []) == (sorted(found.stuck), found.waves)
    assert "instance" in found.stuck["a"]
