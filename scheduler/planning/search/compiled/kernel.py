# SPDX-License-Identifier: Apache-2.0
"""The loop of the search: draw a move or a swap, price it, and make it if the temperature allows.

Called by :mod:`scheduler.planning.search.compiled.oscillation`. All functions are compiled when they are called first; numba
keeps the machine code beside this file, or in the user's cache directory. A place may hold more than its capacity meanwhile,
at a price. Spread, conflict, dependency, shapes and the number of moves are always kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy

from scheduler.planning.search.compiled.tables import (
    BEST,
    COST,
    EXCESS,
    FULL,
    MADE,
    MOST_LEFT,
    MOVED,
    STIRRED,
    WITHIN,
    Tables,
)

#: Less excess is none: sums of whole numbers are exact, and others nearly.
_NOTHING = 1e-6
_NOBODY = -1
_CACHED = 1 << 20
#: A change that costs more than so many temperatures is refused: its chance is below 2 ** -53, the least above 0 that a
#: random number is compared with.
_FARTHEST = 37.0


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return it as machine code that does not count references to arrays, which took two thirds of the time.

    The option for that is a private one of numba. Such code may make no arrays.
    """
    try:
        return numba.njit(cache=True, nogil=True, _nrt=False)(function)
    except RuntimeError:  # no directory for the machine code may be written to
        return numba.njit(nogil=True, _nrt=False)(function)


@_compiled
def _count(t: Tables, item: int, place: int, sign: int) -> None:
    """Let an item enter a place (1), or leave it (-1)."""
    takes = t.lasting if t.start[item] == place else t.need
    excess = cost = 0.0
    for resource in range(takes.shape[1]):
        t.free[place, resource] -= sign * takes[item, resource]
        excess -= t.scale[resource] * min(t.free[place, resource], 0.0)
    row = place if len(t.weight) > 1 else 0
    for term in range(t.slope.shape[1]):
        t.level[place, term] += sign * t.slope[item, term]
        cost += t.weight[row, term] * max(t.level[place, term], 0.0)
    if (excess > _NOTHING) != (t.full_at[place] >= 0):
        _list_full(t, place, excess > _NOTHING)
    t.excess_of[place] = excess
    t.cost_of[place] = cost
    group = t.group[item]
    if group == len(t.most) - 1:
        return
    t.members[group, place] += sign
    location = t.location[place]
    was = t.at_location[group, location] > 0
    t.at_location[group, location] += sign
    t.locations[group] += int(t.at_location[group, location] > 0) - int(was)
    t.in_hood[group, t.hood[place]] += sign


@_compiled
def _placed(t: Tables, item: int, place: int) -> float:
    """Return the cost of an item's move to a place."""
    first = t.start[item]
    cost = 0.0 if first == place else t.away[item]
    return cost + t.distance[first, place] if len(t.distance) > 1 else cost


@_compiled
def _list_full(t: Tables, place: int, is_full: bool) -> None:
    number = int(t.numbers[FULL])
    if is_full:
        t.full[number], t.full_at[place] = place, number
        t.numbers[FULL] = number + 1
        return
    index, last = t.full_at[place], t.full[number - 1]
    t.full[index], t.full_at[last] = last, index
    t.full_at[place] = -1
    t.numbers[FULL] = number - 1


@_compiled
def _join(t: Tables, item: int, here: int, place: int) -> None:
    """Let an item leave the ring of a place for that of another, and note that it has moved."""
    if t.numbers[STIRRED] < len(t.stirred):
        t.stirred[int(t.numbers[STIRRED])] = item
    t.numbers[STIRRED] += 1
    following, previous = t.next[item], t.previous[item]
    t.next[previous], t.previous[following] = following, previous
    if t.head[here] == item:
        t.head[here] = following if following != item else _NOBODY
    head = t.head[place]
    if head == _NOBODY:
        t.head[place] = t.next[item] = t.previous[item] = item
        return
    last = t.previous[head]
    t.next[last], t.previous[head] = item, item
    t.next[item], t.previous[item] = head, last


