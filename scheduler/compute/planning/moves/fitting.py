# SPDX-License-Identifier: Apache-2.0
"""New instances after some moves: how many the scheduler places, all together, as a user asks for them.

Called by :mod:`scheduler.compute.planning.rebalance`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fleet.objects import RequestSpec
from fleet.objects.rebalance import Move
from scheduler.compute.planning.ground import Ground
from scheduler.compute.planning.moves import steps
from scheduler.compute.planning.moves.columns import Columns


def fitting(ground: Ground, columns: Columns, moves: Sequence[Move]) -> list[int]:
    """Return the hosts of the most new instances that one request for them places after the moves."""
    if columns.new is None:
        return []
    fleet = steps.after(ground, columns.guest_of(), moves)
    best: list[int] = []
    number = high = columns.new.num_instances
    low = 0
    while low < high:
        made = fleet.decide(_some(columns.new, number))
        if made.complete:
            low, best = number, [columns.row_of[pick.key[0]] for pick in made.picks]
            for uuid in columns.new.instance_uuids[:number]:
                fleet.release(uuid)
        else:
            high = number - 1
        number = (low + high + 1) // 2
    return best


def refusing(ground: Ground, columns: Columns, moves: Sequence[Move], hosts: Sequence[int]) -> list[int]:
    """Return those of ``hosts``, which have room after the moves, that the scheduler does not let one new instance go to."""
    if columns.new is None or not hosts:
        return []
    fleet = steps.after(ground, columns.guest_of(), moves)
    one, found = _some(columns.new, 1), []
    for host in dict.fromkeys(hosts):
        if fleet.decide(dataclasses.replace(one, requested_hosts=(columns.hosts[host],))).complete:
            fleet.release(one.instance_uuids[0])
        else:
            found.append(host)
    return found


def _some(request: RequestSpec, number: int) -> RequestSpec:
    """Return the request for the first instances only."""
    return dataclasses.replace(request, num_instances=number, instance_uuids=request.instance_uuids[:number])
