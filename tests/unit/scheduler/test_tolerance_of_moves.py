# SPDX-License-Identifier: Apache-2.0
"""Moves where the plan at hand of a loss keeps the room, and another plan of it would not."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fleet import errors
from fleet.objects import RequestSpec
from fleet.objects.tolerance import LAST, REFUSE, Tolerance
from scheduler.compute.tolerance import clearing
from tests.bench.admission import Filling, Scheduling
from tests.bench.snapshots import Guest
from tests.factories import uuid


class Moving(Scheduling):
    """Hosts with guests of these sizes, in vcpus and GB. ``a`` is full until they are placed and proved, and empty then.

    So the plans that stand do not use ``a``.

    :param small: hosts that have 6 vcpus and 6 GB, not 16. If ``a`` is one of them, it is never full
    """

    def __init__(self, guests: dict[str, list[int]], *promised: Tolerance, small: str = "") -> None:
        sizes = {host: 6 if host in small else 16 for host in ("a", *guests)}
        super().__init__(Filling({host: [[size, size]] for host, size in sizes.items()}), promised)
        for host, there in guests.items():
            for size in there:
                self._claim(size, host)
        blocker = None if "a" in small else self._claim(16, "a")
        self.prove()
        if blocker is not None:
            self.fleet.end(blocker, "a")
            self.prove()
        self.driver.host_manager.refresh()

    def _claim(self, size: int, host: str) -> str:
        name = uuid(len(self.fleet.known) + 1)
        self.fleet.known[name] = Guest(name, 1, size, size)
        self.fleet.claim(name, host)
        return name

    def request(self, host: str, to: str | None, promised: bool, guest: int = 0) -> RequestSpec:
        """Return the request that moves one of the guests of a host."""
        name = list(self.fleet.on[host])[guest]
        properties: dict[str, Any] = {"ignore_hosts": [host], "promised": promised}
        if to:
            properties["requested_destination"] = {"host": to}
        return RequestSpec.from_wire(self.fleet.demand(name).request_spec, properties)

    def move(self, host: str, to: str | None, promised: bool = True, guest: int = 0) -> str:
        """Move one of the guests of a host, and return where it went."""
        request = self.request(host, to, promised, guest)
        (selection,) = self.driver.select_destinations(None, request)  # type: ignore[arg-type]
        self.fleet.end(request.instance_uuids[0], host)
        self.fleet.claim(request.instance_uuids[0], selection.host)
        return str(selection.host)

    def build(self, size: int, host: str) -> None:
        name = uuid(len(self.fleet.known) + 1)
        self.fleet.known[name] = Guest(name, 1, size, size)
        properties = {"requested_destination": {"host": host}}
        request = RequestSpec.from_wire(self.fleet.demand(name).request_spec, properties)
        self.driver.select_destinations(None, request)  # type: ignore[arg-type]
        self.fleet.claim(name, host)

    def explained(self, host: str, to: str) -> str:
        """Return why the scheduler would refuse the move; "" if it would not."""
        answer = self.driver.explain(None, self.request(host, to, True), 1)  # type: ignore[arg-type]
        return "" if answer["picks"] else str(answer["reason"])

    def lost(self) -> list[str]:
        """Return the hosts whose guests have no place elsewhere, by numbers alone."""
        return [each for each in self.fleet.cells if not self.fleet.survives([each], random.Random(1))]

    def puts(self, lost: str) -> dict[str, int]:
        """Return what the plan of a loss puts on others: vcpus by host."""
        guard = self.driver.admission._guard
        assert guard is not None
        (loss,) = (each for each in guard.losses if each.name == lost)
        return {node[0]: amount[0] for node, amount in loss.reserved.items()}

    def problems(self) -> list[str]:
        guard = self.driver.admission._guard
        assert guard is not None
        return [each.why for each in guard.losses if each.why]


#: The losses of b and c each keep 6 of the 11 that d has free, although a is empty.
GUESTS = {"b": [6, 6], "c": [6], "d": [5]}
FLEET = Tolerance(policy=REFUSE)


@pytest.mark.parametrize("promised", [True, False])
def test_a_move_goes_where_other_plans_make_room(promised: bool) -> None:
    moving = Moving(GUESTS, FLEET)
    assert (6, 6) == (moving.puts("b")["d"], moving.puts("c")["d"])
    assert "d" == moving.move("c", "d", promised)
    assert {"c": 6, "a": 6} == moving.puts("b")
    assert [] == moving.lost()
    moving.prove()
    assert [] == moving.problems()


def test_a_move_to_any_host_makes_room_if_no_host_is_left() -> None:
    """Only d passes the filters, as a has 3 free and b has 4."""
    moving = Moving({"b": [6, 6], "c": [6], "d": [5], "e": [2]}, FLEET)
    moving.build(13, "a")
    assert moving.move("c", None, promised=False) in ("d", "e")
    assert [] == moving.lost()


def test_a_move_that_is_only_tried_books_nothing() -> None:
    """The next proof takes the plans back that stand. The move is accepted again."""
    moving = Moving(GUESTS, FLEET)
    before = moving.puts("b")
    assert "" == moving.explained("c", "d")
    assert [] != list(moving.driver.admission.shifted())
    moving.prove()
    assert before == moving.puts("b")
    assert [] == list(moving.driver.admission.shifted())
    assert "d" == moving.move("c", "d")


def test_a_build_on_the_other_place_is_refused_after_the_move() -> None:
    """a is kept for a guest of b now, until a proof has made other plans."""
    moving = Moving(GUESTS, FLEET)
    moving.move("c", "d")
    with pytest.raises(errors.NoValidHost, match="a has 16 vcpus free, of which 6 are kept"):
        moving.build(11, "a")
    moving.build(10, "a")
    assert [] == moving.lost()


def test_a_move_is_refused_if_no_plan_makes_room() -> None:
    """a has 5 free, so that the guests of b need c and d."""
    moving = Moving(GUESTS, FLEET)
    for size in (5, 2, 2, 2):
        moving._claim(size, "a")
    moving.prove()
    assert "which 6 are kept for the guests of b" in moving.explained("c", "d")
    for promised in (True, False):
        with pytest.raises(errors.NoValidHost, match="which 6 are kept for the guests of b"):
            moving.move("c", "d", promised)


def test_a_guest_may_move_to_its_own_place() -> None:
    """If c is lost, each of its guests needs a host of its own. While one moves to it, it has this room."""
    moving = Moving({"c": [6, 5], "d": []}, FLEET, small="ad")
    (own,) = (host for host, size in moving.puts("c").items() if size == 6)
    assert own == moving.move("c", own)
    assert [] == moving.lost()


def test_a_guest_may_not_move_to_the_place_of_another_one() -> None:
    moving = Moving({"c": [6, 5], "d": []}, FLEET, small="ad")
    (other,) = (host for host, size in moving.puts("c").items() if size == 5)
    with pytest.raises(errors.NoValidHost, match="which 5 are kept for the guests of c"):
        moving.move("c", other)


def test_a_build_that_no_proof_has_seen_makes_room_for_a_move() -> None:
    """After the loss of c it would go to a, where another guest goes now. d takes it as well."""
    moving = Moving({"b": [6], "c": [], "d": [5]}, FLEET)
    moving.build(9, "c")
    assert {"a": 9} == moving.puts("c")
    for size in (6, 4):
        moving._claim(size, "a")
    assert "a" == moving.move("b", "a")
    assert {"d": 9} == moving.puts("c")
    assert [] == moving.lost()


def test_a_build_that_no_proof_has_seen_may_move_to_its_own_place() -> None:
    """The other guest of c has its place on the other host, so that the build has no second one."""
    moving = Moving({"c": [5], "d": []}, FLEET, small="ad")
    ((other, _size),) = moving.puts("c").items()
    moving.build(6, "c")
    (own,) = {"a", "d"} - {other}
    assert {other: 5, own: 6} == moving.puts("c")
    assert own == moving.move("c", own, guest=1)
    assert [] == moving.lost()


def test_a_promise_that_places_all_the_same_keeps_what_it_can() -> None:
    moving = Moving(GUESTS, Tolerance(policy=LAST))
    assert "d" == moving.move("c", "d", promised=False)
    assert [] == moving.lost()


def test_the_effort_for_a_move_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clearing, "_TRIES", 0)
    assert "are kept for the guests of" in Moving(GUESTS, FLEET).explained("c", "d")


@pytest.mark.parametrize("seed", range(20))
def test_moves_in_random_fleets_keep_what_is_survived(seed: int) -> None:
    chance = random.Random(seed)
    guests = {host: [chance.randint(1, 6) for _ in range(chance.randint(0, 3))] for host in "bcdef"}
    moving = Moving(guests, FLEET)
    broken = set(moving.lost())
    for _move in range(12):
        source, to = chance.sample("abcdef", 2)
        if not moving.fleet.on[source]:
            continue
        try:
            moving.move(source, to, promised=chance.random() < 0.5)
        except errors.NoValidHost:
            continue
        assert set(moving.lost()) <= broken
        if chance.random() < 0.3:
            moving.prove()