@_compiled
def _put(t: Tables, item: int, place: int) -> None:
    here, group = t.at[item], t.group[item]
    _count(t, item, here, -1)
    _count(t, item, place, 1)
    t.at[item] = place
    away = int(here == t.start[item]) - int(place == t.start[item])
    t.numbers[MOVED] += away
    if away == 0 or group == len(t.most) - 1:
        return
    t.left_number[t.left[group]] -= 1
    t.left[group] += away
    t.left_number[t.left[group]] += 1
    if t.left[group] > t.numbers[MOST_LEFT]:
        t.numbers[MOST_LEFT] = t.left[group]
    while t.numbers[MOST_LEFT] > 0 and t.left_number[int(t.numbers[MOST_LEFT])] == 0:
        t.numbers[MOST_LEFT] -= 1


@_compiled
def _holds(t: Tables, group: int, left: int, entered: int) -> bool:
    """Return whether a group that has left a place for another keeps spread and dependencies."""
    if group == len(t.most) - 1:
        return True
    if t.locations[group] < t.spread[group]:
        return False
    old, new = t.hood[left], t.hood[entered]
    if old == new:
        return True
    for number in range(t.depends_of[group], t.depends_of[group + 1]):
        if t.in_hood[t.depends[number], new] == 0:
            return False
    if t.in_hood[group, old] == 0:
        for number in range(t.dependents_of[group], t.dependents_of[group + 1]):
            if t.in_hood[t.dependents[number], old] > 0:
                return False
    return True


@_compiled
def _may(t: Tables, item: int, other: int, here: int, there: int) -> bool:
    """Return whether shapes and conflicts let an item go there, and ``other`` come here, if any."""
    group = t.group[item]
    if not t.fits[t.shape[item], there] or t.members[group, there] >= t.most[group]:
        return False
    if other == _NOBODY:
        return True
    others = t.group[other]
    return others != group and t.fits[t.shape[other], here] and t.members[others, here] < t.most[others]


@_compiled
def _change_of_places(t: Tables, item: int, other: int, here: int, there: int) -> float:
    """Return the change of the cost of two places: ``item`` goes from ``here`` to ``there``, and ``other`` back, if any."""
    change = -t.cost_of[here] - t.cost_of[there]
    row, row_there = (here, there) if len(t.weight) > 1 else (0, 0)
    for term in range(t.slope.shape[1]):
        shift = t.slope[item, term]
        if other != _NOBODY:
            shift -= t.slope[other, term]
        change += t.weight[row, term] * max(t.level[here, term] - shift, 0.0)
        change += t.weight[row_there, term] * max(t.level[there, term] + shift, 0.0)
    return change


@_compiled
def _change_of_excess(t: Tables, item: int, other: int, here: int, there: int) -> float:
    """Return the change of the excess of two places, as above."""
    change = -t.excess_of[here] - t.excess_of[there]
    leaves = t.lasting if t.start[item] == here else t.need
    enters = t.lasting if t.start[item] == there else t.need
    comes, goes = t.need, t.need
    if other != _NOBODY:
        comes = t.lasting if t.start[other] == here else t.need
        goes = t.lasting if t.start[other] == there else t.need
    for resource in range(t.need.shape[1]):
        left = t.free[here, resource] + leaves[item, resource]
        left_there = t.free[there, resource] - enters[item, resource]
        if other != _NOBODY:
            left -= comes[other, resource]
            left_there += goes[other, resource]
        change -= t.scale[resource] * (min(left, 0.0) + min(left_there, 0.0))
    return change


@_compiled
def _made(t: Tables, item: int, other: int, there: int, most_moves: int) -> bool:
    """Make a move or a swap; False, and nothing has changed, if spread, dependency or the number of moves forbid it."""
    here = t.at[item]
    _put(t, item, there)
    if other != _NOBODY:
        _put(t, other, here)
    holds = t.numbers[MOVED] <= most_moves and _holds(t, t.group[item], here, there)
    if holds and (other == _NOBODY or _holds(t, t.group[other], there, here)):
        return True
    _undo(t, item, other, here, there)
    return False


