# SPDX-License-Identifier: Apache-2.0
"""Proofs about lost hosts, against a search that tries every arrangement of small fleets."""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Mapping, Sequence

import numpy
import pytest

from scheduler.planning.survival import distinct
from scheduler.planning.survival.packing import Item
from scheduler.planning.survival.proof import Survival
from scheduler.planning.survival.room import UNLIMITED, Group, Losses, Proof, Room, Shape, Verdict

NAMES = "abcdefgh"


@dataclasses.dataclass(frozen=True)
class PlacedGuests:
    """Hosts with two resources, guests with a host, a size and a group. ``barred``: hosts that never take a guest."""

    total: list[tuple[int, int]]
    where: list[int]
    size: list[tuple[int, int]]
    group: list[int]
    most: list[int | None]
    barred: list[frozenset[int]]

    def free(self) -> numpy.ndarray:
        left = numpy.array(self.total, dtype=numpy.int64)
        for host, size in zip(self.where, self.size, strict=True):
            left[host] -= size
        return left

    def room(self) -> Room:
        free = self.free()
        shapes = [
            Shape(
                numpy.array(
                    [host not in barred and bool((free[host] >= size).all()) for host in range(len(self.total))]
                ),
                numpy.array(size, dtype=numpy.int64),
            )
            for size, barred in zip(self.size, self.barred, strict=True)
        ]
        return Room(
            hosts=list(NAMES[: len(self.total)]),
            free=free,
            uuids=[f"guest-{number}" for number in range(len(self.where))],
            host_of=numpy.array(self.where, dtype=int),
            shape_of=numpy.arange(len(self.where)),
            group_of=numpy.array(self.group, dtype=int),
            shapes=shapes,
            groups=[Group(most) for most in self.most],
        )

    def violations(self, lost: set[int], plan: Mapping[int, int]) -> list[str]:
        """What is wrong with a plan, by the rules written here and nowhere else."""
        left, found = self.free(), []
        where = {number: host for number, host in enumerate(self.where) if host not in lost} | dict(plan)
        for guest, host in plan.items():
            left[host] -= self.size[guest]
            found += [f"{guest} on lost {host}"] * (host in lost) + [f"{guest} barred"] * (host in self.barred[guest])
        found += [f"{host} is over" for host in range(len(left)) if (left[host] < 0).any() and host not in lost]
        for number, most in enumerate(self.most):
            members = collections.Counter(host for guest, host in where.items() if self.group[guest] == number)
            if (most is None and len(members) > 1) or (most is not None and max(members.values(), default=0) > most):
                found.append(f"group {number}")
        return found

    def possible(self, lost: set[int]) -> bool:
        """Whether any arrangement is right: tries all of them."""
        guests = [number for number, host in enumerate(self.where) if host in lost]

        def search(plan: dict[int, int]) -> bool:
            if self.violations(lost, plan):
                return False
            if len(plan) == len(guests):
                return True
            guest = guests[len(plan)]
            return any(search({**plan, guest: host}) for host in range(len(self.total)) if host not in lost)

        return search({})


class Checked:
    """Accepts by the rules of the world, and places each item where the least is left."""

    def __init__(self, world: PlacedGuests, can_place: bool = True) -> None:
        self._world = world
        self._can_place = can_place

    def place(self, items: Sequence[Item], lost: Sequence[str], until: float) -> Mapping[int, int] | None:
        gone, plan = {NAMES.index(each) for each in lost}, dict[int, int]()
        for item in items if self._can_place else ():
            left = self._world.free()
            for guest, host in plan.items():
                left[host] -= self._world.size[guest]
            for host in sorted(item.hosts.tolist(), key=lambda host: (left[host].sum(), host)):
                more = dict.fromkeys(item.guests, host)
                if not self._world.violations(gone, {**plan, **more}):
                    plan.update(more)
                    break
            else:
                return None
        return plan if self._can_place else None

    def accepts(self, plan: Mapping[int, int], items: Sequence[Item], lost: Sequence[str]) -> bool:
        return not self._world.violations({NAMES.index(each) for each in lost}, plan)


def made(seed: int) -> PlacedGuests:
    """A small fleet that is nearly full, with groups that hold now."""
    chance = random.Random(seed)
    hosts = chance.randint(2, 6)
    total = [(chance.randint(4, 10), chance.randint(4, 10)) for _ in range(hosts)]
    most: list[int | None] = [chance.choice([None, 1, 2]) for _ in range(chance.randint(0, 2))]
    world = PlacedGuests(total, [], [], [], most, [])
    for _ in range(chance.randint(1, 3 * hosts)):
        guest = len(world.where)
        host, size = chance.randrange(hosts), (chance.randint(1, 4), chance.randint(1, 4))
        group = chance.randrange(-1, len(most))
        barred = frozenset(each for each in range(hosts) if each != host and chance.random() < 0.2)
        grown = PlacedGuests(
            total, [*world.where, host], [*world.size, size], [*world.group, group], most, [*world.barred, barred]
        )
        if not grown.violations(set(), {}) and (grown.free() >= 0).all():
            world = grown
        assert len(world.where) in (guest, guest + 1)
    return world


