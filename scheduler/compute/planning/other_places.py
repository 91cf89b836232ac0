# SPDX-License-Identifier: Apache-2.0
"""Other places for the guests of one host than the fullest hosts that take them: on the emptiest hosts, and packed.

Called by :mod:`scheduler.compute.planning.waves` for a host that would be left out otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy

from scheduler.compute.planning.ground import Movable, away
from scheduler.compute.planning.losses.shapes import Shapes
from scheduler.compute.planning.moves.columns import MEMORY
from scheduler.compute.tolerance import amounts
from scheduler.engine.decision import StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.pipeline import Pipeline
from scheduler.planning.copied_fleet import CopiedFleet
from scheduler.planning.survival.packing import Item, Packing
from scheduler.planning.survival.room import NO_GROUP

#: Seconds that the search for a packing may take.
_LIMIT_S = 1.0


def found(asked: Pipeline, fleet: CopiedFleet, guests: Sequence[Movable]) -> Iterator[Sequence[str]]:
    """Yield hosts for these guests of one host, one for each.

    The filters have judged each guest alone, and the sums of amounts fit. Whether all pass together, a decision says.
    """

    def read(hosts: Candidates, _age: StateAge) -> tuple[numpy.ndarray, list[numpy.ndarray], Sequence[str]]:
        shapes = Shapes(asked)
        fits = [shapes.found[shapes.of(away(each), hosts)].fits for each in guests]
        keys = hosts.keys()
        return amounts.free(asked, hosts), fits, [key[0] if key else "" for key in keys]

    free, fits, names = fleet.read(read)
    demands = [numpy.array(amounts.demand_of(each.request)) for each in guests]
    for rows in (_emptiest(free, fits, demands), _packed(free, fits, demands)):
        if rows is not None:
            yield [names[row] for row in rows]


def _emptiest(
    free: numpy.ndarray, fits: Sequence[numpy.ndarray], demands: Sequence[numpy.ndarray]
) -> Sequence[int] | None:
    left, rows = free.copy(), list[int]()
    for passing, demand in zip(fits, demands, strict=True):
        those = numpy.flatnonzero(passing & (left >= demand).all(axis=1))
        if not len(those):
            return None
        rows.append(int(those[left[those, MEMORY].argmax()]))
        left[rows[-1]] -= demand
    return rows


def _packed(
    free: numpy.ndarray, fits: Sequence[numpy.ndarray], demands: Sequence[numpy.ndarray]
) -> Sequence[int] | None:
    if not all(each.any() for each in fits):
        return None
    items = [
        Item([number], numpy.flatnonzero(passing), demand, NO_GROUP)
        for number, (passing, demand) in enumerate(zip(fits, demands, strict=True))
    ]
    return Packing(items, free, {}).solve(_LIMIT_S)[1] or None