@_compiled
def _undo(t: Tables, item: int, other: int, here: int, there: int) -> None:
    if other != _NOBODY:
        _put(t, other, there)
    _put(t, item, here)


@_compiled
def run(
    t: Tables,
    steps: int,
    temperature: float,
    price: float,
    swaps: float,
    homeward: float,
    relieving: float,
    most_moves: int,
    draw: numpy.random.Generator,
) -> None:
    """Draw so many moves and swaps.

    A change of the cost by c and of the excess by e is made with the chance exp(-(c + price * e) / temperature).

    :param swaps, homeward: shares of the steps that are swaps, and moves to the first place
    :param relieving: share of the steps that take an item from a place which holds too much, while there is one
    """
    # To read one member of a large table takes longer than the price of a change.
    is_small = t.members.size < _CACHED
    t.numbers[MADE] = t.numbers[WITHIN] = 0
    excess = 0.0
    for index in range(len(t.excess_of)):
        excess += t.excess_of[index]
    is_best = False
    for _step in range(steps):
        kind = draw.random()
        other = _NOBODY
        if t.numbers[FULL] > 0 and draw.random() < relieving:
            place = t.full[int(draw.random() * t.numbers[FULL])]
            item = t.head[place]
            t.head[place] = t.next[item]
        else:
            item = t.drawn[int(draw.random() * len(t.drawn))]
        here = t.at[item]
        if kind < swaps:
            other = int(draw.random() * len(t.at))
            there = t.at[other]
        elif kind > 1 - homeward:
            there = t.start[item]
        else:
            there = int(draw.random() * len(t.free))
        if there == here or (is_small and not _may(t, item, other, here, there)):
            continue
        change = _change_of_places(t, item, other, here, there) - t.placed[item]
        if other != _NOBODY:
            change -= t.placed[other]
        # Nothing takes more excess away than there is, and more from groups than two items.
        least = change + 2 * (t.least_distance - t.group_weight)
        cheapest = least - price * (t.excess_of[here] + t.excess_of[there])
        if cheapest > _FARTHEST * temperature:
            continue
        limit = -temperature * math.log(1 - draw.random())
        if cheapest > limit:
            continue
        if not is_small and not _may(t, item, other, here, there):
            continue
        by = _change_of_excess(t, item, other, here, there)
        if least + price * by > limit:
            continue
        placed_there = _placed(t, item, there)
        placed_here = _placed(t, other, here) if other != _NOBODY else 0.0
        change += placed_there + placed_here
        if change - 2 * t.group_weight + price * by > limit:
            continue
        if is_best and change + price * by > 0:
            _keep(t)
            is_best = False
        before = t.numbers[MOST_LEFT]
        if not _made(t, item, other, there, most_moves):
            continue
        change += t.group_weight * (t.numbers[MOST_LEFT] - before)
        if change + price * by > limit:
            _undo(t, item, other, here, there)
            continue
        _join(t, item, here, there)
        t.placed[item] = placed_there
        if other != _NOBODY:
            _join(t, other, there, here)
            t.placed[other] = placed_here
        t.numbers[COST] += change
        t.numbers[MADE] += 1
        excess += by
        is_best = False
        if excess < _NOTHING:
            t.numbers[WITHIN] += 1
            is_best = t.numbers[COST] < t.numbers[BEST] - 1e-9 * abs(t.numbers[BEST])
    if is_best:
        _keep(t)
    t.numbers[EXCESS] = excess


@_compiled
def _keep(t: Tables) -> None:
    """Keep the assignment as the best."""
    number = int(t.numbers[STIRRED])
    if number > len(t.stirred):
        for item in range(len(t.at)):
            t.best[item] = t.at[item]
    else:
        for index in range(number):
            t.best[t.stirred[index]] = t.at[t.stirred[index]]
    t.numbers[STIRRED] = 0
    t.numbers[BEST] = t.numbers[COST]
