# SPDX-License-Identifier: Apache-2.0
"""Wires moves. :mod:`conductor_stub.wiring` calls it."""

from __future__ import annotations

import dataclasses

from conductor_stub.moves.intake import MoveIntake
from conductor_stub.moves.manager import MigrationManager
from conductor_stub.moves.placement import MovePlacement
from conductor_stub.moves.progress import MoveProgress
from conductor_stub.moves.sweeper import MoveSweeper
from conductor_stub.parts import Common, Part, Run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moves(Part):
    intake: MoveIntake
    placement: MovePlacement
    progress: MoveProgress
    sweeper: MoveSweeper


def wire(common: Common) -> Moves:
    database, limits, clients, settings = common.database, common.limits, common.clients, common.settings
    placement = MovePlacement(
        *(database, clients.scheduler, clients.compute, clients.moves, limits, settings.same_host, common.fresh)
    )
    intake = MoveIntake(database, placement, settings.aliases, common.require_in_step)
    progress = MoveProgress(database, placement, limits)
    sweeper = MoveSweeper(database, placement, limits, common.fresh)
    manager = MigrationManager(placement, progress)
    return Moves(
        endpoints=[intake, manager],
        for_agents=[manager],
        runs=[Run("moves", sweeper.sweep, settings.sweep_interval_s)],
        intake=intake,
        placement=placement,
        progress=progress,
        sweeper=sweeper,
    )
