# SPDX-License-Identifier: Apache-2.0
"""Plans of moves that free hosts, or make room for a large instance."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fleet import errors
from fleet.objects.rebalance import BALANCE, FREE_HOSTS, MAKE_ROOM, UNDO_SKEW, Goal, Measure, Plan
from fleet.objects.tolerance import Tolerance
from fleet.objects.whatif import Demand
from scheduler.compute.planning import rebalance
from scheduler.compute.planning.ground import Ground
from scheduler.compute.planning.moves import promises
from tests.factories import PlacedInstance, Service, changes, node, uuid
from tests.unit.scheduler.plugins import configuration

#: Each host has 8 vcpus and 8 GB.
GB = 1024


class FilledHosts:
    """Hosts, or ``host/node``, and the sizes in GB (and vcpus) of the instances on each."""

    def __init__(self, hosts: dict[str, list[int]], capacity: int = 8, **states: dict[str, Any]) -> None:
        self.sizes: dict[str, int] = {}
        self.hosts: dict[str, str] = {}
        rows = []
        for key, sizes in hosts.items():
            host, _slash, on = key.partition("/")
            for size in sizes:
                name = uuid(len(self.sizes) + 1)
                self.sizes[name], self.hosts[name] = size, host
                rows.append(PlacedInstance(name, host, on or host, **states.get(host, {})))
        nodes = [
            node(
                *key.split("/"),
                vcpus=capacity,
                vcpus_used=sum(sizes),
                memory_mb=capacity * GB,
                memory_mb_used=sum(sizes) * GB,
                local_gb=100,
                cpu_allocation_ratio=1.0,
                ram_allocation_ratio=1.0,
                running_vms=len(sizes),
            )
            for key, sizes in hosts.items()
        ]
        self.state = changes(nodes, instances=rows)

        #: By guest, what its request has beside the usual.
        self.properties: dict[str, dict[str, Any]] = {}

    def group(self, policy: str, *names: str, **more: Any) -> None:
        """Put guests into a server group."""
        for name in names:
            others = set(names) - {name}
            self.properties[name] = {
                "group_uuid": uuid(800),
                "group_policies": [policy],
                "group_members": sorted(names),
                "group_hosts": sorted({self.hosts[each] for each in others}),
                **more,
            }

    def request_of(self, name: str) -> Demand:
        size = self.sizes[name]
        held = {"memory_mb": size * GB, "disk_gb": 0, "vcpus": size}
        holding = {"instance_uuid": name, "host": self.hosts[name], "node": self.hosts[name], "claimed": held}
        return Demand(
            {**spec(name, size), "holding": holding},
            {"force_hosts": [self.hosts[name]], **self.properties.get(name, {})},
            [None],
        )

    def plan(self, goal: Goal, **options: Any) -> Plan:
        return rebalance.run(configuration(**options), self.state, goal, self.request_of, lambda _host: None)

    def states(self, plan: Plan) -> Iterator[dict[str, set[str]]]:
        """Yield by guest the hosts that hold it: while each step is under way, and after it."""
        where = {name: {host} for name, host in self.hosts.items()}
        for step in sorted({each.step for each in plan.moves}):
            moves = [each for each in plan.moves if each.step == step]
            yield {**where, **{each.instance_uuid: {each.source, each.destination} for each in moves}}
            where.update({each.instance_uuid: {each.destination} for each in moves})
            yield dict(where)

    def is_kept(self, plan: Plan, *apart: str) -> bool:
        """Whether no host ever holds more than it has, nor two of the guests that stay apart."""
        for where in self.states(plan):
            used = collections.Counter[str]()
            for name, hosts in where.items():
                used.update(dict.fromkeys(hosts, self.sizes[name]))
            together = collections.Counter(host for name in apart for host in where[name])
            if max(used.values()) > 8 or max(together.values(), default=0) > 1:
                return False
        return True

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


def demand(count: int, size: int, **properties: Any) -> Demand:
    uuids = [uuid(900 + number) for number in range(count)]
    return Demand({**spec(uuids[0], size), "num_instances": count, "instance_uuids": uuids}, properties, [None] * count)


@pytest.mark.parametrize("kind", [FREE_HOSTS, MAKE_ROOM])
def test_a_host_whose_guests_fit_only_in_another_order(kind: str) -> None:
    """The largest first, each onto the fullest host that takes it: then the last one finds no place."""
    fleet = FilledHosts({"a": [6, 5, 5, 3, 3], "b": [22], "c": [20], "d": [32]}, capacity=32)
    room = demand(1, 31) if kind == MAKE_ROOM else None
    plan = fleet.plan(Goal(50, kind, limit_s=30, room_for=room))
    assert ("a", 5, None) == (plan.moves[0].source, len(plan.moves), plan.measures[0].gap or None)


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
    fleet = FilledHosts(hosts)
    plan = fleet.plan(Goal(**{"most_moves": 50, "limit_s": 0.3, **limits}))
    assert (freed, moves) == (list(plan.freed), len(plan.moves))
    after = fleet.after(plan)
    assert all(used <= 8 for used in after.values())
    assert not set(freed) & set(after)


def test_a_receiver_is_not_freed() -> None:
    """So no instance moves twice, and the moves are independent of each other."""
    fleet = FilledHosts({name: [1] for name in "abcdefgh"})
    plan = fleet.plan(Goal(50, limit_s=0.3))
    sources, destinations = ({getattr(each, end) for each in plan.moves} for end in ("source", "destination"))
    assert not sources & destinations
    assert (7, 1) == (len(plan.freed), len(destinations))


def test_what_cannot_move_keeps_its_host() -> None:
    """The reason names the instance."""
    fleet = FilledHosts({"a": [1], "b": [4]}, a={"task_state": "resize_prep"}, b={"vm_state": "resized"})
    plan = fleet.plan(Goal(50, limit_s=0.3))
    assert {
        "a": f"instance {uuid(1)} is active (resize_prep)",
        "b": f"instance {uuid(2)} is resized (no task)",
    } == plan.kept


def test_hosts_that_are_down_or_disabled_take_no_part() -> None:
    fleet = FilledHosts({"a": [1], "b": [1], "c": [4]})
    services = [Service("a"), Service("b", disabled=True), Service("c", forced_down=True)]
    fleet.state = changes(fleet.state.nodes, services=services, instances=fleet.state.instances)
    plan = fleet.plan(Goal(50, limit_s=0.3))
    assert ([], ["a"]) == (list(plan.moves), list(plan.kept))


def test_the_configured_filters_decide() -> None:
    """Without CoreFilter and RamFilter everything goes to one host."""
    fleet = FilledHosts({"a": [5], "b": [6]})
    assert not fleet.plan(Goal(50, limit_s=0.3)).freed
    assert fleet.plan(Goal(50, limit_s=0.3), scheduler_default_filters=["ComputeFilter"]).freed


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
    fleet = FilledHosts(hosts)
    plan = fleet.plan(Goal(50, MAKE_ROOM, limit_s=0.3, room_for=demand(*wanted)))
    made = [(fleet.sizes[each.instance_uuid], each.source, each.destination) for each in plan.moves]
    assert (fits, moves) == (plan.fits, made)
    assert all(used <= 8 for used in fleet.after(plan).values())


CONDITIONS = [
    pytest.param({"a": [1], "b": []}, "anti-affinity", {}, 1, 1, [], id="it fits beside no member now"),
    pytest.param({"a": [1, 3, 3], "b": [1], "c": [1]}, "affinity", {}, 4, 1, [("a", 3)], id="room beside its member"),
    pytest.param(
        {"a": [3, 4], "b": [1], "c": [1]},
        "",
        {"same_host": uuid(1)},
        4,
        1,
        [("a", 4)],
        id="room beside a guest that stays",
    ),
]


@pytest.mark.parametrize(("hosts", "policy", "hints", "size", "fits", "moved"), CONDITIONS)
def test_room_is_made_where_the_new_instance_may_go(
    hosts: dict[str, list[int]], policy: str, hints: dict[str, str], size: int, fits: int, moved: list[tuple[str, int]]
) -> None:
    """Its group has the first guest; a hint names it."""
    fleet = FilledHosts(hosts)
    asked = demand(1, size)
    properties: dict[str, Any] = {"scheduler_hints": hints}
    if policy:
        members = {
            "group_uuid": uuid(800),
            "group_policies": [policy],
            "group_members": [uuid(1)],
            "group_hosts": ["a"],
        }
        properties |= members
    asked = dataclasses.replace(asked, filter_properties=properties)
    filters = ["ComputeFilter", "CoreFilter", "RamFilter", "SameHostFilter"]
    filters += ["ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter"]
    plan = fleet.plan(Goal(50, MAKE_ROOM, limit_s=0.3, room_for=asked), scheduler_default_filters=filters)
    assert (fits, moved) == (plan.fits, [(each.source, fleet.sizes[each.instance_uuid]) for each in plan.moves])


GROUPED = [
    pytest.param({"a": [4], "b": [4]}, "affinity", 5, 4, 2, 2, id="affinity: all on the one host that has most room"),
    pytest.param({"a": [4], "b": [3]}, "affinity", 2, 4, 2, 2, id="affinity: a move makes room for both"),
    pytest.param({"a": [], "b": []}, "anti-affinity", 3, 1, 2, 2, id="anti-affinity: one on each host"),
    pytest.param({"a": [], "b": []}, "", 9, 2, 8, 8, id="no group"),
]


@pytest.mark.parametrize(("hosts", "policy", "count", "size", "fits", "bound"), GROUPED)
def test_what_fits_is_what_one_request_for_all_gets(
    hosts: dict[str, list[int]], policy: str, count: int, size: int, fits: int, bound: int
) -> None:
    """The members of a group know of each other, as they do when ``fleet boot`` asks for them."""
    group = {"group_uuid": uuid(800), "group_policies": [policy], "group_members": [], "group_hosts": []}
    goal = Goal(50, MAKE_ROOM, limit_s=0.3, room_for=demand(count, size, **(group if policy else {})))
    filters = ["ComputeFilter", "CoreFilter", "RamFilter", "ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter"]
    plan = FilledHosts(hosts).plan(goal, scheduler_default_filters=filters)
    assert (fits, fits, bound) == (plan.fits, plan.measures[0].reached, plan.measures[0].bound)


def test_no_bound_is_claimed_for_rules_over_labels() -> None:
    """One a rack, and one rack: the hosts alone would have room for both."""
    fleet = FilledHosts({"a": [], "b": []})
    fleet.state = dataclasses.replace(
        fleet.state, nodes=[dataclasses.replace(each, labels={"rack": "r1"}) for each in fleet.state.nodes]
    )
    rule = {"policy": "anti-affinity", "label": "rack", "max_members": 1}
    asked = demand(2, 1, group_uuid=uuid(800), group_rules=[rule], group_members=[], group_hosts=[])
    filters = ["ComputeFilter", "CoreFilter", "RamFilter", "FailureDomainFilter"]
    plan = fleet.plan(Goal(50, MAKE_ROOM, limit_s=0.3, room_for=asked), scheduler_default_filters=filters)
    assert (1, None) == (plan.fits, plan.measures[0].bound)


def test_a_filter_that_reads_the_use_of_a_host_is_asked_about_the_empty_one() -> None:
    """Host a passes when its guest has left, though it does not pass now."""
    fleet = FilledHosts({"a": [6], "b": []})
    fleet.state = dataclasses.replace(
        fleet.state,
        nodes=[each if each.host == "a" else dataclasses.replace(each, vcpus=7) for each in fleet.state.nodes],
    )
    asked = demand(1, 8)
    asked.request_spec["instance_type"]["memory_mb"] = GB
    asked.request_spec["instance_type"]["extra_specs"] = {"capabilities:free_ram_mb": ">= 8000"}
    filters = ["ComputeFilter", "CoreFilter", "RamFilter", "ComputeCapabilitiesFilter"]
    plan = fleet.plan(Goal(50, MAKE_ROOM, limit_s=0.3, room_for=asked), scheduler_default_filters=filters)
    assert (1, 1, ["a"]) == (plan.fits, plan.measures[0].bound, [each.source for each in plan.moves])


def test_what_the_search_misses_is_not_called_impossible() -> None:
    """Host a has room, and is full by the number of its instances until one of them has left."""
    fleet = FilledHosts({"a": [1, 1], "b": []})
    fleet.state = dataclasses.replace(
        fleet.state,
        nodes=[each if each.host == "a" else dataclasses.replace(each, vcpus=2) for each in fleet.state.nodes],
    )
    filters = ["ComputeFilter", "CoreFilter", "RamFilter", "NumInstancesFilter"]
    goal = Goal(50, MAKE_ROOM, limit_s=0.3, room_for=demand(1, 4))
    plan = fleet.plan(goal, scheduler_default_filters=filters, max_instances_per_host=2)
    assert (plan.fits, 1) == (plan.measures[0].reached, plan.measures[0].bound)


AGGREGATE = ["ComputeFilter", "AggregateCoreFilter", "AggregateRamFilter", "DiskFilter"]


@pytest.mark.parametrize("filters", [AGGREGATE, ["ComputeFilter", "CoreFilter", "RamFilter", "DiskFilter"]])
def test_filters_with_ratios_of_aggregates_limit_as_the_others(filters: list[str]) -> None:
    fleet = FilledHosts({"a": [4, 4], "b": [2], "c": [2]})
    room = fleet.plan(Goal(50, MAKE_ROOM, limit_s=0.3, room_for=demand(1, 8)), scheduler_default_filters=filters)
    spread = fleet.plan(Goal(50, BALANCE, limit_s=0.3), scheduler_default_filters=filters)
    assert (1, 1) == (room.fits, len(room.moves))
    assert (50, 50) == (spread.measures[0].reached, spread.measures[0].bound)


def test_a_host_that_reports_no_processors_takes_any_number() -> None:
    """As CoreFilter has it: so both others can be freed."""
    fleet = FilledHosts({"a": [5], "b": [5], "c": [1]})
    fleet.state = dataclasses.replace(
        fleet.state,
        nodes=[dataclasses.replace(each, vcpus=0) if each.host == "c" else each for each in fleet.state.nodes],
    )
    plan = fleet.plan(Goal(50, limit_s=0.3), scheduler_default_filters=["ComputeFilter", "CoreFilter"])
    assert (["a", "b"], 2) == (list(plan.freed), plan.measures[0].bound)


def test_no_instance_is_planned_onto_a_host_smaller_than_it() -> None:
    """By their ratio the small hosts have room, but one instance is not overcommitted against itself: c takes it."""
    small = {f"b{number}": [4, 4, 2] for number in range(6)}
    busy = {host: {"task_state": "resize_prep"} for host in (*small, "c")}
    fleet = FilledHosts({"a": [6], **small, "c": [2]}, **busy)
    fleet.state = dataclasses.replace(
        fleet.state,
        nodes=[
            dataclasses.replace(each, vcpus=4, cpu_allocation_ratio=4.0) if each.host in small else each
            for each in fleet.state.nodes
        ],
    )
    plan = fleet.plan(Goal(50, limit_s=0.3), scheduler_default_filters=["ComputeFilter", "CoreFilter"])
    assert [("a", "c")] == [(each.source, each.destination) for each in plan.moves]


def test_an_empty_host_takes_guests_if_more_become_empty_for_it() -> None:
    """Two small hosts go to a large one that is empty: one more is empty than before."""
    fleet = FilledHosts({"a": [5], "b": [5], "e": []})
    fleet.state = dataclasses.replace(
        fleet.state,
        nodes=[
            dataclasses.replace(each, vcpus=16, memory_mb=16 * GB, free_ram_mb=16 * GB) if each.host == "e" else each
            for each in fleet.state.nodes
        ],
    )
    plan = fleet.plan(Goal(50, limit_s=0.3))
    assert (["a", "b"], 1, 1) == (list(plan.freed), plan.measures[0].reached, plan.measures[0].bound)


def test_balancing_makes_no_host_fuller_than_the_fullest() -> None:
    """On hosts of two sizes, a MB of the small one counts for more."""
    fleet = FilledHosts({"a": [6, 2], "b": [4]})
    fleet.state = dataclasses.replace(
        fleet.state,
        nodes=[
            dataclasses.replace(each, vcpus=16, memory_mb=16 * GB, free_ram_mb=8 * GB) if each.host == "a" else each
            for each in fleet.state.nodes
        ],
    )
    plan = fleet.plan(Goal(50, BALANCE, limit_s=0.3))
    assert ([], 50, 50) == (list(plan.moves), plan.measures[0].reached, plan.measures[0].bound)


def test_what_is_now_is_told_beside_what_is_reached() -> None:
    told = str(FilledHosts({"a": [4, 4], "b": []}).plan(Goal(50, BALANCE, limit_s=0.3)).measures[0])
    assert (
        "share of the fullest host in %: 50 (100 now); at least 50 by any plan; the plan is the best there is" == told
    )


def test_guests_that_the_planner_leaves_are_counted() -> None:
    """The bound is one of plans that leave them, too."""
    fleet = FilledHosts({"a": [1, 1], "b": [1]})
    fleet.group("affinity", uuid(1), uuid(2))
    assert 2 == fleet.plan(Goal(50, limit_s=0.3)).staying


def test_a_bound_is_rounded_so_that_it_stays_one() -> None:
    told = str(Measure("GiB moved", 0.12, 0.098)), str(Measure("hosts freed", 2, 2.96, is_most=True))
    assert ("GiB moved: 0.1; at least 0 by any plan; gap 22.4 %",
            "hosts freed: 2; at most 3 by any plan; gap 32.4 %") == told  # fmt: skip


@pytest.mark.parametrize("cells", [0, 1])
def test_no_bound_is_claimed_for_cells(cells: int) -> None:
    """The filters know which hosts have them free in the present state only."""
    asked = demand(1, 2)
    cell = {"id": 0, "cpuset": [0, 1], "pcpuset": [], "memory": 64}
    asked.request_spec["instance_properties"]["numa_topology"] = {"cells": [cell]} if cells else None
    plan = FilledHosts({"a": [1], "b": []}).plan(Goal(50, MAKE_ROOM, limit_s=0.3, room_for=asked))
    assert bool(cells) == (plan.measures[0].bound is None)


def test_an_instance_that_goes_between_two_reads_ends_no_plan() -> None:
    """The proof of promises goes on without the request of that instance."""
    fleet = FilledHosts({"a": [1], "b": [2], "c": []})

    def gone(name: str) -> Demand:
        if name == uuid(2):
            raise errors.NotFound(kind="Instance", name=name)
        return fleet.request_of(name)

    goal = Goal(50, limit_s=30, promised=[Tolerance()])
    plan = rebalance.run(configuration(), fleet.state, goal, fleet.request_of, lambda _doing: None, gone)
    assert isinstance(plan, Plan)


def test_moves_that_serve_nothing_are_no_part_of_a_plan() -> None:
    """A promise ends the plan before the host is free for which another one made room."""
    fleet = FilledHosts({"a": [1, 1, 3], "b": [3, 2], "c": [3, 4], "d": [4]})
    plan = fleet.plan(Goal(50, limit_s=30, promised=[Tolerance()]))
    assert ([], []) == (list(plan.freed), list(plan.moves))


def test_guests_that_see_one_processor_are_judged_once() -> None:
    """A table of each guest by each host would take gigabytes."""
    fleet = FilledHosts({"a": [1] * 5, "b": [1] * 3})
    for number, name in enumerate(fleet.hosts):
        cpu = {"vendor": "Intel", "features": ["avx2"] if number else ["avx2", "sse4"]}
        fleet.properties[name] = {"guest_cpu": cpu}
    ground = Ground(configuration(), fleet.state, fleet.request_of)
    # One for nothing, and one for each of the two processors.
    assert (3, 2) == rebalance.columns_of.read(ground, configuration(), False, None).problem.fits.shape


def test_the_time_limit_is_the_searchs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a large fleet may take longer."""
    fleet = FilledHosts({"a": [4], "b": [2], "c": [6]})
    read = rebalance.columns_of.read

    def slowly(*arguments: Any) -> Any:
        time.sleep(0.1)
        return read(*arguments)

    monkeypatch.setattr(rebalance.columns_of, "read", slowly)
    assert ["b"] == fleet.plan(Goal(50, limit_s=0.1)).freed


