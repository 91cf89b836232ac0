# SPDX-License-Identifier: Apache-2.0
"""Chooses the queued builds that a change of hosts may help, no more than the changed rooms hold.

Called by :mod:`conductor_stub.builds.room_queue`. The choice is a guess that leaves no build out: a room counts as
large as the scheduler could find it, and for the first build only what filters have tested is compared. The scheduler
then decides. A build that was woken in vain returns the room to builds of another shape; one that is placed changes
its host, which is then looked at again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from fleet.objects.room import Amount, ReturnedRoom, Room, Waiter

#: How many shapes try one room in vain. Builds of the others are tried again at the next change, or at their recheck.
DEPTH = 4


@dataclasses.dataclass(frozen=True)
class Wake:
    """``waiter`` is woken for the room of node ``node_id``, after ``depth`` others in vain."""

    waiter: Waiter
    node_id: int
    depth: int = 0


@dataclasses.dataclass(frozen=True)
class Choice:
    """The builds to wake. ``backing_off``: builds that may fit, but whose shape was woken in vain a short time ago."""

    wakes: Sequence[Wake]
    backing_off: Sequence[Wake]


def choose(
    waiters: Iterable[Waiter],
    rooms: Sequence[Room],
    seen: int,
    taken: Mapping[int, Sequence[Amount]],
    returned: Sequence[ReturnedRoom],
    resting: Collection[str],
    kept: tuple[str | None, str | None] = (None, None),
) -> Choice:
    """
    :param waiters: in their order
    :param seen: the generation up to which earlier passes have chosen
    :param taken: by node, the sizes of builds that its room has woken and that are not placed yet
    :param resting: shapes that were woken in vain a short time ago
    :param kept: a host, and the uuid of the only build that may have its room
    """
    free = {room.node_id: room.free for room in rooms}
    for node_id, sizes in taken.items():
        for size in sizes:
            if node_id in free:
                free[node_id] = free[node_id].less(size)
    used = set(taken)
    kept_host, kept_for = kept
    others = [room for room in rooms if room.host != kept_host]
    tried: dict[int, tuple[set[str], int]] = {}
    for each in returned:
        shapes, depth = tried.get(each.node_id, (set(), 0))
        tried[each.node_id] = shapes | {each.shape}, max(depth, each.depth)
    wakes: list[Wake] = []
    backing_off: list[Wake] = []
    hopeless: set[tuple[object, ...]] = set()
    for waiter in waiters:
        since = waiter.refused_generation if waiter.fresh else seen
        alike = (waiter.need, waiter.size, waiter.zone, waiter.by_room, waiter.shape, since)
        if alike in hopeless and waiter.uuid != kept_for:
            continue
        allowed = rooms if waiter.uuid == kept_for else others
        found = _find(waiter, since, allowed, free, used, tried)
        if found is None or waiter.shape in resting:
            hopeless.add(alike)
        if found is not None and waiter.shape in resting:
            backing_off.append(Wake(waiter, found.node_id))
        elif found is not None:
            free[found.node_id] = free[found.node_id].less(waiter.size)
            used.add(found.node_id)
            wakes.append(Wake(waiter, found.node_id, tried.get(found.node_id, ((), 0))[1]))
    return Choice(wakes, backing_off)


def _find(
    waiter: Waiter,
    since: int,
    rooms: Sequence[Room],
    free: Mapping[int, Amount],
    used: Collection[int],
    tried: Mapping[int, tuple[set[str], int]],
) -> Room | None:
    for room in rooms:
        if waiter.zone is not None and room.zones and waiter.zone not in room.zones:
            continue
        changed = (room.generation if waiter.by_room else room.hosts_generation) > since
        if not changed and waiter.by_room and room.node_id in tried:
            shapes, depth = tried[room.node_id]
            changed = waiter.shape not in shapes and depth <= DEPTH
        if changed and free[room.node_id].holds(waiter.size if room.node_id in used else waiter.need):
            return room
    return None
