# SPDX-License-Identifier: Apache-2.0
"""A host of its own for each guest: no two guests share what is free, so each needs only to pass the filters alone.

A set of guests has such hosts if, in the order of their numbers of candidates, the n-th guest has at least n of them: each
takes a host that those before it have left. Hall's theorem (J. London Math. Soc. 10, 1935) covers the rest, by a matching.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from scipy import sparse
from scipy.sparse import csgraph

from scheduler.planning.survival.room import NO_GROUP, Room


def easily_safe(room: Room) -> numpy.ndarray:
    """Return a boolean for each host: if it is lost alone, its guests surely find a host each.

    False says nothing: the numbers of choices are too low where groups are.
    """
    if not len(room.uuids):
        return numpy.ones(len(room.hosts), dtype=bool)
    choices, in_group = room.choices, room.group_of != NO_GROUP
    order = numpy.lexsort((choices, room.host_of))
    hosts = room.host_of[order]
    first = numpy.searchsorted(hosts, hosts, side="left")
    number = numpy.arange(len(order)) - first + 1
    bound = numpy.array([each.together for each in room.groups] or [False])
    unclear = (choices[order] < number) | (in_group[order] & bound[room.group_of[order]])
    safe = numpy.ones(len(room.hosts), dtype=bool)
    safe[hosts[unclear]] = False
    return safe


def spread(room: Room, guests: numpy.ndarray, lost: int, preferred: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return a host of its own for each guest of a host that is :func:`easily_safe`.

    :param preferred: by shape, the rows of the hosts that would take one, the preferred ones first
    """
    used = {lost}
    plan = {}
    for guest in guests[numpy.argsort(room.choices[guests], kind="stable")].tolist():
        members = room.hosts_of_members(int(room.group_of[guest]))
        plan[guest] = next(row for row in preferred[room.shape_of[guest]] if row not in used and row not in members)
        used.add(plan[guest])
    return plan


def match(candidates: Sequence[numpy.ndarray]) -> list[int] | None:
    """Return a host for each guest, all different; None if there is no such choice.

    :param candidates: of each guest, the rows of its hosts, the preferred ones first
    """
    number = len(candidates)
    # Whoever has as many candidates as there are guests finds one when all others have theirs: no more are needed.
    few = [each[:number] for each in candidates]
    rows, columns = numpy.unique(numpy.concatenate(few), return_inverse=True) if few else (numpy.array([]), None)
    if columns is None:
        return []
    ends = numpy.cumsum([0, *(len(each) for each in few)])
    graph = sparse.csr_matrix((numpy.ones(len(columns), dtype=bool), columns, ends), shape=(number, len(rows)))
    found = csgraph.maximum_bipartite_matching(graph, perm_type="column")
    return None if (found < 0).any() else [int(rows[column]) for column in found]