def test_room_for_several() -> None:
    """Room that was made for one is not used for what moves away for the next."""
    fleet = FilledHosts({"a": [2], "b": [2], "c": [1, 1, 2], "d": [1, 1]})
    plan = fleet.plan(Goal(50, MAKE_ROOM, limit_s=0.3, room_for=demand(2, 8)))
    assert 2 == plan.fits
    after = fleet.after(plan)
    assert 2 <= len(set("abcd") - set(after))
    assert all(used <= 8 for used in after.values())


def test_an_instance_that_is_gone_meanwhile() -> None:
    """The conductor no longer knows it: its host is not freed for sure, so it is kept."""
    fleet = FilledHosts({"a": [1], "b": [4]})
    known = fleet.request_of

    def request_of(name: str) -> Demand:
        if fleet.hosts[name] == "a":
            raise errors.NotFound(kind="Instance", name=name)
        return known(name)

    plan = rebalance.run(configuration(), fleet.state, Goal(50, limit_s=0.3), request_of, lambda _host: None)
    assert "a" not in plan.freed


def test_an_instance_on_no_host_ends_no_plan() -> None:
    """A shelved instance that is offloaded has a row, and no host to be moved from."""
    fleet = FilledHosts({"a": [1], "b": [4]})
    offloaded = PlacedInstance(uuid(99), None, vm_state="shelved_offloaded")
    fleet.state = dataclasses.replace(fleet.state, instances=[*fleet.state.instances, offloaded])
    assert ["a"] == list(fleet.plan(Goal(50, limit_s=0.3)).freed)


