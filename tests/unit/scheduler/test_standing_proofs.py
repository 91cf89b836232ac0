# SPDX-License-Identifier: Apache-2.0
"""Proofs that stay while nothing that they rest on changes, against proofs that are made anew."""

from __future__ import annotations

import collections
import dataclasses
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
import pytest

from fleet import errors
from fleet.db.feed.feed import Changes
from fleet.objects.tolerance import Tolerance
from fleet.objects.whatif import Demand
from scheduler.compute import filters
from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.compute.planning.losses import guests
from scheduler.compute.planning.losses.promised_losses import Follower
from scheduler.engine.hosts.candidates import Candidates
from scheduler.planning.survival.packing import Item
from scheduler.planning.survival.room import GONE, NO_GROUP, Changed, Losses, Room, Shape, Verdict
from scheduler.planning.survival.standing import Standing
from tests import factories
from tests.bench.promises import ChangingHosts
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_survival_proof import NAMES, Checked, PlacedGuests, judge, made


class Living:
    """A world whose guests come and go; their numbers stay."""

    def __init__(self, world: PlacedGuests) -> None:
        self._first = world
        self.guests = dict(enumerate(zip(world.where, world.size, world.group, world.barred, strict=True)))
        self._most = len(self.guests)

    def world(self, without: int | None = None) -> PlacedGuests:
        left = [each for number, each in sorted(self.guests.items()) if number != without]
        where, size, group, barred = ([each[part] for each in left] for part in range(4))
        return PlacedGuests(self._first.total, where, size, group, self._first.most, barred)  # type: ignore[arg-type]

    def add(self, chance: random.Random) -> int | None:
        """Put a guest anywhere, and return its host; None if it does not fit there."""
        hosts = range(len(self._first.total))
        host, size = chance.choice(hosts), (chance.randint(1, 4), chance.randint(1, 4))
        barred = frozenset(each for each in hosts if each != host and chance.random() < 0.2)
        number = next((each for each in range(self._most) if each not in self.guests), self._most)
        self.guests[number] = host, size, chance.randrange(-1, len(self._first.most)), barred
        world = self.world()
        if world.violations(set(), {}) or (world.free() < 0).any():
            del self.guests[number]
            return None
        self._most = max(self._most, number + 1)
        return host

    def room(self) -> Room:
        """As of the world, with a shape for each number, and numbers without a guest."""
        known, alive = self.world().room(), sorted(self.guests)
        room = dataclasses.replace(
            known,
            uuids=[f"guest-{number}" for number in range(self._most)],
            host_of=numpy.full(self._most, GONE),
            group_of=numpy.full(self._most, NO_GROUP),
            shape_of=numpy.arange(self._most),
            shapes=[Shape(numpy.zeros(len(known.hosts), dtype=bool), numpy.zeros(2, dtype=numpy.int64))] * self._most,
        )
        shapes = list(room.shapes)
        for position, number in enumerate(alive):
            room.host_of[number] = known.host_of[position]
            room.group_of[number] = known.group_of[position]
            shapes[number] = known.shapes[position]
        return dataclasses.replace(room, shapes=shapes)

    def decisions(self) -> Numbered:
        return Numbered(self)


class Numbered:
    """Decides by the rules of the world, about guests by their lasting numbers."""

    def __init__(self, living: Living) -> None:
        self._checked = Checked(living.world())
        self._alive = sorted(living.guests)
        self.accepted = 0

    def place(self, items: Sequence[Item], lost: Sequence[str], until: float) -> Mapping[int, int] | None:
        asked = [dataclasses.replace(each, guests=self._positions(each.guests)) for each in items]
        found = self._checked.place(asked, lost, until)
        return None if found is None else {self._alive[position]: row for position, row in found.items()}

    def accepts(self, plan: Mapping[int, int], items: Sequence[Item], lost: Sequence[str]) -> bool:
        self.accepted += 1
        return self._checked.accepts(dict(zip(self._positions([*plan]), plan.values(), strict=True)), items, lost)

    def _positions(self, guests: Sequence[int]) -> list[int]:
        return [self._alive.index(guest) for guest in guests]


