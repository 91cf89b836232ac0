# SPDX-License-Identifier: Apache-2.0
"""Moves in steps, each of which the scheduler's own code accepts beside all that are made before it.

Called by :mod:`scheduler.compute.planning.rebalance`. In a step the hosts hold what comes, and still what goes: so no
state between two moves has less room than was judged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy

from fleet import capacity
from fleet.objects.rebalance import Move
from scheduler.compute.planning.ground import Ground, Movable
from scheduler.compute.planning.moves.columns import DISK, MEMORY, VCPUS, Columns
from scheduler.compute.planning.moves.moved import joined, moved
from scheduler.planning.copied_fleet import CopiedFleet
from scheduler.planning.search import ordering


@dataclasses.dataclass(frozen=True)
class Checked:
    """:param refused: moves that the filters refuse, or that nothing can come before; by uuid, with the reason"""

    moves: list[Move]
    refused: Mapping[str, str]


def moves_to(columns: Columns, at: numpy.ndarray, most_moves: int, purpose: Callable[[int], str]) -> Checked:
    """Return the moves that bring the guests to their hosts. :param purpose: of leaving a host"""
    steps, stay = ordering.ordered(columns.problem, at, most_moves)
    found = []
    for number, step in enumerate(steps, 1):
        # In the order of the hosts: that of the rows is any.
        for item, source, destination in sorted(step.moves, key=lambda each: _key(columns, each)):
            need = columns.problem.need[item].tolist()
            found.append(
                Move(
                    instance_uuid=columns.guests[item].uuid,
                    source=columns.hosts[source],
                    destination=columns.hosts[destination],
                    vcpus=need[VCPUS],
                    memory_mb=need[MEMORY],
                    disk_gb=need[DISK] // capacity.MB_PER_GB,
                    purpose=purpose(source),
                    step=number,
                )
            )
    why = "its move waits for another that waits for it, and no third host takes one of them"
    return Checked(found, {columns.guests[item].uuid: why for item in stay})


def _key(columns: Columns, move: tuple[int, int, int]) -> tuple[str, str, str]:
    item, source, destination = move
    return columns.hosts[source], columns.hosts[destination], columns.guests[item].uuid


def checked(ground: Ground, columns: Columns, moves: Sequence[Move]) -> Checked:
    """Decide all moves on copies of the fleet, one for each step. What is refused, and what follows it, is left out."""
    guest_of = columns.guest_of()
    where = {each.uuid: each.host for each in columns.guests}
    made: list[Move] = []
    refused: dict[str, str] = {}
    for step in sorted({each.step for each in moves}):
        fleet = after(ground, guest_of, made)
        for move in [each for each in moves if each.step == step]:
            if where[move.instance_uuid] != move.source:  # an earlier move of it was refused
                continue
            reason = _refusal(fleet, guest_of[move.instance_uuid], move.destination)
            if reason:
                refused[move.instance_uuid] = reason
                continue
            made.append(move)
            where[move.instance_uuid] = move.destination
    return Checked(made, refused)


def after(ground: Ground, guest_of: Mapping[str, Movable], moves: Sequence[Move]) -> CopiedFleet:
    """Return a copy of the fleet after these moves."""
    return ground.copy(moved(ground.state, joined(moves), guest_of) if moves else None)


def _refusal(fleet: CopiedFleet, guest: Movable, host: str) -> str:
    """Decide and book a guest on a host; return why it is refused, or ""."""
    request = dataclasses.replace(guest.request, force_hosts=(), force_nodes=(), requested_hosts=(host,))
    made = fleet.decide(request)
    return "" if made.complete else f"{host} is refused: {made.reason}"