def test_a_chain_through_a_third_host() -> None:
    """No host can be freed by guests that go straight to others: a smaller one makes room first, in a step of its own."""
    fleet = FilledHosts({"a": [5, 1], "b": [2, 3], "c": [6], "d": [7]})
    plan = fleet.plan(Goal(50, free_hosts=1, limit_s=0.3))
    assert (1, 3, 2) == (len(plan.freed), len(plan.moves), max(each.step for each in plan.moves))
    assert fleet.is_kept(plan)


def test_the_hosts_are_balanced() -> None:
    """20 of 32 are used: no host can be below 5 if one is above; the best is 5 on each."""
    fleet = FilledHosts({"a": [1, 2, 2, 3], "b": [2, 3, 3], "c": [2, 2], "d": []})
    plan = fleet.plan(Goal(50, BALANCE, limit_s=0.5))
    assert [5, 5, 5, 5] == sorted(fleet.after(plan).values())
    assert (62.5, 62.5, 0.0) == (plan.measures[0].reached, plan.measures[0].bound, plan.measures[0].gap)
    assert fleet.is_kept(plan)


def test_full_hosts_are_balanced_though_most_orders_of_their_moves_end_nowhere() -> None:
    """21 of 24 are used, and two hosts are full: the third has room for one small guest at a time."""
    fleet = FilledHosts({"a": [2, 1, 2], "b": [1, 3, 1, 1, 2], "c": [3, 5]})
    plan = fleet.plan(Goal(50, BALANCE, limit_s=1.0))
    assert ([7, 7, 7], {}) == (sorted(fleet.after(plan).values()), plan.dropped)
    assert fleet.is_kept(plan)