@pytest.mark.parametrize("seeds", [range(start, start + 20) for start in range(0, 40, 20)], ids=str)
def test_what_stands_is_right(seeds: range) -> None:
    """Guests come and go, one at a time; each verdict is checked by a search that is no code of the scheduler."""
    stood: collections.Counter[str] = collections.Counter()
    for seed in seeds:
        chance, living, standing = random.Random(seed), Living(made(seed)), Standing()
        losses = Losses.of([*([row] for row in range(len(living.room().hosts))), [0, 1]])
        changed, before = None, living.room()
        for _change in range(8):
            standing.update(living.room(), living.decisions(), losses, changed, 10.0, math.inf)
            stood["stood"] += len(losses) - len(standing.renewed)
            stood["renewed"] += len(standing.renewed)
            world, alive = living.world(), sorted(living.guests)
            for number, found in enumerate(standing.findings):
                lost = [NAMES[row] for row in losses[number]]
                renamed = dataclasses.replace(living.room(), uuids=[f"guest-{alive.index(each)}" if each in alive else ""
                                              for each in range(len(living.room().uuids))])  # fmt: skip
                judge(world, lost, found.proof(renamed, lost))
            before = living.room()
            if living.guests and chance.random() < 0.5:
                left = living.guests.pop(chance.choice(sorted(living.guests)))
                host, groups = left[0], {left[2]}
            else:
                added = living.add(chance)
                host = 0 if added is None else added
                groups = {each[2] for each in living.guests.values() if each[0] == host}
            better = bool((living.room().free > before.free).any())
            changed = Changed(numpy.array([host]), numpy.array([host]), groups - {NO_GROUP}, better)
    assert min(stood.values()) > 100, stood


class Dated(ChangingHosts):
    """A fleet whose hosts may also come, and be disabled."""

    def __init__(self, hosts: int, guests: int) -> None:
        self._disabled: set[str] = set()
        super().__init__(hosts, guests)

    def disable(self, host: str) -> None:
        self._generation += 1
        self._disabled ^= {host}
        self._later = Changes(self._generation, services=[self._service(host)])

    def add(self, host: str) -> None:
        self._generation += 1
        self.names.append(host)
        self._on[host] = []
        self._later = Changes(self._generation, nodes=[self._row(host)], services=[self._service(host)])

    def _service(self, host: str) -> factories.Service:
        return factories.Service(host, disabled=host in self._disabled)

    def read(self, since: int) -> Changes:
        found = super().read(since)
        return found if since else dataclasses.replace(found, services=[self._service(host) for host in self.names])


def follower_of(fleet: ChangingHosts) -> Follower:
    return Follower(configuration(), fleet, lambda: factories.NOW, fleet.requests_of)


def described(follower: Follower) -> dict[str, object]:
    """What is known of each guest, by names."""
    room = follower.room
    assert room is not None
    return {
        uuid: (
            room.hosts[room.host_of[number]],
            sorted(
                host for host, fits in zip(room.hosts, room.shapes[room.shape_of[number]].fits, strict=True) if fits
            ),
            room.shapes[room.shape_of[number]].demand.tolist(),
        )
        for number, uuid in enumerate(room.uuids)
        if room.host_of[number] != GONE
    } | {"free": dict(zip(room.hosts, room.free.tolist(), strict=True))}


def test_differences_end_where_a_new_reading_does() -> None:
    """Guests come and go, a host is disabled and enabled, another one comes and gives all others other numbers."""
    fleet = Dated(12, 60)
    follower, promised = follower_of(fleet), [Tolerance()]
    follower.look(promised)
    steps: list[Callable[[], None]] = [
        lambda: fleet.turn_over(1),
        lambda: fleet.disable("h3"),
        lambda: fleet.turn_over(5),
        lambda: fleet.add("a0"),
        lambda: fleet.turn_over(3),
        lambda: fleet.disable("h3"),
    ]
    for step in steps:
        step()
        assert follower.look(promised) is not None
        anew = follower_of(fleet)
        anew.look(promised)
        assert described(anew) == described(follower)


def test_only_what_changed_is_asked_and_proved() -> None:
    fleet = Dated(30, 60)
    asked: list[str] = []

    def requests_of(uuids: Sequence[str]) -> Mapping[str, object]:
        asked.extend(uuids)
        return fleet.requests_of(uuids)

    follower = Follower(configuration(), fleet, lambda: factories.NOW, requests_of)  # type: ignore[arg-type]
    promised = [Tolerance()]
    assert follower.look(promised) is not None
    assert (30, len(fleet.size_of)) == (len(follower.standing.renewed), len(asked))
    assert follower.look(promised) is None
    asked.clear()
    fleet.turn_over(1)
    assert follower.look(promised) is not None
    assert 1 == len(asked)
    assert 1 <= len(follower.standing.renewed) < 30


