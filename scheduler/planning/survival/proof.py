# SPDX-License-Identifier: Apache-2.0
"""Proves what becomes of the guests of lost hosts.

Called by :mod:`scheduler.compute.planning.survival` and :mod:`scheduler.planning.survival.standing`. The room's
``survival`` shows the order of the attempts.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy

from scheduler.planning.survival import distinct, packing
from scheduler.planning.survival.packing import Item, Outcome
from scheduler.planning.survival.room import NO_GROUP, Finding, Losses, Proof, Room, Verdict

#: Seconds for one loss.
LIMIT_S = 10.0
#: Hosts of a fleet in which plans spare hosts: in a larger one, what they keep is a small share.
MOST_SPARING = 200
#: Guests that a sentence names.
_NAMED = 5
_OWN_HOST = "each guest has a host of its own"
_ALIKE = "the scheduler places guests of the same kinds one after the other"
_NO_TIME = "the time was over before it was looked at"


class Decisions(Protocol):
    """The decision code on a copy of the fleet. Nothing stays booked after a call."""

    def place(self, items: Sequence[Item], lost: Sequence[str], until: float) -> Mapping[int, int] | None:
        """Place the items one after the other, where they fit best; None if one finds no host. By guest, its host."""

    def accepts(self, plan: Mapping[int, int], items: Sequence[Item], lost: Sequence[str]) -> bool:
        """Return True if every guest passes the filters on its host of the plan, one after the other."""


class Survival:
    """:param limit_s: seconds for one loss
    :param sparing: let the plans of all losses use few hosts, the same ones, where the fleet is so small that this matters
    """

    def __init__(self, room: Room, decisions: Decisions, limit_s: float = LIMIT_S, sparing: bool = False) -> None:
        self._sparing = sparing and len(room.hosts) <= MOST_SPARING
        self._room = room
        self._decisions = decisions
        self._limit_s = limit_s
        #: By the shapes of guests in no group, the hosts where the decision code has placed them.
        self._placed: dict[tuple[int, ...], numpy.ndarray] = {}

    @functools.cached_property
    def _rows_of(self) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = collections.defaultdict(list)
        for row, host in enumerate(self._room.hosts):
            found[host].append(row)
        return found

    def of(self, lost: Sequence[str]) -> Proof:
        """Prove or refute that the guests of these hosts have places, if all of the hosts are lost.

        Unknown hosts have no guests.
        """
        return next(iter(self.proofs([lost])))

    def proofs(self, losses: Sequence[Sequence[str]]) -> Iterator[Proof]:
        """A proof for each loss, in their order."""
        rows = [sorted(row for host in set(lost) for row in self._rows_of.get(host, ())) for lost in losses]
        for lost, found in zip(losses, self.findings(Losses.of(rows)), strict=True):
            yield found.proof(self._room, lost)

    def findings(self, losses: Losses, until: float = math.inf) -> Iterator[Finding]:
        """A finding for each loss, in their order.

        :param until: time of ``time.monotonic``. After it nothing is proved but of losses whose guests find a host each
        """
        guests, starts = self._room.guests_of(losses)
        places = distinct.spread(self._room, losses, guests, starts)
        missing = numpy.concatenate(([0], numpy.cumsum(places == distinct.NOWHERE)))
        is_clear = missing[starts[1:]] == missing[starts[:-1]]
        for number, (start, end) in enumerate(itertools.pairwise(starts.tolist())):
            if is_clear[number] and (start == end or not self._sparing):
                yield Finding(Verdict.SAFE, _OWN_HOST, guests[start:end], places[start:end])
            elif time.monotonic() > until:
                nowhere = numpy.array([], dtype=int)
                yield Finding(Verdict.NOT_PROVED, _NO_TIME, guests[start:end], nowhere, is_late=True)
            else:
                yield self._looked_at(guests[start:end], losses[number])

    def _looked_at(self, guests: numpy.ndarray, rows: numpy.ndarray) -> Finding:
        room = self._room

        def found(
            verdict: Verdict, why: str, plan: Mapping[int, int] | None = None, lacking: Sequence[int] = ()
        ) -> Finding:
            places = [plan[guest] for guest in guests.tolist()] if plan else []
            return Finding(verdict, why, guests, numpy.array(places, dtype=int), lacking)

        unknown = [guest for guest in guests.tolist() if guest in room.unreadable]
        if unknown:
            why = f"the request of {room.uuids[unknown[0]]} cannot be read: {room.unreadable[unknown[0]]}"
            return found(Verdict.NOT_PROVED, why)
        alike = self._as_alike(guests, rows)
        if alike is not None:
            return Finding(Verdict.SAFE, _ALIKE, guests, alike)
        items = self._items(guests, rows)
        if self._sparing:
            few = self._on_few_hosts(items)
            if few is not None and self._decisions.accepts(few, items, [room.hosts[row] for row in rows]):
                self._remember(few)
                return found(Verdict.SAFE, "the guests go to few hosts, one after the other", few)
        alone = [guest for item in items if not len(item.hosts) for guest in item.guests]
        if alone:
            return found(Verdict.UNSAFE, f"{_few(room, alone)} on no other host, even alone", lacking=alone)
        return self._arranged(items, [room.hosts[row] for row in rows], found)

    def _arranged(self, items: Sequence[Item], lost: Sequence[str], found: Callable[..., Finding]) -> Finding:
        room, until = self._room, time.monotonic() + self._limit_s
        hosts = distinct.match([item.hosts for item in items])
        if hosts is not None:
            plan = _plan(items, hosts)
            alone = all(len(item.guests) == 1 for item in items)
            alone = alone and not any(guest in room.ruled for guest in plan)
            if alone or self._decisions.accepts(plan, items, lost):
                return found(Verdict.SAFE, _OWN_HOST, plan)
        members = {item.group for item in items if item.group != NO_GROUP}
        packed = packing.Packing(items, room.free, {each: self._places_left(each) for each in members})
        for number, order in enumerate(_orders(items)):
            placed = self._decisions.place([items[each] for each in order], lost, until)
            if placed is not None:
                self._remember(placed)
                return found(Verdict.SAFE, "the scheduler places them one after the other", placed)
            if number == 0 and packed.is_impossible(until - time.monotonic()):
                return self._impossible(items, found)
        outcome, hosts = packed.solve(until - time.monotonic())
        if outcome is Outcome.IMPOSSIBLE:
            return self._impossible(items, found)
        if outcome is Outcome.FOUND:
            plan = _plan(items, hosts)
            if self._decisions.accepts(plan, items, lost):
                return found(Verdict.SAFE, "an arrangement was found and passes the filters", plan)
            return found(Verdict.NOT_PROVED, "the arrangements that were found do not pass the filters")
        return found(Verdict.NOT_PROVED, f"no arrangement was found in {self._limit_s:g} s")

    @staticmethod
    def _impossible(items: Sequence[Item], found: Callable[..., Finding]) -> Finding:
        every = [guest for item in items for guest in item.guests]
        why = f"no arrangement of the {len(every)} guests fits into what is free"
        return found(Verdict.UNSAFE, why, lacking=every)

    def _on_few_hosts(self, items: Sequence[Item]) -> Mapping[int, int] | None:
        """Put the largest first on the most preferred host that has room: so what losses need is kept on few hosts."""
        left, plan = self._room.free.copy(), dict[int, int]()
        members = {item.group: self._places_left(item.group) for item in items if item.group != NO_GROUP}
        for number in next(iter(_orders(items)), ()):
            item = items[number]
            able = (left[item.hosts] >= item.demand).all(axis=1)
            if item.group != NO_GROUP:
                able &= members[item.group][item.hosts] > 0
            if not able.any():
                return None
            row = int(item.hosts[numpy.argmax(able)])
            left[row] -= item.demand
            if item.group != NO_GROUP:
                members[item.group][row] -= 1
            plan.update(dict.fromkeys(item.guests, row))
        return plan

    def _as_alike(self, guests: numpy.ndarray, lost: numpy.ndarray) -> numpy.ndarray | None:
        """The plan of guests of the same shapes that have been placed. What is free is the same for each loss."""
        if (self._room.group_of[guests] != NO_GROUP).any():
            return None
        order = numpy.argsort(self._room.shape_of[guests], kind="stable")
        rows = self._placed.get(tuple(self._room.shape_of[guests[order]].tolist()))
        if rows is None or numpy.isin(rows, lost).any():
            return None
        places = numpy.empty(len(guests), dtype=int)
        places[order] = rows
        return places

    def _remember(self, plan: Mapping[int, int]) -> None:
        guests, rows = numpy.array([*plan]), numpy.array([*plan.values()])
        if not (self._room.group_of[guests] != NO_GROUP).any():
            order = numpy.argsort(self._room.shape_of[guests], kind="stable")
            self._placed[tuple(self._room.shape_of[guests[order]].tolist())] = rows[order]

    def _items(self, guests: numpy.ndarray, lost: numpy.ndarray) -> list[Item]:
        room = self._room
        left = numpy.ones(len(room.hosts), dtype=bool)
        left[lost] = False
        items = []
        of_group: dict[int, list[int]] = {}
        of_shape: dict[int, numpy.ndarray] = {}
        for guest in guests.tolist():
            group = int(room.group_of[guest])
            if group != NO_GROUP and room.groups[group].together:
                of_group.setdefault(group, []).append(guest)
                continue
            number = int(room.shape_of[guest])
            shape = room.shapes[number]
            if number not in of_shape:
                of_shape[number] = self._preferred(shape.fits & left)
            hosts = of_shape[number]
            if group != NO_GROUP:
                hosts = hosts[self._places_left(group)[hosts] > 0]
            items.append(Item([guest], hosts, shape.demand, group))
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

    def _preferred(self, fits: numpy.ndarray) -> numpy.ndarray:
        chosen: numpy.ndarray = self._room.preferred[fits[self._room.preferred]]
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