def test_a_balanced_fleet_gets_no_moves() -> None:
    fleet = FilledHosts({"a": [2, 3], "b": [5], "c": [1, 4]})
    for kind in (BALANCE, UNDO_SKEW):
        assert [] == list(fleet.plan(Goal(50, kind, limit_s=0.2)).moves)


def test_a_skew_is_undone_with_the_least_that_moves() -> None:
    """The mean is 4 of 8, and 5 is allowed: 3 must leave a, and one guest of 3 is enough."""
    fleet = FilledHosts({"a": [1, 1, 1, 2, 3], "b": [4], "c": []})
    plan = fleet.plan(Goal(50, UNDO_SKEW, within=0.125, limit_s=0.5))
    assert [(3, "a", "c")] == [(fleet.sizes[each.instance_uuid], each.source, each.destination) for each in plan.moves]
    assert [(0, 0.0), (3.0, 3.0)] == [(each.reached, each.bound) for each in plan.measures]


def test_what_no_guest_holds_is_no_room_and_no_bound() -> None:
    """On a, 12 vcpus are used beside those of its guest, as by an orphan. All guests have 8 of the 16 vcpus of b and c."""
    fleet = FilledHosts({"a": [2], "b": [4, 2], "c": []})
    nodes = [
        dataclasses.replace(each, vcpus_used=14, memory_mb_used=14 * GB) if each.host == "a" else each
        for each in fleet.state.nodes
    ]
    fleet.state = dataclasses.replace(fleet.state, nodes=nodes)
    fullest, _moved = fleet.plan(Goal(50, BALANCE, limit_s=0.2)).measures
    assert fullest.bound is not None
    assert fullest.bound <= fullest.reached <= 50
    _above, least = fleet.plan(Goal(50, UNDO_SKEW, within=0.1, limit_s=0.2)).measures
    assert least.bound is not None
    assert least.bound <= 8


