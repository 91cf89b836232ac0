# SPDX-License-Identifier: Apache-2.0
"""Wires power tasks. :mod:`conductor_stub.wiring` calls it."""

from __future__ import annotations

import dataclasses

from conductor_stub.parts import Common, Part, Run
from conductor_stub.power.image_check import ImageCheck
from conductor_stub.power.intake import PowerIntake
from conductor_stub.power.sweeper import PowerSweeper


@dataclasses.dataclass(frozen=True, kw_only=True)
class Power(Part):
    intake: PowerIntake
    sweeper: PowerSweeper


def wire(common: Common) -> Power:
    check = ImageCheck(common.clients.scheduler)
    intake = PowerIntake(
        common.database, common.clients.compute, common.limits, common.fresh, common.settings.aliases, check
    )
    sweeper = PowerSweeper(common.database, intake, common.limits, common.fresh)
    runs = [Run("power", sweeper.sweep, common.settings.sweep_interval_s)]
    return Power(endpoints=[intake], runs=runs, intake=intake, sweeper=sweeper)
