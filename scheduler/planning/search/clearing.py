# SPDX-License-Identifier: Apache-2.0
"""Takes items off a place: each goes to the fullest place that takes it, or, where none does, a third item makes room.

Called by :mod:`scheduler.planning.search.goals`. A chain has two moves: an item of a third place goes elsewhere, and
leaves its room. An item moves once, so that a plan of such moves never sends a guest from host to host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy

from scheduler.planning.search.assignment import Assignment
from scheduler.planning.search.problem import Problem

#: Third items that are tried for one item.
_TRIED = 12
#: Of fewer items, the order does not matter.
_ENOUGH = 3


class Clearing:
    """:param closed: places: takes nothing
    :param most_moves: items that may move in all
    :param noise: returns factors of the sizes by which items are ordered when the largest first find no places; None: then
        no other order is tried
    """

    def __init__(
        self,
        problem: Problem,
        closed: numpy.ndarray,
        most_moves: int,
        noise: Callable[[int], numpy.ndarray] | None = None,
    ) -> None:
        self.problem = problem
        self.now = Assignment(problem)
        self.closed = closed.copy()
        #: Room that is kept on places, beside that of their items.
        self.kept = numpy.zeros(problem.capacity.shape)
        self.moves_left = most_moves
        self._noise = noise
        self._made: list[tuple[int, int]] = []
        self._scale = numpy.where(problem.capacity > 0, problem.capacity, 1).astype(float)

    @property
    def mark(self) -> int:
        """The number of moves so far. :meth:`undo` goes back to such a number."""
        return len(self._made)

    def undo(self, mark: int) -> None:
        while len(self._made) > mark:
            item, place = self._made.pop()
            self.now.move(item, place)
            self.moves_left += 1

    def items_at(self, place: int) -> list[int]:
        """Return the items that have not moved; the largest first."""
        need = self.problem.need
        there = numpy.flatnonzero((self.now.at == place) & (self.problem.start == place))
        size = (need[there] / self._scale[place]).max(axis=1, initial=0)
        found: list[int] = there[numpy.lexsort((there, -size))].tolist()
        return found

    def orders_at(self, place: int) -> list[list[int]]:
        """Return orders in which :meth:`items_at` may leave; the largest first is the first one."""
        items = self.items_at(place)
        if self._noise is None or len(items) < _ENOUGH:
            return [items]
        size = (self.problem.need[items] / self._scale[place]).max(axis=1) * self._noise(len(items))
        return [items, [items[each] for each in numpy.argsort(-size, kind="stable").tolist()]]

    def received(self) -> numpy.ndarray:
        """Return for each place whether it has items of others."""
        found = numpy.zeros(self.problem.places, dtype=bool)
        found[self.now.at[self.now.at != self.problem.start]] = True
        return found

    def emptied(self, place: int) -> bool:
        """Take all items off a place; False, and nothing has moved, if one finds no other."""
        mark, was_closed = self.mark, bool(self.closed[place])
        self.closed[place] = True
        if self.now.count[place] <= self.moves_left:
            for order in self.orders_at(place):
                if all(self._away(item) for item in order):
                    return True
                self.undo(mark)
        self.closed[place] = was_closed
        return False

    def made_room(self, place: int, need: numpy.ndarray, order: Sequence[int]) -> bool:
        """Take items off a place, in this order, until it has room; False, and nothing has moved, if it does not get it.

        An item is left where it is if it gives nothing of what is lacking.
        """
        mark, was_closed = self.mark, bool(self.closed[place])
        self.closed[place] = True
        for item in order:
            lack = need - self._free(place)
            if (lack <= 0).all():
                break
            if (self.problem.need[item][lack > 0] > 0).any() and self.moves_left:
                self._away(item)
        self.closed[place] = was_closed
        if (self._free(place) >= need).all():
            return True
        self.undo(mark)
        return False

    def _free(self, place: int | slice) -> numpy.ndarray:
        free: numpy.ndarray = self.now.free[place] - self.kept[place]
        return free

    def _rules(self, item: int) -> numpy.ndarray:
        found = self.now.conflict_free(item) & ~self.closed
        found[self.now.at[item]] = False
        return found

    def _away(self, item: int) -> bool:
        rules = self._rules(item)
        return self._direct(item, rules) or (self.moves_left >= 2 and self._by_chain(item, rules))

    def _direct(self, item: int, rules: numpy.ndarray) -> bool:
        need, free = self.problem.need[item], self._free(slice(None))
        places = numpy.flatnonzero(rules & (free >= need).all(axis=1))
        if not len(places) or not self.moves_left:
            return False
        left = ((free[places] - need) / self._scale[places]).sum(axis=1)
        return any(self._moved(item, int(places[each])) for each in numpy.argsort(left, kind="stable")[:_TRIED])

    def _by_chain(self, item: int, rules: numpy.ndarray) -> bool:
        """Let a third item, smaller than this one, leave its place for another."""
        need, at = self.problem.need, self.now.at
        third = (
            rules[at] & (at == self.problem.start) & (need <= need[item]).all(axis=1) & (need < need[item]).any(axis=1)
        )
        enough = third & (self._free(slice(None))[at] + need >= need[item]).all(axis=1)
        enough[item] = False
        found = numpy.flatnonzero(enough)
        size = (need[found] / self._scale[at[found]]).sum(axis=1)
        for other in found[numpy.argsort(size, kind="stable")[:_TRIED]].tolist():
            mark, place = self.mark, int(at[other])
            if self._direct(other, self._rules(other)) and self._moved(item, place):
                return True
            self.undo(mark)
        return False

    def _moved(self, item: int, place: int) -> bool:
        here = int(self.now.at[item])
        if not self.now.may(item, place) or not self.moves_left:
            return False
        self.now.move(item, place)
        self._made.append((item, here))
        self.moves_left -= 1
        return True