def proved(world: PlacedGuests, lost: Sequence[str], can_place: bool = True) -> Proof:
    return Survival(world.room(), Checked(world, can_place)).of(lost)


def judge(world: PlacedGuests, lost: Sequence[str], proof: Proof) -> None:
    gone = {NAMES.index(each) for each in lost}
    guests = [number for number, host in enumerate(world.where) if host in gone]
    assert len(guests) == proof.guests
    if proof.verdict is Verdict.SAFE:
        plan = {int(name.removeprefix("guest-")): NAMES.index(host) for name, host in proof.plan.items()}
        assert (sorted(plan), []) == (guests, world.violations(gone, plan))
    else:
        assert proof.verdict is Verdict.UNSAFE, proof
        assert not world.possible(gone)
        assert proof.lacking
        assert proof.why


@pytest.mark.parametrize("seeds", [range(start, start + 100) for start in range(0, 400, 100)], ids=str)
def test_each_verdict_is_right(seeds: range) -> None:
    """Every host, and every pair of hosts. With sums and groups only, everything is proved."""
    verdicts = collections.Counter[str]()
    for seed in seeds:
        world = made(seed)
        names = NAMES[: len(world.total)]
        for lost in [*([each] for each in names), list(names[:2])]:
            proof = proved(world, lost)
            judge(world, lost, proof)
            verdicts[proof.verdict.value] += 1
    assert min(verdicts["safe"], verdicts["unsafe"]) > 50, verdicts


def test_a_solver_finds_what_greedy_orders_miss() -> None:
    """With a decision code that places nothing by itself, matchings and integer solutions remain."""
    reasons = collections.Counter[str]()
    for seed in range(150):
        world = made(seed)
        for host in NAMES[: len(world.total)]:
            proof = proved(world, [host], can_place=False)
            judge(world, [host], proof)
            reasons[proof.why if proof.verdict is Verdict.SAFE else "unsafe"] += 1
    assert reasons["an arrangement was found and passes the filters"] > 5, reasons


@pytest.mark.parametrize("seed", range(60))
def test_all_losses_at_once(seed: int) -> None:
    """Whatever has a host of its own for each guest is right, for hosts and for pairs of hosts in one go."""
    world = made(seed)
    room = world.room()
    lost = [*([row] for row in range(len(world.total))), [0, 1]]
    guests, starts = room.guests_of(Losses.of(lost))
    places = distinct.spread(room, Losses.of(lost), guests, starts)
    for loss, start, end in zip(lost, starts, starts[1:], strict=False):
        plan = dict(zip(guests[start:end].tolist(), places[start:end].tolist(), strict=True))
        assert sorted(plan) == [guest for guest, host in enumerate(world.where) if host in loss]
        if distinct.NOWHERE not in plan.values():
            assert [] == world.violations(set(loss), plan)


def test_a_fleet_with_room_in_sum_is_not_safe() -> None:
    """A third of all is free, and the guest of a fits nowhere."""
    world = PlacedGuests([(4, 4), (4, 4), (4, 4)], [0, 1, 2], [(3, 3), (2, 2), (2, 2)], [-1] * 3, [], [frozenset()] * 3)
    proof = proved(world, ["a"])
    assert (Verdict.UNSAFE, ["guest-0"]) == (proof.verdict, proof.lacking)
    assert "guest-0 fits on no other host, even alone" == proof.why


def test_an_unreadable_request_proves_nothing() -> None:
    world = PlacedGuests([(4, 4), (4, 4)], [0], [(1, 1)], [-1], [], [frozenset()])
    room = dataclasses.replace(world.room(), unreadable={0: "it is gone"})
    proof = Survival(room, Checked(world)).of(["a"])
    assert Verdict.NOT_PROVED is proof.verdict
    assert "guest-0" in proof.why


def test_a_host_without_guests_is_safe_to_lose() -> None:
    world = PlacedGuests([(4, 4), (4, 4)], [0], [(1, 1)], [-1], [], [frozenset()])
    assert (Verdict.SAFE, 0) == (proved(world, ["b"]).verdict, proved(world, ["b"]).guests)
    assert Verdict.SAFE is proved(world, ["nosuch"]).verdict


def test_a_resource_without_a_limit_forbids_nothing() -> None:
    world = PlacedGuests([(4, 4), (4, 4)], [0, 0, 0], [(1, 1)] * 3, [-1] * 3, [], [frozenset()] * 3)
    room = world.room()
    room.free[:, 1] = UNLIMITED
    assert Verdict.SAFE is Survival(room, Checked(world)).of(["a"]).verdict


def test_matching_needs_all_different_hosts() -> None:
    rows = [numpy.array([0]), numpy.array([0, 1]), numpy.array([2, 1])]
    assert [0, 1, 2] == distinct.match(rows)
    assert distinct.match([*rows, numpy.array([1, 0])]) is None
    assert [] == distinct.match([])