@pytest.mark.parametrize("policy", ["anti-affinity", "soft-anti-affinity"])
def test_members_stay_apart_in_every_state(policy: str) -> None:
    """b is free, but has a member; the guest goes to c. To balance, soft rules are kept too."""
    fleet = FilledHosts({"a": [3, 4], "b": [1], "c": [2]})
    fleet.group(policy, uuid(1), uuid(2), uuid(3))
    plan = fleet.plan(Goal(50, BALANCE, limit_s=0.3))
    assert fleet.is_kept(plan, uuid(2), uuid(3))
    other = FilledHosts({"a": [1], "b": [2], "c": [4]})
    other.group(policy, uuid(1), uuid(3))
    freed = other.plan(Goal(50, FREE_HOSTS, free_hosts=1, limit_s=0.3))
    assert policy != "anti-affinity" or ["b"] == [each.destination for each in freed.moves]


PINNED = [
    ("a group that stays together", {"group_uuid": uuid(800), "group_policies": ["affinity"]}, "stays with the other"),
    ("rules over labels", {"group_uuid": uuid(800), "group_rules": [{"policy": "spread", "label": "rack"}]}, "labels"),
]


@pytest.mark.parametrize(("properties", "why"), [case[1:] for case in PINNED], ids=[case[0] for case in PINNED])
def test_guests_that_a_plan_cannot_follow_stay(properties: dict, why: str) -> None:
    fleet = FilledHosts({"a": [1], "b": [1], "c": [4]})
    for name in (uuid(1), uuid(2)):
        fleet.properties[name] = properties
    plan = fleet.plan(Goal(50, limit_s=0.2))
    assert [] == [each for each in plan.moves if each.instance_uuid in (uuid(1), uuid(2))]
    assert why in plan.kept["a"]


