# SPDX-License-Identifier: Apache-2.0
"""A host of its own for each guest: no two guests share what is free, so each needs only to pass the filters alone.

Called by :mod:`scheduler.planning.survival.proof`.

:func:`spread` looks for such hosts for all losses at once: guests with the fewest hosts choose first. If the n-th guest has
at least n hosts, it finds one that those before it have left. :func:`match` covers the rest, by Hall's theorem (J. London
Math. Soc. 10, 1935).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import scipy

from scheduler.planning.survival.room import NO_GROUP, Losses, Room

NOWHERE = -1
#: Numbers in the table of used hosts of the losses that are looked at together, and hosts that a group may rule out.
_CELLS, _RULED_OUT = 20_000_000, 16


def spread(room: Room, losses: Losses, guests: numpy.ndarray, starts: numpy.ndarray) -> numpy.ndarray:
    """Return a host for each guest, or NOWHERE. Within a loss all hosts differ.

    NOWHERE does not mean that no host exists: a matching may find one. Members of groups that stay together or have
    further rules are always NOWHERE here.

    :param guests, starts: of the losses, as :meth:`Room.guests_of` returns them
    """
    places = numpy.full(len(guests), NOWHERE)
    if not len(guests):
        return places
    most = int(numpy.diff(starts).max() + numpy.diff(losses.ends).max()) + _RULED_OUT
    tops = _Tops(room, most, numpy.unique(room.shape_of[guests]))
    at_once = max(_CELLS // max(tops.columns, 1), 1)
    for first in range(0, len(losses), at_once):
        last = min(first + at_once, len(losses))
        some, lost = slice(starts[first], starts[last]), slice(losses.ends[first], losses.ends[last])
        places[some] = _spread(
            *(room, tops, guests[some], starts[first : last + 1] - starts[first]),
            *(losses.rows[lost], losses.numbers[lost] - first),
        )
    return places


class _Tops:
    """The hosts that each shape prefers. ``of_shape`` numbers them, as columns of a table; ``rows`` are their rows."""

    def __init__(self, room: Room, most: int, shapes: numpy.ndarray) -> None:
        """:param shapes: the numbers of those that guests have; ``number_of`` is their place among them"""
        preferred = room.preferred
        self.column_of = numpy.full(len(room.hosts), NOWHERE)
        self.number_of = numpy.zeros(len(room.shapes), dtype=int)
        self.number_of[shapes] = numpy.arange(len(shapes))
        some = [room.shapes[number] for number in shapes.tolist()]
        self.counts = numpy.array([shape.count for shape in some])
        chosen = [preferred[shape.fits[preferred]][:most] for shape in some]
        self.rows = numpy.unique(numpy.concatenate(chosen)) if chosen else numpy.array([], dtype=int)
        self.columns = len(self.rows)
        self.column_of[self.rows] = numpy.arange(self.columns)
        #: The last column of each shape ends its search.
        self.of_shape = numpy.full((len(chosen), most + 1), NOWHERE)
        for number, each in enumerate(chosen):
            self.of_shape[number, : len(each)] = self.column_of[each]


def _spread(
    room: Room, tops: _Tops, guests: numpy.ndarray, starts: numpy.ndarray, lost: numpy.ndarray, lost_of: numpy.ndarray
) -> numpy.ndarray:
    """:param lost_of: the loss of each row in ``lost``"""
    shapes, groups = tops.number_of[room.shape_of[guests]], room.group_of[guests]
    of_loss = numpy.repeat(numpy.arange(len(starts) - 1), numpy.diff(starts))
    order = numpy.lexsort((tops.counts[shapes], of_loss))
    together = numpy.array([each.together for each in room.groups] or [False])
    open_ = ~((groups != NO_GROUP) & together[groups])
    if room.unreadable or room.ruled:
        open_ &= ~numpy.isin(guests, [*room.unreadable, *room.ruled])
    places = numpy.full(len(guests), NOWHERE)
    used = numpy.zeros((len(starts) - 1, tops.columns + 1), dtype=bool)
    columns = tops.column_of[lost]
    used[lost_of[columns != NOWHERE], columns[columns != NOWHERE]] = True
    #: By loss and shape, how many of the preferred hosts are used up.
    passed = numpy.zeros((len(starts) - 1, len(tops.counts)), dtype=numpy.int32)
    for rank in range(int(numpy.diff(starts).max())):
        losses = numpy.flatnonzero(numpy.diff(starts) > rank)
        entries = order[starts[losses] + rank]
        losses, entries = losses[open_[entries]], entries[open_[entries]]
        found = _first(tops, used, passed, losses, shapes[entries], room, groups[entries])
        taken = found != NOWHERE
        used[losses[taken], found[taken]] = True
        places[entries[taken]] = tops.rows[found[taken]]
    return places


def _first(
    tops: _Tops,
    used: numpy.ndarray,
    passed: numpy.ndarray,
    losses: numpy.ndarray,
    shapes: numpy.ndarray,
    room: Room,
    groups: numpy.ndarray,
) -> numpy.ndarray:
    """Return for one guest of each loss the first column that is not used, and not ruled out by its group."""
    at = passed[losses, shapes]
    left = numpy.arange(len(losses))
    while len(left):
        columns = tops.of_shape[shapes[left], at[left]]
        left = left[(columns != NOWHERE) & used[losses[left], columns]]
        at[left] += 1
    passed[losses, shapes] = at
    left = numpy.flatnonzero(groups != NO_GROUP)
    while len(left):
        columns = tops.of_shape[shapes[left], at[left]]
        there = columns != NOWHERE
        left, columns = left[there], columns[there]
        left = left[used[losses[left], columns] | room.is_full(groups[left], tops.rows[columns])]
        at[left] += 1
    found: numpy.ndarray = tops.of_shape[shapes, at]
    return found


def match(candidates: Sequence[numpy.ndarray]) -> list[int] | None:
    """Return a host for each guest, all different; None if there is no such choice.

    :param candidates: of each guest, the rows of its hosts, the preferred ones first
    """
    number = len(candidates)
    # A guest with as many candidates as there are guests finds one after all others: further candidates are not needed.
    few = [each[:number] for each in candidates]
    rows, columns = numpy.unique(numpy.concatenate(few), return_inverse=True) if few else (numpy.array([]), None)
    if columns is None:
        return []
    ends = numpy.cumsum([0, *(len(each) for each in few)])
    graph = scipy.sparse.csr_matrix((numpy.ones(len(columns), dtype=bool), columns, ends), shape=(number, len(rows)))
    found = scipy.sparse.csgraph.maximum_bipartite_matching(graph, perm_type="column")
    return None if (found < 0).any() else [int(rows[column]) for column in found]
