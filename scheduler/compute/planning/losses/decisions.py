# SPDX-License-Identifier: Apache-2.0
"""The decision code, on a copy of the fleet, places the guests of lost hosts.

The proofs beside it call it for each guest that they move.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy

from fleet.objects import RequestSpec
from scheduler.planning.copied_fleet import CopiedFleet
from scheduler.planning.survival.packing import Item
from scheduler.planning.survival.room import NO_GROUP, Room

#: Hosts on which members of one group are tried together.
_TRIED_TOGETHER = 20


class Known(Protocol):
    """The requests and the nodes of a room.

    :ivar requests: of the shapes of the room, without their groups; ``ruled``: of the ruled guests, with theirs
    :ivar row_of: the rows of the nodes; ``several``: by host, the nodes of those that have several
    """

    @property
    def requests(self) -> Sequence[RequestSpec | None]: ...
    @property
    def ruled(self) -> Mapping[int, RequestSpec]: ...
    @property
    def row_of(self) -> Mapping[tuple[str, str], int]: ...
    @property
    def several(self) -> Mapping[str, Sequence[tuple[str, str]]]: ...


class Decisions:
    """Implements :class:`scheduler.planning.survival.proof.Decisions` on a copy of the fleet.

    The members of groups still count at their lost hosts there. So groups are counted here, and the requests name none.
    Where a group has rules over labels, its guests leave the copy with their hosts, and the filters count it.
    """

    def __init__(self, fleet: CopiedFleet, room: Room, known: Known) -> None:
        self._fleet = fleet
        self._room = room
        self._known = known

    def place(self, items: Sequence[Item], lost: Sequence[str], until: float) -> Mapping[int, int] | None:
        with self._trial(lost, [guest for item in items for guest in item.guests]) as trial:
            for item in items:
                if time.monotonic() > until or not self._place(trial, item):
                    return None
            return dict(trial.plan)

    def accepts(self, plan: Mapping[int, int], items: Sequence[Item], lost: Sequence[str]) -> bool:
        guests = [guest for item in items for guest in item.guests]
        with self._trial(lost, guests) as trial:
            return all(self._decide(trial, guest, plan[guest]) is not None for guest in guests)

    def _place(self, trial: _Trial, item: Item) -> bool:
        if len(item.guests) == 1:
            # A member that stays together with others elsewhere has one host only.
            only = int(item.hosts[0]) if len(item.hosts) == 1 else None
            return self._decide(trial, item.guests[0], only) is not None
        for row in self._tried(item):
            if all(self._decide(trial, each, row) is not None for each in item.guests):
                return True
            trial.undo(item.guests)
        return False

    def _tried(self, item: Item) -> Iterator[int]:
        """Yield hosts for guests that stay together: the preferred ones, then those with the most room.

        A host with enough in sum may have no cells for them.
        """
        preferred = item.hosts[:_TRIED_TOGETHER].tolist()
        yield from preferred
        asked = item.demand > 0
        times = (self._room.free[item.hosts][:, asked] / item.demand[asked]).min(axis=1, initial=math.inf)
        emptiest = item.hosts[numpy.argsort(-times, kind="stable")]
        yield from (row for row in emptiest[:_TRIED_TOGETHER].tolist() if row not in preferred)

    def _decide(self, trial: _Trial, guest: int, only: int | None) -> int | None:
        """Decide and book; return the row, or None. :param only: the row of the only node to consider"""
        request = (
            self._in_group(guest) if guest in self._known.ruled else self._known.requests[self._room.shape_of[guest]]
        )
        assert request is not None, "a guest whose request is not known is not placed"
        group = int(self._room.group_of[guest])
        ignored = (*request.ignore_hosts, *trial.lost, *(() if guest in self._known.ruled else trial.full(group)))
        hosts, nodes = request.requested_hosts, request.ignore_nodes
        if only is not None:
            hosts, nodes = (self._room.hosts[only],), (*nodes, *self._beside(only))
        one = (self._room.uuids[guest],)
        made = self._fleet.decide(
            dataclasses.replace(
                request, instance_uuids=one, ignore_hosts=ignored, requested_hosts=hosts, ignore_nodes=nodes
            )
        )
        if not made.complete:
            return None
        row = self._known.row_of[made.picks[0].key]
        trial.add(guest, row)
        return row

    def _beside(self, row: int) -> Sequence[tuple[str, str]]:
        """The other nodes of the host."""
        return [each for each in self._known.several.get(self._room.hosts[row], ()) if self._known.row_of[each] != row]

    def _in_group(self, guest: int) -> RequestSpec:
        """The request of a ruled guest; the copy knows where the members are."""
        members = numpy.flatnonzero(self._room.group_of == self._room.group_of[guest]).tolist()
        return dataclasses.replace(
            self._known.ruled[guest],
            group_members=frozenset(self._room.uuids[each] for each in members),
            group_hosts=frozenset(),
            group_places=frozenset(),
        )

    @contextlib.contextmanager
    def _trial(self, lost: Sequence[str], guests: Iterable[int]) -> Iterator[_Trial]:
        trial = _Trial(self._fleet, self._room, lost)
        is_ruled = any(guest in self._known.ruled for guest in guests)
        with self._fleet.losing(lost) if is_ruled else contextlib.nullcontext():
            try:
                yield trial
            finally:
                trial.undo(list(trial.plan))


class _Trial:
    """The guests of one loss that have a host so far. ``plan`` has it by guest."""

    def __init__(self, fleet: CopiedFleet, room: Room, lost: Sequence[str]) -> None:
        self.lost = lost
        self.plan: dict[int, int] = {}
        self._fleet = fleet
        self._room = room

    def add(self, guest: int, row: int) -> None:
        self.plan[guest] = row

    def undo(self, guests: Iterable[int]) -> None:
        for guest in guests:
            if self.plan.pop(guest, None) is not None:
                self._fleet.release(self._room.uuids[guest])

    def full(self, group: int) -> list[str]:
        """Hosts that take no further member of a group whose members stay apart."""
        if group == NO_GROUP or self._room.groups[group].together:
            return []
        members = self._room.members_on(group)
        for guest, row in self.plan.items():
            members[row] += self._room.group_of[guest] == group
        most = self._room.groups[group].most or 0
        return [self._room.hosts[row] for row in numpy.flatnonzero(members >= most).tolist()]
