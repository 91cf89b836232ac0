# SPDX-License-Identifier: Apache-2.0
"""The guests that :mod:`.room_reader` has read: by number, by host and by group. Proofs of losses read them."""

from __future__ import annotations

import collections
import types
from collections.abc import Mapping, Sequence

import numpy

from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.planning.survival.room import GONE, NO_GROUP

_NO_GUESTS: Mapping[str, int] = types.MappingProxyType({})
_NO_MEMBERS: Mapping[int, int] = types.MappingProxyType({})


class Guests:
    """Guests by number, and an index of them. The number of one that has gone is given to another one."""

    def __init__(self) -> None:
        self.uuids: list[str] = []
        self._known: list[TrackedInstance | None] = []
        self._free: list[int] = []
        self._on: dict[int, dict[str, int]] = {}
        self.host_of = self.shape_of = self.group_of = numpy.array([], dtype=int)
        self._members: dict[int, collections.Counter[int]] = {}
        self._of_shape: collections.Counter[int] = collections.Counter()
        self._unused: set[int] = set()

    def on(self, row: int) -> Mapping[str, int]:
        """Return the guests of a host, by uuid."""
        return self._on.get(row, _NO_GUESTS)

    def guests_on(self, row: int) -> Sequence[int]:
        return sorted(self.on(row).values())

    def members(self, group: int) -> Mapping[int, int]:
        return self._members.get(group, _NO_MEMBERS)

    def describe(self, slot: int, shape: int, group: int) -> None:
        """Note the shape and the group of a guest that was put on its host."""
        self.shape_of[slot], self.group_of[slot] = shape, group
        self._of_shape[shape] += 1
        if group != NO_GROUP:
            self._members.setdefault(group, collections.Counter())[int(self.host_of[slot])] += 1

    def unused_shapes(self) -> list[int]:
        """Return the shapes that have lost their last guest since the last call."""
        unused = sorted(shape for shape in self._unused if not self._of_shape[shape])
        self._unused.clear()
        return unused

    def renumber(self, moved: Sequence[int]) -> list[int]:
        """Follow rows that have other numbers, and return the guests whose hosts are gone. :param moved: by former row"""
        gone = [slot for row, on in self._on.items() if moved[row] == GONE for slot in on.values()]
        for slot in gone:
            self.remove(slot)
        self._on = {moved[row]: on for row, on in self._on.items() if moved[row] != GONE}
        there = self.host_of != GONE
        self.host_of[there] = numpy.array(moved, dtype=int)[self.host_of[there]]
        for group, members in self._members.items():
            self._members[group] = collections.Counter({moved[row]: count for row, count in members.items() if count})
        return gone

    def missing(self, there: Mapping[int, Mapping[str, TrackedInstance]]) -> dict[int, int]:
        """Guests that have left these rows, and the rows. :param there: by row, the guests on it now"""
        return {
            slot: row
            for row, now in there.items()
            for uuid, slot in self._on.get(row, {}).items()
            if uuid not in now or not is_same(self._known[slot], now[uuid])
        }

    def arriving(self, there: Mapping[int, Mapping[str, TrackedInstance]]) -> list[tuple[int, TrackedInstance]]:
        """Guests that are new on these rows, or of another kind there."""
        found = []
        for row, now in there.items():
            known = self._on.get(row, {})
            found += [
                (row, each)
                for uuid, each in now.items()
                if uuid not in known or not is_same(self._known[known[uuid]], each)
            ]
        return found

    def doubt(self, slot: int) -> None:
        """The guest is new again at the next look at its row."""
        self._known[slot] = None

    def remove(self, slot: int) -> None:
        row, shape, group = int(self.host_of[slot]), int(self.shape_of[slot]), int(self.group_of[slot])
        del self._on[row][self.uuids[slot]]
        self._of_shape[shape] -= 1
        if not self._of_shape[shape]:
            self._unused.add(shape)
        if group != NO_GROUP:
            members = self._members[group]
            members[row] -= 1
            if not members[row]:
                del members[row]
        self.host_of[slot], self.group_of[slot] = GONE, NO_GROUP
        self._free.append(slot)

    def put(self, row: int, instance: TrackedInstance) -> int:
        if self._free:
            slot = self._free.pop()
            self.uuids[slot], self._known[slot] = instance.uuid, instance
        else:
            slot = len(self.uuids)
            self.uuids.append(instance.uuid)
            self._known.append(instance)
            if slot == len(self.host_of):
                self._grow()
        self.host_of[slot] = row
        self._on.setdefault(row, {})[instance.uuid] = slot
        return slot

    def _grow(self) -> None:
        more = max(len(self.host_of) // 2, 64)
        self.host_of = numpy.append(self.host_of, numpy.full(more, GONE))
        self.shape_of = numpy.append(self.shape_of, numpy.zeros(more, dtype=int))
        self.group_of = numpy.append(self.group_of, numpy.full(more, NO_GROUP))


def is_same(known: TrackedInstance | None, now: TrackedInstance) -> bool:
    """Return True if the request that places the instance is surely the same."""
    if known is None:
        return False
    # A rebuild, which may change the image, is a task.
    names = ("instance_type_id", "vm_state", "task_state", "image_properties")
    return all(getattr(known, name) == getattr(now, name) for name in names)
