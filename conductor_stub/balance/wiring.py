# SPDX-License-Identifier: Apache-2.0
"""Wires the balancing of aggregates. :mod:`conductor_stub.wiring` calls it."""

from __future__ import annotations

import dataclasses

from conductor_stub.balance.keeper import EVERY_S, BalanceKeeper
from conductor_stub.balance.manager import BalanceManager
from conductor_stub.balance.trying import Trying
from conductor_stub.builds.wiring import Builds
from conductor_stub.moves.wiring import Moves
from conductor_stub.operators.dry_run import DryRun
from conductor_stub.parts import Common, Part, Run
from fleet.db.operations import balances

#: Seconds between two removals of old rounds.
_OLD_EVERY_S = 3600


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancePart(Part):
    keeper: BalanceKeeper


def wire(common: Common, moves: Moves, builds: Builds) -> BalancePart:
    """:param moves: makes the moves; ``builds`` makes the requests that the filters judge"""
    database, settings = common.database, common.settings.balance
    dry_run = DryRun(database, builds.intake, builds.placement)
    trying = Trying(database, common.clients.scheduler, dry_run, settings, common.limits.service_down_time_s)
    keeper = BalanceKeeper(*(database, moves.placement, trying, settings, common.fresh), common.clients.notifier.info)
    old = Run("old rounds of balancing", lambda: database.write(balances.remove_old, common.fresh()), _OLD_EVERY_S)
    return BalancePart(
        endpoints=[BalanceManager(database, trying, settings, common.fresh)],
        runs=[Run("balance", keeper.look, EVERY_S), Run("moves of balancing", keeper.go_on, EVERY_S), old],
        keeper=keeper,
    )
