# SPDX-License-Identifier: Apache-2.0
"""Wires what agents read and write. :mod:`conductor_stub.wiring` calls it."""

from __future__ import annotations

import dataclasses

from conductor_stub.agents.api import AgentAPI
from conductor_stub.agents.gauges import PERIOD_S, HostGauges
from conductor_stub.agents.manager import ConductorManager
from conductor_stub.agents.restarts import Restarts
from conductor_stub.moves.placement import MovePlacement
from conductor_stub.parts import Common, Part, Run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agents(Part):
    api: AgentAPI


def wire(common: Common, placement: MovePlacement) -> Agents:
    """:param placement: finds other hosts for guests that keep dying"""
    enables = common.settings.enable_new_services
    api = AgentAPI(common.database, common.limits, enables, common.clock, common.ledger, common.grouped)
    manager = ConductorManager(api, common.pins, Restarts(common.database, placement))
    gauges = HostGauges(common.database, common.limits.service_down_time_s, common.clock)
    runs = [Run("host gauges", gauges.read, PERIOD_S)]
    return Agents(endpoints=[manager], for_agents=[manager], runs=runs, api=api)
