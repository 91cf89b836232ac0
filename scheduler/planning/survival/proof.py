# SPDX-License-Identifier: Apache-2.0
"""Proves what becomes of the guests of lost hosts. The room's ``survival`` shows the order of the attempts."""

from __future__ import annotations

import collections
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy

from scheduler.planning.survival import distinct, packing
from scheduler.planning.survival.packing import Item, Outcome
from scheduler.planning.survival.room import NO_GROUP, Proof, Room, Verdict

#: Seconds for one loss.
LIMIT_S = 10.0
#: Guests that a sentence names.
_NAMED = 5
_OWN_HOST = "each guest has a host of its own"


class Decisions(Protocol):
    """The decision code on a copy of the fleet. Nothing stays booked after a call."""

    def place(self, items: Sequence[Item], lost: Sequence[str], until: float) -> Mapping[int, int] | None:
        """Place the items one after the other, where they fit best; None if one finds no host. By guest, its host."""

    def accepts(self, plan: Mapping[int, int], items: Sequence[Item], lost: Sequence[str]) -> bool:
        """Whether every guest passes the filters on its host of the plan, one after the other."""


class Survival:
    """:param limit_s: seconds for one loss"""

    def __init__(self, room: Room, decisions: Decisions, limit_s: float = LIMIT_S) -> None:
        self._room = room
        self._decisions = decisions
        self._limit_s = limit_s
        self._easy = distinct.easily_safe(room)
        #: Hosts with the most memory first, so that plans spread.
        self._order = numpy.lexsort((numpy.arange(len(room.hosts)), *(-room.free.T[::-1])))
        self._rows_of: dict[str, list[int]] = collections.defaultdict(list)
        for row, host in enumerate(room.hosts):
            self._rows_of[host].append(row)

    def of(self, lost: Sequence[str]) -> Proof:
        """What becomes of the guests of these hosts, if all of them are lost. Unknown hosts have no guests."""
        room = self._room
        rows = numpy.array(sorted(row for host in set(lost) for row in self._rows_of.get(host, ())), dtype=int)
        guests = room.guests_on(rows)
        names = [room.uuids[each] for each in guests.tolist()]

        def proof(
            verdict: Verdict, why: str, plan: Mapping[int, int] | None = None, lacking: Sequence[int] = ()
        ) -> Proof:
            found = {room.uuids[guest]: room.hosts[row] for guest, row in (plan or {}).items()}
            return Proof(lost, len(guests), verdict, found, [room.uuids[each] for each in lacking], why)

        unknown = [name for name in names if name in room.unreadable]
        if unknown:
            return proof(
                Verdict.NOT_PROVED, f"the request of {unknown[0]} cannot be read: {room.unreadable[unknown[0]]}"
            )
        if len(rows) == 1 and self._easy[rows[0]]:
            return proof(Verdict.SAFE, _OWN_HOST, distinct.spread(room, guests, int(rows[0]), self._preferences))
        items = self._items(guests, rows)
        alone = [guest for item in items if not len(item.hosts) for guest in item.guests]
        if alone:
            return proof(Verdict.UNSAFE, f"{_few(room, alone)} on no other host, even alone", lacking=alone)
        return self._arranged(items, [room.hosts[row] for row in rows], proof)

    def _arranged(self, items: Sequence[Item], lost: Sequence[str], proof: Callable[..., Proof]) -> Proof:
        room, until = self._room, time.monotonic() + self._limit_s
        hosts = distinct.match([item.hosts for item in items])
        if hosts is not None:
            plan = _plan(items, hosts)
            alone = all(len(item.guests) == 1 for item in items)
            if alone or self._decisions.accepts(plan, items, lost):
                return proof(Verdict.SAFE, _OWN_HOST, plan)
        for order in _orders(items):
            found = self._decisions.place([items[each] for each in order], lost, until)
            if found is not None:
                return proof(Verdict.SAFE, "the scheduler places them one after the other", found)
        members = {item.group for item in items if item.group != NO_GROUP}
        outcome, hosts = packing.solve(
            items, room.free, {each: self._places_left(each) for each in members}, max(until - time.monotonic(), 0.1)
        )
        if outcome is Outcome.IMPOSSIBLE:
            every = [guest for item in items for guest in item.guests]
            return proof(
                Verdict.UNSAFE, f"no arrangement of the {len(every)} guests fits into what is free", lacking=every
            )
        if outcome is Outcome.FOUND:
            plan = _plan(items, hosts)
            if self._decisions.accepts(plan, items, lost):
                return proof(Verdict.SAFE, "an arrangement was found and passes the filters", plan)
            return proof(Verdict.NOT_PROVED, "the arrangements that were found do not pass the filters")
        return proof(Verdict.NOT_PROVED, f"no arrangement was found in {self._limit_s:g} s")

    def _items(self, guests: numpy.ndarray, lost: numpy.ndarray) -> list[Item]:
        room = self._room
        left = numpy.ones(len(room.hosts), dtype=bool)
        left[lost] = False
        items = []
        of_group: dict[int, list[int]] = {}
        for guest in guests.tolist():
            group = int(room.group_of[guest])
            if group != NO_GROUP and room.groups[group].together:
                of_group.setdefault(group, []).append(guest)
                continue
            fits = room.shapes[room.shape_of[guest]].fits & left
            if group != NO_GROUP:
                fits = fits & (self._places_left(group) > 0)
            items.append(Item([guest], self._preferred(fits), room.shapes[room.shape_of[guest]].demand, group))
        return [*items, *(self._together(group, members, left) for group, members in of_group.items())]

    def _together(self, group: int, members: Sequence[int], left: numpy.ndarray) -> Item:
        """Members elsewhere bind the others to their host."""
        room = self._room
        shapes = [room.shapes[room.shape_of[each]] for each in members]
        demand = numpy.sum([each.demand for each in shapes], axis=0)
        fits = numpy.logical_and.reduce([each.fits for each in shapes]) & left & (room.free >= demand).all(axis=1)
        elsewhere = (room.members_on(group) > 0) & left
        return Item(members, self._preferred(fits & elsewhere if elsewhere.any() else fits), demand, NO_GROUP)

    def _places_left(self, group: int) -> numpy.ndarray:
        most = self._room.groups[group].most
        assert most is not None, "the group is one whose members are apart"
        return numpy.maximum(most - self._room.members_on(group), 0)

    @functools.cached_property
    def _preferences(self) -> list[list[int]]:
        return [self._preferred(shape.fits).tolist() for shape in self._room.shapes]

    def _preferred(self, fits: numpy.ndarray) -> numpy.ndarray:
        chosen: numpy.ndarray = self._order[fits[self._order]]
        return chosen


