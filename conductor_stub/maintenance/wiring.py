# SPDX-License-Identifier: Apache-2.0
"""Wires maintenances of hosts. :mod:`conductor_stub.wiring` calls it."""

from __future__ import annotations

import dataclasses

from conductor_stub.maintenance.keeper import EVERY_S, MaintenanceKeeper
from conductor_stub.maintenance.manager import MaintenanceManager
from conductor_stub.moves.wiring import Moves
from conductor_stub.parts import Common, Part, Run
from fleet.db.operations import maintenances

#: Seconds between two removals of old maintenances.
_OLD_EVERY_S = 3600


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaintenancePart(Part):
    keeper: MaintenanceKeeper


def wire(common: Common, moves: Moves) -> MaintenancePart:
    """:param moves: makes the moves away from the hosts"""
    database, settings = common.database, common.settings.maintenance
    keeper = MaintenanceKeeper(
        *(database, moves.placement, settings, common.fresh, common.hook, common.spawn), common.clients.notifier.info
    )
    old = Run("old maintenances", lambda: database.write(maintenances.remove_old, common.fresh()), _OLD_EVERY_S)
    return MaintenancePart(
        endpoints=[MaintenanceManager(database, settings, common.fresh)],
        runs=[Run("maintenance", keeper.look, EVERY_S), old],
        keeper=keeper,
    )
