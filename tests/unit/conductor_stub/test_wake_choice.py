# SPDX-License-Identifier: Apache-2.0
"""Which queued builds a changed room wakes, in which order, and how many."""

from __future__ import annotations

from typing import Any

import pytest

from conductor_stub.builds.wake_choice import DEPTH, choose
from fleet.objects.room import Amount, ReturnedRoom, Room, Waiter

SEEN = 10
SMALL, LARGE = Amount(1, 1000, 10), Amount(4, 4000, 40)


def room(node_id: int = 1, free: Amount = LARGE, generation: int = 11, hosts_generation: int = 0, **more: Any) -> Room:
    return Room(node_id, f"h{node_id}", frozenset(more.get("zones", ())), free, generation, hosts_generation)


def waiter(uuid: str, need: Amount = SMALL, **more: Any) -> Waiter:
    return Waiter(uuid, ("r", 1), "p", more.pop("shape", uuid), need, more.pop("size", need), **more)


def woken(waiters: list[Waiter], *rooms: Room, **more: Any) -> list[str]:
    given = {"seen": SEEN, "taken": {}, "returned": [], "resting": (), **more}
    return [wake.waiter.uuid for wake in choose(waiters, rooms, **given).wakes]


ONE = [
    ("it fits", waiter("w"), room(), True),
    ("too many vcpus", waiter("w", Amount(5, 1, 1)), room(), False),
    ("too much memory", waiter("w", Amount(1, 4001, 1)), room(), False),
    ("too much disk", waiter("w", Amount(1, 1, 41)), room(), False),
    ("the change was seen before", waiter("w"), room(generation=SEEN), False),
    (
        "nobody has looked at it since an older refusal",
        waiter("w", fresh=True, refused_generation=5),
        room(generation=6),
        True,
    ),
    ("the scheduler knew the change", waiter("w", fresh=True, refused_generation=11), room(), False),
    ("another zone", waiter("w", zone="a"), room(zones=["b"]), False),
    ("its zone", waiter("w", zone="a"), room(zones=["a"]), True),
    ("one of its zones", waiter("w", zone="a"), room(zones=["b", "a"]), True),
    ("a host without a zone is in the default one", waiter("w", zone="nova"), room(), True),
    ("room does not help", waiter("w", by_room=False), room(), False),
    ("another host may help", waiter("w", by_room=False), room(hosts_generation=11), True),
    ("what was not tested is not compared", waiter("w", Amount(1, 0, 0), size=Amount(1, 9999, 0)), room(), True),
]


@pytest.mark.parametrize(("why", "one", "there", "expected"), ONE, ids=[case[0] for case in ONE])
def test_one_build_and_one_room(why: str, one: Waiter, there: Room, expected: bool) -> None:
    assert (["w"] if expected else []) == woken([one], there)


MANY = [
    ("4 of 6 small ones fill it", [waiter(f"s{n}") for n in range(6)], [room()], ["s0", "s1", "s2", "s3"]),
    ("a small one goes past a large one", [waiter("l", Amount(9, 1, 1)), waiter("s")], [room()], ["s"]),
    ("two rooms", [waiter("l0", LARGE), waiter("l1", LARGE), waiter("l2", LARGE)], [room(), room(2)], ["l0", "l1"]),
    (
        "of those whose sizes were not tested, one for each room, and what fits beside it",
        [waiter(f"u{n}", Amount(), size=Amount(3, 1, 1)) for n in range(3)],
        [room()],
        ["u0"],
    ),
]


@pytest.mark.parametrize(("why", "waiters", "rooms", "expected"), MANY, ids=[case[0] for case in MANY])
def test_many_builds(why: str, waiters: list[Waiter], rooms: list[Room], expected: list[str]) -> None:
    assert expected == woken(waiters, *rooms)


def test_room_that_builds_under_way_will_take() -> None:
    """Two builds were woken for the room a moment ago, and their hosts have claimed nothing yet."""
    assert ["s0", "s1"] == woken([waiter(f"s{n}") for n in range(4)], room(), taken={1: [SMALL, SMALL]})


@pytest.mark.parametrize(("depth", "expected"), [(1, ["b"]), (DEPTH, ["b"]), (DEPTH + 1, [])])
def test_returned_room(depth: int, expected: list[str]) -> None:
    """Another shape may have it, until a handful have tried it in vain."""
    returned = [ReturnedRoom(1, "a", depth)]
    builds = [waiter("a1", shape="a"), waiter("a2", shape="a"), waiter("b", LARGE), waiter("c", LARGE)]
    assert expected == woken(builds, room(generation=SEEN), returned=returned)


def test_a_resting_shape_is_noted_once() -> None:
    """And holds back no other."""
    builds = [waiter("a1", shape="a"), waiter("a2", shape="a"), waiter("b")]
    choice = choose(builds, [room()], SEEN, {}, [], {"a"})
    assert (["b"], ["a1"]) == (
        [wake.waiter.uuid for wake in choice.wakes],
        [wake.waiter.uuid for wake in choice.backing_off],
    )