def _plan(items: Sequence[Item], hosts: Sequence[int]) -> dict[int, int]:
    return {guest: row for item, row in zip(items, hosts, strict=True) for guest in item.guests}


def _orders(items: Sequence[Item]) -> Iterable[list[int]]:
    """Orders in which to try the items: the largest first, by each resource, and who has the fewest hosts first."""
    demands = numpy.array([each.demand for each in items], dtype=float)
    scale = demands.max(axis=0)
    size = (demands / numpy.where(scale > 0, scale, 1)).sum(axis=1)
    choices = numpy.array([len(each.hosts) for each in items])
    together = numpy.array([len(each.guests) == 1 for each in items])
    keys = [
        (-size, together),
        (-size, choices),
        *((-demands[:, number], together) for number in range(demands.shape[1])),
    ]
    seen = set()
    for key in keys:
        order = numpy.lexsort(key).tolist()
        if tuple(order) not in seen:
            seen.add(tuple(order))
            yield order


def _few(room: Room, guests: Sequence[int]) -> str:
    names = ", ".join(room.uuids[each] for each in guests[:_NAMED])
    more = f" and {len(guests) - _NAMED} more" if len(guests) > _NAMED else ""
    return f"{names}{more} {'fits' if len(guests) == 1 else 'fit'}"
