# SPDX-License-Identifier: Apache-2.0
"""Plans of moves that free hosts, or make room for a large instance."""

from __future__ import annotations

import collections
from typing import Any

import pytest

from fleet import errors
from fleet.objects.rebalance import Goal, Plan
from fleet.objects.whatif import Demand
from scheduler.compute.planning import rebalance
from tests.factories import PlacedInstance, Service, changes, node, uuid
from tests.unit.scheduler.plugins import configuration

#: Each host has 8 vcpus and 8 GB.
GB = 1024


class Fleet:
    """Hosts and the sizes in GB (and vcpus) of the instances on each."""

    def __init__(self, hosts: dict[str, list[int]], **states: dict[str, Any]) -> None:
        self.sizes: dict[str, int] = {}
        self.hosts: dict[str, str] = {}
        self.asked: list[str] = []
        rows = []
        for host, sizes in hosts.items():
            for size in sizes:
                name = uuid(len(self.sizes) + 1)
                self.sizes[name], self.hosts[name] = size, host
                rows.append(PlacedInstance(name, host, host, **states.get(host, {})))
        nodes = [
            node(
                host,
                vcpus=8,
                vcpus_used=sum(sizes),
                memory_mb=8 * GB,
                memory_mb_used=sum(sizes) * GB,
                local_gb=100,
                cpu_allocation_ratio=1.0,
                ram_allocation_ratio=1.0,
                running_vms=len(sizes),
            )
            for host, sizes in hosts.items()
        ]
        self.state = changes(nodes, instances=rows)

    def request_of(self, name: str) -> Demand:
        self.asked.append(name)
        size = self.sizes[name]
        held = {"memory_mb": size * GB, "disk_gb": 0, "vcpus": size}
        holding = {"instance_uuid": name, "host": self.hosts[name], "node": self.hosts[name], "claimed": held}
        return Demand({**spec(name, size), "holding": holding}, {"force_hosts": [self.hosts[name]]}, [None])

    def plan(self, goal: Goal, **options: Any) -> Plan:
        return rebalance.run(configuration(**options), self.state, goal, self.request_of, lambda _host: None)

    def after(self, plan: Plan) -> dict[str, int]:
        """Used vcpus by host when the moves are made."""
        used = collections.Counter[str]()
        where = {**self.hosts, **{each.instance_uuid: each.destination for each in plan.moves}}
        for name, host in where.items():
            used[host] += self.sizes[name]
        return dict(used)


def spec(name: str, size: int) -> dict[str, Any]:
    return {
        "instance_type": {"vcpus": size, "memory_mb": size * GB},
        "num_instances": 1,
        "instance_uuids": [name],
        "instance_properties": {"uuid": name},
    }


def demands(count: int, size: int) -> list[Demand]:
    return [Demand(spec(uuid(900 + number), size), {}, [None]) for number in range(count)]


FREED = [
    ("the least memory goes first", {"a": [4], "b": [2], "c": [6]}, {}, ["b"], 1),
    ("all of a host or nothing", {"a": [7], "b": [2, 2], "c": [6]}, {}, [], 0),
    ("no empty host is filled to free another", {"a": [2], "b": []}, {}, [], 0),
    ("several", {"a": [1], "b": [1], "c": [1], "d": [4]}, {}, ["a", "b", "c"], 3),
    ("so many as are wanted", {"a": [1], "b": [1], "c": [1], "d": [4]}, {"free_hosts": 2}, ["a", "b"], 2),
    ("so many moves as are allowed", {"a": [1, 1], "b": [1], "c": [4]}, {"most_moves": 1}, ["b"], 1),
]


@pytest.mark.parametrize(("hosts", "limits", "freed", "moves"), [case[1:] for case in FREED], ids=[c[0] for c in FREED])
def test_hosts_are_freed(hosts: dict, limits: dict, freed: list[str], moves: int) -> None:
    """Hosts of 8 vcpus, with instances of these sizes. No host gets more than it has."""
    fleet = Fleet(hosts)
    plan = fleet.plan(Goal(**{"most_moves": 50, **limits}))
    assert (freed, moves) == (list(plan.freed), len(plan.moves))
    after = fleet.after(plan)
    assert all(used <= 8 for used in after.values())
    assert not set(freed) & set(after)


