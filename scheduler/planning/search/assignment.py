# SPDX-License-Identifier: Apache-2.0
"""An assignment of a problem, with all numbers that a move changes: a move or a swap is priced for all choices at once.

Called by the modules beside it and those of :mod:`scheduler.compute.planning.moves`. An *arrival* needs less of its
first place than of others: what it has left there still counts.
"""

from __future__ import annotations

import numpy

from scheduler.planning.search.problem import ANY_NUMBER, NO_GROUP, Problem


class Assignment:
    """:param at: items: the place of each; the first places if it is left out"""

    def __init__(self, problem: Problem, at: numpy.ndarray | None = None) -> None:
        self.problem = problem
        places, groups = problem.places, problem.groups
        self.at = (problem.start if at is None else at).astype(numpy.int64).copy()
        self.need = problem.need.astype(float)
        #: What an item gives back, or takes anew, at its first place.
        self.lasting = numpy.where(problem.transient, 0.0, self.need)
        self.slope = self.need @ problem.terms.slope
        self._weight = problem.terms.weight
        # Items of no group are in one of their own, without rules.
        self.group = numpy.where(problem.group_of == NO_GROUP, len(groups.most), problem.group_of)
        self.most = numpy.append(groups.most, ANY_NUMBER)
        self.spread = numpy.append(groups.spread, 0)
        self.depends = [numpy.array([each for each in of if each != number], dtype=int)
                         for number, of in enumerate([*groups.depends, ()])]  # fmt: skip
        dependents: list[list[int]] = [[] for _ in self.most]
        for number, of in enumerate(self.depends):
            for each in of.tolist():
                dependents[each].append(number)
        self.dependents = [numpy.array(each, dtype=int) for each in dependents]
        self._location, self._hood = groups.location, groups.hood
        self.away = problem.moves.item.astype(float)
        self._count_all()
        self._places = places

    def _count_all(self) -> None:
        problem, at, number = self.problem, self.at, len(self.most)
        use = numpy.zeros((problem.places, self.need.shape[1]))
        numpy.add.at(use, at, self.need)
        left = at != problem.start
        stays = numpy.zeros_like(use)
        numpy.add.at(stays, problem.start[left], (self.need - self.lasting)[left])
        self.use = use
        self.free = problem.capacity - use - stays
        self.level = problem.terms.offset + use @ problem.terms.slope
        self.cost_of = self._priced(self.level, slice(None))
        self.count = numpy.bincount(at, minlength=problem.places)
        grouped = self.group != number - 1
        group, place = self.group[grouped], at[grouped]

        def table(of: numpy.ndarray, width: int) -> numpy.ndarray:
            made = numpy.zeros((number, width), dtype=numpy.int16)
            numpy.add.at(made, (group, of), 1)
            return made

        self.members = table(place, problem.places)
        self.at_location = table(self._location[place], int(self._location.max()) + 1)
        self.in_hood = table(self._hood[place], int(self._hood.max()) + 1)
        self.locations = numpy.count_nonzero(self.at_location, axis=1)
        self.left = numpy.bincount(self.group[left & grouped], minlength=number)
        self.moved = int(numpy.count_nonzero(left))

    def _priced(self, level: numpy.ndarray, places: slice | numpy.ndarray | int) -> numpy.ndarray:
        above = numpy.maximum(level, 0)
        if self._weight.ndim == 1:
            found: numpy.ndarray = above @ self._weight
            return found
        return numpy.einsum("...k,...k->...", above, self._weight[places])

    # -- costs ------------------------------------------------------------------------------------------------------

    def cost(self) -> float:
        """Return the cost of the assignment."""
        moves, problem = self.problem.moves, self.problem
        left = numpy.flatnonzero(self.at != problem.start)
        far = 0.0 if moves.distance is None else float(moves.distance[problem.start[left], self.at[left]].sum())
        return float(self.cost_of.sum()) + float(self.away[left].sum()) + far + self.group_cost()

    def placed(self) -> numpy.ndarray:
        """Return for each item the cost of being where it is."""
        return self._placed(numpy.arange(self.problem.items), self.at)

    def _placed(self, items: numpy.ndarray | int, places: numpy.ndarray | slice | int) -> numpy.ndarray:
        """Return the cost of the items' moves to the places; not for slices of places."""
        first = self.problem.start[items]
        cost = numpy.where(first == places, 0.0, self.away[items])
        distance = self.problem.moves.distance
        return cost if distance is None else cost + distance[first, places]

    # -- one item ---------------------------------------------------------------------------------------------------

    def targets(self, items: numpy.ndarray, low: int, high: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Price each item at each place from ``low`` to ``high``.

        Spread, dependency and the cost of groups are left out; :meth:`may` and :meth:`group_cost` are about them.

        :return: items × places: whether there is room and no conflict; and the change of the cost
        """
        problem, window = self.problem, slice(low, high)
        here, first = self.at[items], problem.start[items]
        change = self._priced(self.level[window] + self.slope[items][:, None], window)
        change -= self.cost_of[window]
        same = self._priced(self.level[here] - self.slope[items], here) - self.cost_of[here]
        change += (same - self._placed(items, here) + self.away[items])[:, None]
        if problem.moves.distance is not None:
            change += problem.moves.distance[first, window]
        may = self.room(items, low, high)
        may &= problem.fits[problem.shape_of[items], window]
        group = self.group[items]
        may &= self.members[group, window] < self.most[group][:, None]
        rows = numpy.flatnonzero((first >= low) & (first < high))
        change[rows, first[rows] - low] -= self.away[items[rows]]
        rows = numpy.flatnonzero((here >= low) & (here < high))
        may[rows, here[rows] - low] = False
        return may, change

    def room(self, items: numpy.ndarray, low: int, high: int) -> numpy.ndarray:
        """Return items × places: whether the item has room there, without regard to rules."""
        found: numpy.ndarray = (self.free[low:high] >= self.need[items][:, None]).all(axis=2)
        first = self.problem.start[items]
        rows = numpy.flatnonzero((first >= low) & (first < high) & (self.at[items] != first))
        found[rows, first[rows] - low] = (self.free[first[rows]] >= self.lasting[items[rows]]).all(axis=1)
        return found

    def conflict_free(self, item: int) -> numpy.ndarray:
        """Return for each place whether shape and conflict let an item be there; :meth:`may` looks at the other rules."""
        group = self.group[item]
        found: numpy.ndarray = self.problem.fits[self.problem.shape_of[item]] & (self.members[group] < self.most[group])
        return found

    def rules(self, item: int, low: int, high: int) -> numpy.ndarray:
        """Return for the places from ``low`` to ``high`` whether spread and dependency let the item go there."""
        group, here, number = int(self.group[item]), int(self.at[item]), high - low
        found = numpy.ones(number, dtype=bool)
        if group == len(self.most) - 1:
            return found
        location, hood = self._location[here], self._hood[here]
        locations, hoods = self._location[low:high], self._hood[low:high]
        if self.locations[group] - (self.at_location[group, location] == 1) < self.spread[group]:
            found &= (self.at_location[group, locations] == 0) | (locations == location)
        needed, by = self.depends[group], self.dependents[group]
        if len(needed):
            found &= (self.in_hood[needed] > 0).all(axis=0)[hoods] | (hoods == hood)
        if len(by) and self.in_hood[group, hood] == 1 and (self.in_hood[by, hood] > 0).any():
            found &= hoods == hood
        return found

    def may(self, item: int, place: int) -> bool:
        """Return whether conflict, spread and dependency let an item go to a place."""
        return self.may_with(item, place, 0)

    def may_with(self, item: int, place: int, more: int) -> bool:
        """Return :meth:`may` for a place to which ``more`` members of the item's group are on their way."""
        group, here = int(self.group[item]), int(self.at[item])
        if group == len(self.most) - 1:
            return True
        if self.members[group, place] + more >= self.most[group]:
            return False
        old, new = self._location[here], self._location[place]
        if old != new:
            left = self.locations[group] - (self.at_location[group, old] == 1) + (self.at_location[group, new] == 0)
            if left < self.spread[group]:
                return False
        return self._keeps_hoods(group, self._hood[here], self._hood[place], 1)

    def _keeps_hoods(self, group: int, old: int, new: int, leaving: int) -> bool:
        """:param leaving: members that the old neighbourhood still counts, and that are leaving it"""
        if old == new:
            return True
        needed, by = self.depends[group], self.dependents[group]
        if len(needed) and not (self.in_hood[needed, new] > 0).all():
            return False
        return not (len(by) and self.in_hood[group, old] == leaving and (self.in_hood[by, old] > 0).any())

    def move(self, item: int, place: int) -> None:
        """Put an item elsewhere. The caller has looked whether it may."""
        here, first, group = int(self.at[item]), int(self.problem.start[item]), int(self.group[item])
        if here == place:
            return
        need, slope = self.need[item], self.slope[item]
        self.use[here] -= need
        self.use[place] += need
        self.free[here] += self.lasting[item] if here == first else need
        self.free[place] -= self.lasting[item] if place == first else need
        for each, sign in ((here, -1), (place, 1)):
            self.level[each] += sign * slope
            self.cost_of[each] = self._priced(self.level[each], each)
            self.count[each] += sign
        self.at[item] = place
        change = int(here == first) - int(place == first)
        self.moved += change
        if group == len(self.most) - 1:
            return
        self.left[group] += change
        self.members[group, here] -= 1
        self.members[group, place] += 1
        old, new = self._location[here], self._location[place]
        self.at_location[group, old] -= 1
        self.locations[group] -= self.at_location[group, old] == 0
        self.locations[group] += self.at_location[group, new] == 0
        self.at_location[group, new] += 1
        self.in_hood[group, self._hood[here]] -= 1
        self.in_hood[group, self._hood[place]] += 1

    # -- two items --------------------------------------------------------------------------------------------------

    def swaps(self, items: numpy.ndarray, low: int, high: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Price that each item changes places with each of the items from ``low`` to ``high``.

        Spread, dependency and the cost of groups are left out: :meth:`swap` and :meth:`group_cost` look at them.
        """
        problem, window = self.problem, slice(low, high)
        here, first = self.at[items][:, None], problem.start[items][:, None]
        there, firsts = self.at[window], problem.start[window]
        shift = self.slope[window] - self.slope[items][:, None]
        level_here = self.level[here] + shift
        change = self._priced(level_here, here)
        numpy.subtract(self.level[there], shift, out=shift)
        change += self._priced(shift, there)
        change -= self.cost_of[there]
        change -= self.cost_of[here]
        one, others = items[:, None], numpy.arange(low, high)
        change += self._placed(one, there) - self._placed(one, here)
        change += self._placed(others, here) - self._placed(others, there)
        may = there != here
        group, groups = self.group[one], self.group[window]
        may &= problem.fits[problem.shape_of[one], there] & problem.fits[problem.shape_of[window], here]
        may &= (self.members[group, there] < self.most[group]) & (self.members[groups, here] < self.most[groups])
        need, lasting = self.need[window], self.lasting[window]
        taken = numpy.where((firsts == here)[:, :, None], lasting, need)
        may &= (taken <= (self.free[here] + self._held(one, here == first))).all(axis=2)
        taken = self._held(one, there == first)
        may &= (taken <= self.free[there] + self._held(others, firsts == there)).all(axis=2)
        return may, change

    def _held(self, items: numpy.ndarray, at_first: numpy.ndarray) -> numpy.ndarray:
        """Return what the items take or give back, where they are at their first places and where not."""
        return numpy.where(at_first[..., None], self.lasting[items], self.need[items])

    def swap(self, one: int, two: int) -> bool:
        """Let two items change places; False, and nothing has changed, if spread or dependency forbid it."""
        here, there = int(self.at[one]), int(self.at[two])
        self.move(one, there)
        self.move(two, here)
        if self._holds(int(self.group[one]), here, there) and self._holds(int(self.group[two]), there, here):
            return True
        self.move(one, here)
        self.move(two, there)
        return False

    def group_cost(self) -> float:
        """Return the part of the cost that is of the most items of one group that have left."""
        return self.problem.moves.group * int(self.left.max())

    def _holds(self, group: int, left: int, entered: int) -> bool:
        """Return whether a group that has left a place for another keeps spread and dependencies."""
        if group == len(self.most) - 1:
            return True
        if self.locations[group] < self.spread[group]:
            return False
        return self._keeps_hoods(group, int(self._hood[left]), int(self._hood[entered]), 0)