def test_what_another_guest_names_stays() -> None:
    """Guest 2 must not be where guest 1 is: so guest 1 moves only in sight of it, which a plan has not."""
    fleet = FilledHosts({"a": [1], "b": [2], "c": [4]})
    fleet.properties[uuid(2)] = {"scheduler_hints": {"different_host": [uuid(1)]}}
    plan = fleet.plan(Goal(50, limit_s=0.2))
    assert {"a": f"instance {uuid(1)} is named in the hints of another instance"} == {"a": plan.kept["a"]}
    assert "a" not in {each.source for each in plan.moves}


def test_a_loss_that_is_survived_now_is_survived_in_every_state() -> None:
    """With both guests of 4 on one host, its loss has a place for them; with b full, the loss of b has none."""
    fleet = FilledHosts({"a": [4], "b": [4], "c": [4]})
    promised = [Tolerance()]
    assert 1 == len(fleet.plan(Goal(50, limit_s=0.2)).freed)
    plan = fleet.plan(Goal(50, limit_s=30, promised=promised))
    full = {host for host, used in fleet.after(plan).items() if used > 4}
    assert (not full) or len(plan.freed) == 1
    tight = FilledHosts({"a": [4], "b": [4], "c": [5]})
    kept = tight.plan(Goal(50, limit_s=30, promised=promised))
    assert [] == list(kept.moves)
    assert "the loss of" in kept.ends


