# SPDX-License-Identifier: Apache-2.0
"""Wires recoveries of hosts. :mod:`conductor_stub.wiring` calls it."""

from __future__ import annotations

import dataclasses

from conductor_stub.builds.wiring import Builds
from conductor_stub.moves.wiring import Moves
from conductor_stub.operators.dry_run import DryRun
from conductor_stub.parts import Common, Part, Run
from conductor_stub.recovery.keeper import EVERY_S, RecoveryKeeper
from conductor_stub.recovery.manager import RecoveryManager
from conductor_stub.recovery.planning import Planner


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recovery(Part):
    keeper: RecoveryKeeper


def wire(common: Common, moves: Moves, builds: Builds) -> Recovery:
    """:param moves: makes the evacuations; ``builds`` makes the requests of a plan"""
    database, settings = common.database, common.settings.recovery
    dry_run = DryRun(database, builds.intake, builds.placement)
    plan = Planner(database, common.clients.scheduler, dry_run).plan
    keeper = RecoveryKeeper(database, moves.placement, settings, common.fresh, common.fence, common.spawn, plan)
    manager = RecoveryManager(database, common.limits.service_down_time_s, common.fresh)
    return Recovery(endpoints=[manager], runs=[Run("recovery", keeper.look, EVERY_S)], keeper=keeper)
