# SPDX-License-Identifier: Apache-2.0
"""Wires recoveries of hosts."""

from __future__ import annotations

import dataclasses

from conductor_stub.moves.wiring import Moves
from conductor_stub.parts import Common, Part, Run
from conductor_stub.recovery.keeper import EVERY_S, RecoveryKeeper
from conductor_stub.recovery.manager import RecoveryManager


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recovery(Part):
    keeper: RecoveryKeeper


def wire(common: Common, moves: Moves) -> Recovery:
    """:param moves: makes the evacuations"""
    database, settings = common.database, common.settings.recovery
    keeper = RecoveryKeeper(database, moves.placement, settings, common.fresh, common.fence, common.spawn)
    manager = RecoveryManager(database, common.limits.service_down_time_s, common.fresh)
    return Recovery(endpoints=[manager], runs=[Run("recovery", keeper.look, EVERY_S)], keeper=keeper)
