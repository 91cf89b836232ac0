# SPDX-License-Identifier: Apache-2.0
"""Findings that stand while nothing that they rest on changes.

Called by :mod:`scheduler.compute.planning.losses.promised_losses`. A plan stands while its guests are the same, and
each of its hosts that has changed still takes what the plan puts there: one guest by the filters, several guests by
the decision code, once for each distinct need. Plans with guests whose group has further rules are always made again:
any host may matter to them. A loss without a plan is looked at again when its guests change, or when a guest may fit
where it did not before.

The cost follows what has changed: no other loss, plan or host is read.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

import numpy

from scheduler.planning.survival.packing import Item
from scheduler.planning.survival.proof import Decisions, Survival
from scheduler.planning.survival.room import NO_GROUP, Changed, Finding, Losses, Room, Verdict

#: Shapes of the guests that a plan puts on one host, sorted.
Kinds = tuple[int, ...]


class Standing:
    """``findings`` are those of the losses, in their order.

    :ivar renewed: the losses that the last update has proved again, and those that were shifted
    :ivar open: the findings that are not "safe", by their losses
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.renewed: Sequence[int] = ()
        self.open: dict[int, Finding] = {}
        self._rests = Rests()
        self._losses: Losses | None = None
        self._of_row: Mapping[int, Sequence[int]] = {}

    def update(
        self,
        room: Room,
        decisions: Decisions,
        losses: Losses,
        changed: Changed | None,
        limit_s: float,
        until: float,
        shifted: Collection[int] = (),
    ) -> None:
        """Prove again what has changed.

        :param losses: the same object as before, unless something may be lost now that could not before
        :param changed: since the last update; None: everything
        :param limit_s, until: as those of :class:`Survival`. A finding of "unsafe" stays if the time does not suffice
        :param shifted: losses that are renewed, too; a finding of theirs that stands is not proved again
        """
        moved: Collection[int]
        again: Sequence[int]
        if changed is None or losses is not self._losses:
            self._begin(losses)
            again = moved = range(len(losses))
            shifted = ()
        else:
            moved = self._moved(room, decisions, changed)
            late = [number for number, each in self.open.items() if each.is_late]
            worth = self.open if changed.better else ()
            again = [*late, *sorted({*moved, *worth}.difference(late))]
        numbers = numpy.array(again, dtype=int)
        found = Survival(room, decisions, limit_s, sparing=True).findings(losses.some(numbers), until)
        for number, finding in zip(again, found, strict=True):
            if finding.is_late and number not in moved:
                finding = dataclasses.replace(self.findings[number], is_late=True)
            self._take(room, number, finding)
        self.renewed = [*again, *sorted(set(shifted).difference(again))]

    def plan_of(self, number: int) -> Mapping[int, Kinds]:
        """Return, by row, the shapes of the guests that the plan of a loss puts there."""
        return self._rests.of(number)

    def _begin(self, losses: Losses) -> None:
        self._losses, self.findings, self.open = losses, [_UNKNOWN] * len(losses), {}
        self._rests = Rests()
        of_row: dict[int, list[int]] = collections.defaultdict(list)
        for row, number in zip(losses.rows.tolist(), losses.numbers.tolist(), strict=True):
            of_row[row].append(number)
        self._of_row = of_row

    def _take(self, room: Room, number: int, finding: Finding) -> None:
        self.findings[number] = finding
        if finding.verdict is Verdict.SAFE:
            self.open.pop(number, None)
        else:
            self.open[number] = finding
        self._rests.put(number, finding, room.shape_of[finding.guests].tolist() if len(finding.places) else ())

    def _moved(self, room: Room, decisions: Decisions, changed: Changed) -> Set[int]:
        """Return the losses whose findings hold no more."""
        moved = self._losses_of(changed.homes.tolist())
        for group in changed.groups:
            moved |= self._losses_of(room.members(group))
        moved |= self._losses_of(room.host_of[[*room.ruled]].tolist())
        needs = _Needs(room, decisions)
        open_shapes = {number for number, shape in enumerate(room.shapes) if shape.is_open}
        touched = itertools.chain(
            ((row, kinds) for row in changed.rows.tolist() for kinds in self._rests.on(row)),
            self._rests.with_any_of(open_shapes),
        )
        for row, kinds in touched:
            resting = self._rests.on(row)[kinds]
            if not resting <= moved and not self._still_takes(room, needs, row, kinds, min(resting)):
                moved |= resting
        return moved

    def _losses_of(self, rows: Iterable[int]) -> set[int]:
        return {number for row in rows for number in self._of_row.get(row, ())}

    def _still_takes(self, room: Room, needs: _Needs, row: int, kinds: Kinds, loss: int) -> bool:
        """Return whether the host takes guests of these shapes. :param loss: one whose plan rests on that"""
        if len(kinds) == 1:
            return bool(room.shapes[kinds[0]].fits[row])
        finding = self.findings[loss]
        return needs.are_met(finding.guests[finding.places == row].tolist(), row)


class Rests:
    """The hosts that plans rest on, with the shapes of the guests that they put there, and of which losses."""

    def __init__(self) -> None:
        self._on: dict[int, dict[Kinds, set[int]]] = {}
        self._of: dict[int, dict[int, Kinds]] = {}

    def put(self, number: int, finding: Finding, shapes: Sequence[int]) -> None:
        """Take a finding in place of the loss's former one. :param shapes: of the guests of its plan"""
        for row, kinds in self._of.pop(number, {}).items():
            there = self._on[row]
            there[kinds].discard(number)
            if not there[kinds]:
                del there[kinds]
        if not len(finding.places):
            return
        on: dict[int, Kinds] = {}
        for row, shape in zip(finding.places.tolist(), shapes, strict=True):
            on[row] = tuple(sorted((*on[row], shape))) if row in on else (shape,)
        self._of[number] = on
        for row, kinds in on.items():
            self._on.setdefault(row, {}).setdefault(kinds, set()).add(number)

    def on(self, row: int) -> Mapping[Kinds, Set[int]]:
        return self._on.get(row, {})

    def of(self, number: int) -> Mapping[int, Kinds]:
        return self._of.get(number, {})

    def with_any_of(self, shapes: Set[int]) -> Iterable[tuple[int, Kinds]]:
        """Rows and kinds of which one is among these shapes. Reads all rows, unless there are no such shapes."""
        if not shapes:
            return ()
        return [(row, kinds) for row, there in self._on.items() for kinds in there if not shapes.isdisjoint(kinds)]


class _Needs:
    """Asks the decision code whether guests fit on a host together, once for each host and kinds of guests."""

    def __init__(self, room: Room, decisions: Decisions) -> None:
        self._room = room
        self._decisions = decisions
        self._known: dict[tuple[int, tuple[int, ...]], bool] = {}

    def are_met(self, guests: Sequence[int], row: int) -> bool:
        """Rules of the guests' groups are not judged again: their members are where they were."""
        key = row, tuple(sorted(self._room.shape_of[list(guests)].tolist()))
        if key not in self._known:
            items = [Item([guest], numpy.array([row]), numpy.zeros(0), NO_GROUP) for guest in guests]
            self._known[key] = self._decisions.accepts(dict.fromkeys(guests, row), items, [])
        return self._known[key]


_NOBODY = numpy.array([], dtype=int)
_UNKNOWN = Finding(Verdict.NOT_PROVED, "", _NOBODY, _NOBODY)