def test_a_filter_that_reads_other_hosts_is_asked_about_all_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row has changed, and yet the host of a plan takes no guest any more."""
    fleet, promised = Dated(30, 60), [Tolerance()]
    barred: list[str] = []

    def mask(_self: object, hosts: Candidates, _request: object) -> numpy.ndarray:
        return numpy.array([hosts.key(row)[0] not in barred for row in hosts.rows.tolist()])

    monkeypatch.setattr(filters.RamFilter, "mask", mask)
    monkeypatch.setattr(filters.RamFilter, "cacheable", False)
    follower = follower_of(fleet)
    assert follower.look(promised) is not None
    room, number = follower.room, 3
    assert room is not None
    barred.append(room.hosts[follower.standing.findings[number].places[0]])
    assert follower.look(promised) is not None
    assert 1 <= len(follower.standing.renewed)
    places = {room.hosts[row] for each in follower.standing.findings for row in each.places.tolist()}
    assert barred[0] not in places


def test_an_unreadable_request_harms_only_itself() -> None:
    """One guest has a request that makes no sense; all losses but that of its host are proved."""
    fleet = Dated(30, 60)
    strange = next(iter(fleet.size_of))

    def requests_of(uuids: Sequence[str]) -> Mapping[str, Demand]:
        found = fleet.requests_of(uuids)
        return found | (
            {strange: Demand({"num_instances": "many"}, {}, [None], name=strange)} if strange in found else {}
        )

    follower = Follower(configuration(), fleet, lambda: factories.NOW, requests_of)
    follower.look([Tolerance()])
    unproved = [each for each in follower.standing.findings if each.verdict is not Verdict.SAFE]
    assert 1 == len(unproved)
    assert strange in unproved[0].why


def test_what_the_conductor_does_not_answer_is_asked_again() -> None:
    """It leaves one guest out, then fails, then knows all."""
    fleet, promised = Dated(30, 60), [Tolerance()]
    missing = next(iter(fleet.size_of))
    known: Mapping[str, Demand] = {
        each: found for each, found in fleet.requests_of([*fleet.size_of]).items() if each != missing
    }

    def requests_of(uuids: Sequence[str]) -> Mapping[str, Demand]:
        if not known:
            raise errors.StaleState(problem="away", age="old")
        return {each: known[each] for each in uuids if each in known}

    follower = Follower(configuration(), fleet, lambda: factories.NOW, requests_of)
    follower.look(promised)
    assert ["it is gone" in each.why for each in follower.standing.findings if each.verdict is not Verdict.SAFE] == [
        True
    ]
    known = {}
    with pytest.raises(errors.StaleState):
        follower.look(promised)
    known = fleet.requests_of([*fleet.size_of])
    assert follower.look(promised) is not None
    assert {Verdict.SAFE} == {each.verdict for each in follower.standing.findings}


def test_after_a_filter_has_failed_all_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, promised = Dated(12, 40), [Tolerance()]
    follower = follower_of(fleet)
    follower.look(promised)
    fleet.turn_over(3)
    with monkeypatch.context() as broken:
        broken.setattr(filters.RamFilter, "mask", lambda *_arguments: 1 / 0)
        with pytest.raises(errors.PluginFailed):
            follower.look(promised)
    assert follower.look(promised) is not None
    anew = follower_of(fleet)
    anew.look(promised)
    assert described(anew) == described(follower)


def test_after_a_proof_has_failed_all_is_proved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, promised = Dated(12, 40), [Tolerance()]
    follower = follower_of(fleet)
    follower.look(promised)
    fleet.turn_over(1)
    with monkeypatch.context() as broken:
        broken.setattr(Standing, "update", lambda *_arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            follower.look(promised)
    assert follower.look(promised) is not None
    assert 12 == len(follower.standing.renewed)


def test_all_requests_are_read_again_once_in_a_while() -> None:
    """The limit of a group may change, and no row of a guest does."""
    fleet = Dated(30, 60)
    asked: list[str] = []

    def requests_of(uuids: Sequence[str]) -> Mapping[str, object]:
        asked.extend(uuids)
        return fleet.requests_of(uuids)

    follower = Follower(configuration(), fleet, lambda: factories.NOW, requests_of)  # type: ignore[arg-type]
    follower.look([Tolerance()])
    asked.clear()
    fleet.turn_over(1)
    follower._read_again_at = 0.0
    assert follower.look([Tolerance()]) is not None
    assert len(asked) >= 60


@pytest.mark.parametrize("now", [{"task_state": "rebuilding"}, {"vm_state": "stopped"}, {"instance_type_id": 2}])
def test_a_guest_whose_request_may_be_another_is_asked_about(now: dict[str, Any]) -> None:
    known = TrackedInstance("u", "h1", "h1", "active", None, 1)
    assert guests.is_same(known, dataclasses.replace(known))
    assert not guests.is_same(known, dataclasses.replace(known, **now))