def test_a_step_is_divided_where_a_promise_allows_one_move_after_the_other() -> None:
    """With both guests of a under way to c, where they count as well, the loss of b would find room for 7 of its 8."""
    fleet = FilledHosts({"a": [2, 2], "b": [1] * 8, "c": [1]})
    named = uuid(11)
    fleet.properties[uuid(3)] = {"scheduler_hints": {"different_host": [named]}}
    plan = fleet.plan(Goal(50, limit_s=30, promised=[Tolerance()]))
    assert (["a"], "") == (list(plan.freed), plan.ends)
    assert [1, 2] == [each.step for each in plan.moves]
    assert [1, 1] == [each.step for each in fleet.plan(Goal(50, limit_s=0.3)).moves]


def test_proofs_end_with_the_time() -> None:
    fleet = FilledHosts({"a": [1], "b": [1], "c": [4]})
    moves = fleet.plan(Goal(50, limit_s=0.3)).moves
    demands = {name: fleet.request_of(name) for name in fleet.hosts}
    kept, why = promises.keeping(
        configuration(), fleet.state, moves, [Tolerance()], demands, {}, until=5.0, clock=lambda: 5.0
    )
    assert [] == kept
    assert "the time limit was over" in why


def test_the_cheapest_guests_that_are_too_many_leave() -> None:
    """a may have 5 of 8 vcpus. To move what lowers it most first, the 4, would be dearer than the 3."""
    fleet = FilledHosts({"a": [4, 3, 1], "b": [3], "c": [1]})
    plan = fleet.plan(Goal(50, UNDO_SKEW, within=0.125, limit_s=30))
    assert [(0, 0.0), (3.0, 3.0)] == [(each.reached, each.bound) for each in plan.measures]


def test_a_measure_says_how_far_it_is_from_the_bound() -> None:
    assert "hosts freed: 8; at most 10 by any plan; gap 20.0 %" == str(Measure("hosts freed", 8, 10, is_most=True))
    assert "GiB moved: 12; at least 10 by any plan; gap 20.0 %" == str(Measure("GiB moved", 12, 10))
    assert "GiB moved: 3; at least 3 by any plan; the plan is the best there is" == str(Measure("GiB moved", 3, 3))
    assert "GiB moved: 3" == str(Measure("GiB moved", 3))
    # Less than the least is no better plan: it does not reach the goal.
    assert "GiB moved: 2; at least 3 by any plan that reaches the goal" == str(Measure("GiB moved", 2, 3))