def test_a_receiver_is_not_freed() -> None:
    """So no instance moves twice, and the moves are independent of each other."""
    fleet = Fleet({name: [1] for name in "abcdefgh"})
    plan = fleet.plan(Goal(50))
    sources, destinations = ({getattr(each, end) for each in plan.moves} for end in ("source", "destination"))
    assert not sources & destinations
    assert (7, 1) == (len(plan.freed), len(destinations))


def test_what_cannot_move_keeps_its_host() -> None:
    """The reason names the instance."""
    fleet = Fleet({"a": [1], "b": [4]}, a={"task_state": "resize_prep"}, b={"vm_state": "resized"})
    plan = fleet.plan(Goal(50))
    assert {
        "a": f"instance {uuid(1)} is active (resize_prep)",
        "b": f"instance {uuid(2)} is resized (no task)",
    } == plan.kept
    assert [] == fleet.asked


def test_hosts_that_are_down_or_disabled_take_no_part() -> None:
    fleet = Fleet({"a": [1], "b": [1], "c": [4]})
    services = [Service("a"), Service("b", disabled=True), Service("c", forced_down=True)]
    fleet.state = changes(fleet.state.nodes, services=services, instances=fleet.state.instances)
    plan = fleet.plan(Goal(50))
    assert ([], ["a"]) == (list(plan.moves), list(plan.kept))


def test_the_configured_filters_decide() -> None:
    """Without CoreFilter and RamFilter everything goes to one host."""
    fleet = Fleet({"a": [5], "b": [6]})
    assert not fleet.plan(Goal(50)).freed
    assert fleet.plan(Goal(50), scheduler_default_filters=["ComputeFilter"]).freed


ROOM = [
    ("it fits now", {"a": [2], "b": [2, 2]}, (1, 5), 1, []),
    ("one move of the smallest that is enough", {"a": [1, 2, 3], "b": [5]}, (1, 4), 1, [(2, "a", "b")]),
    ("the host with less to move", {"a": [4], "b": [3], "c": [5]}, (1, 8), 1, [(3, "b", "c")]),
    ("two together, where one is not enough", {"a": [1, 1, 1], "b": [6]}, (1, 7), 1, [(1, "a", "b"), (1, "a", "b")]),
    ("there is no room at all", {"a": [5], "b": [5]}, (1, 5), 0, []),
    ("as many as can fit", {"a": [3], "b": [3], "c": [6]}, (3, 5), 2, []),
]


@pytest.mark.parametrize(
    ("hosts", "wanted", "fits", "moves"), [case[1:] for case in ROOM], ids=[case[0] for case in ROOM]
)
def test_room_is_made(hosts: dict, wanted: tuple[int, int], fits: int, moves: list) -> None:
    """For so many instances of so many vcpus, on hosts of 8."""
    fleet = Fleet(hosts)
    plan = fleet.plan(Goal(50, demands=demands(*wanted)))
    made = [(fleet.sizes[each.instance_uuid], each.source, each.destination) for each in plan.moves]
    assert (fits, moves) == (plan.fits, made)
    assert all(used <= 8 for used in fleet.after(plan).values())


def test_room_for_several() -> None:
    """Room that was made for one is not used for what moves away for the next."""
    fleet = Fleet({"a": [2], "b": [2], "c": [1, 1, 2], "d": [1, 1]})
    plan = fleet.plan(Goal(50, demands=demands(2, 8)))
    assert 2 == plan.fits
    after = fleet.after(plan)
    assert 2 <= len(set("abcd") - set(after))
    assert all(used <= 8 for used in after.values())


def test_an_instance_that_is_gone_meanwhile() -> None:
    """The conductor no longer knows it: its host is not freed for sure, so it is kept."""
    fleet = Fleet({"a": [1], "b": [4]})
    known = fleet.request_of

    def request_of(name: str) -> Demand:
        if fleet.hosts[name] == "a":
            raise errors.NotFound(kind="Instance", name=name)
        return known(name)

    plan = rebalance.run(configuration(), fleet.state, Goal(50), request_of, lambda _host: None)
    assert "a" not in plan.freed
