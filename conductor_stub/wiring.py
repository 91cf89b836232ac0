# SPDX-License-Identifier: Apache-2.0
"""Wires all domains of a conductor. The daemon, the functional tests and the simulation use it."""

from __future__ import annotations

from typing import NamedTuple

from conductor_stub.agents import wiring as agents
from conductor_stub.attachments import wiring as attachments
from conductor_stub.attachments.reservations import Reservations
from conductor_stub.balance import wiring as balance
from conductor_stub.builds import wiring as builds
from conductor_stub.maintenance import wiring as maintenance
from conductor_stub.moves import wiring as moves
from conductor_stub.operators import wiring as operators
from conductor_stub.parts import Common, Part
from conductor_stub.power import wiring as power
from conductor_stub.recovery import wiring as recovery
from conductor_stub.volumes import wiring as volumes


class Parts(NamedTuple):
    """A conductor. Iterating over it yields its parts."""

    agents: agents.Agents
    builds: builds.Builds
    moves: moves.Moves
    recovery: recovery.Recovery
    maintenance: maintenance.MaintenancePart
    balance: balance.BalancePart
    power: power.Power
    attachments: attachments.Attachments
    volumes: volumes.Volumes
    operators: Part


def wire(common: Common) -> Parts:
    reserving = Reservations(common.database, common.clients.compute, common.clients.backends)
    of_builds, of_power, of_moves = builds.wire(common, reserving), power.wire(common), moves.wire(common)
    return Parts(
        agents.wire(common, of_moves.placement),
        of_builds,
        of_moves,
        recovery.wire(common, of_moves, of_builds),
        maintenance.wire(common, of_moves),
        balance.wire(common, of_moves, of_builds),
        of_power,
        attachments.wire(common),
        volumes.wire(common),
        operators.wire(common, of_builds, of_power),
    )
