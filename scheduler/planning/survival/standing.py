# SPDX-License-Identifier: Apache-2.0
"""Findings that stand while nothing that they rest on changes.

A plan stands while its guests are the same, and each of its hosts that has changed still takes what the plan puts there: one
guest by the filters, several guests by the decision code, once for each distinct need. Plans with guests whose group has
further rules are always made again: any host may matter to them. A loss without a plan is looked at again when its guests
change, or when a guest may fit where it did not before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy

from scheduler.planning.survival.packing import Item
from scheduler.planning.survival.proof import Decisions, Survival
from scheduler.planning.survival.room import NO_GROUP, Changed, Finding, Losses, Room, Verdict


class Standing:
    """``findings`` are those of the losses, in their order; ``renewed`` is how many of them the last update has made."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.renewed = 0
        self.plans = Plans([])
        self._losses: Losses | None = None

    def update(
        self, room: Room, decisions: Decisions, losses: Losses, changed: Changed | None, limit_s: float, until: float
    ) -> None:
        """Prove again what has changed.

        :param losses: the same object as before, unless something may be lost now that could not before
        :param changed: since the last update; None: everything
        :param limit_s, until: as those of :class:`Survival`. A finding of "unsafe" stays if the time does not suffice
        """
        if changed is None or losses is not self._losses:
            self._losses, self.findings = losses, [_UNKNOWN] * len(losses)
            again, moved = numpy.arange(len(losses)), numpy.ones(len(losses), dtype=bool)
        else:
            again, moved = self._again(room, decisions, losses, changed)
        found = Survival(room, decisions, limit_s).findings(losses.some(again), until)
        for number, finding in zip(again.tolist(), found, strict=True):
            if finding.is_late and not moved[number]:
                finding = dataclasses.replace(self.findings[number], is_late=True)
            self.findings[number] = finding
        self.renewed = len(again)
        if len(again):
            self.plans = Plans(self.findings)

    def _again(
        self, room: Room, decisions: Decisions, losses: Losses, changed: Changed
    ) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Return the losses to prove, those that were late first, and which finding of all losses holds no more."""
        plans, findings = self.plans, self.findings
        moved = numpy.zeros(len(losses), dtype=bool)
        moved[losses.numbers[numpy.isin(losses.rows, changed.homes)]] = True
        moved[plans.losses[numpy.isin(room.group_of[plans.guests], list(changed.groups))]] = True
        moved[plans.losses[numpy.isin(plans.guests, list(room.ruled))]] = True
        touched = numpy.isin(plans.places, changed.rows)
        refused = ~room.fits[room.shape_of[plans.guests], plans.places]
        moved[plans.losses[touched & ~plans.shared & refused]] = True
        needs = _Needs(room, decisions)
        for loss, guests, place in plans.sharing(touched & ~moved[plans.losses]):
            moved[loss] |= not needs.are_met(guests, place)
        late = numpy.array([each.is_late for each in findings], dtype=bool)
        open_ = numpy.array([each.verdict is not Verdict.SAFE for each in findings], dtype=bool)
        again = numpy.flatnonzero(moved | late | (open_ & changed.better))
        return again[numpy.argsort(~late[again], kind="stable")], moved


class Plans:
    """All plans: a loss, one of its guests, and the row of its host, for each guest.

    :ivar shared: whether the plan has several guests on that host
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        safe = [(number, each) for number, each in enumerate(findings) if len(each.places)]
        counts = [len(each.places) for _number, each in safe]
        self.losses = numpy.repeat(numpy.array([number for number, _each in safe], dtype=int), counts)
        self.guests = _joined([each.guests for _number, each in safe])
        self.places = _joined([each.places for _number, each in safe])
        pairs = self.losses * (int(self.places.max(initial=0)) + 1) + self.places
        _pairs, self._pair_of, numbers = numpy.unique(pairs, return_inverse=True, return_counts=True)
        self.shared = numbers[self._pair_of] > 1

    def sharing(self, some: numpy.ndarray) -> list[tuple[int, list[int], int]]:
        """Loss, guests and row of each host that several guests share. :param some: a mask of what is looked at"""
        found: dict[int, tuple[int, list[int], int]] = {}
        for each in numpy.flatnonzero(some & self.shared).tolist():
            pair = int(self._pair_of[each])
            found.setdefault(pair, (int(self.losses[each]), [], int(self.places[each])))[1].append(
                int(self.guests[each])
            )
        return list(found.values())


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


def _joined(arrays: Sequence[numpy.ndarray]) -> numpy.ndarray:
    return numpy.concatenate(arrays) if arrays else numpy.array([], dtype=int)


_NOBODY = numpy.array([], dtype=int)
_UNKNOWN = Finding(Verdict.NOT_PROVED, "", _NOBODY, _NOBODY)
