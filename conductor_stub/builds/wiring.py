# SPDX-License-Identifier: Apache-2.0
"""Wires builds. :mod:`conductor_stub.wiring` calls it."""

from __future__ import annotations

import dataclasses

from conductor_stub.builds.intake import Intake
from conductor_stub.builds.manager import AgentTaskManager, ComputeTaskManager
from conductor_stub.builds.placement import BuildPlacement
from conductor_stub.builds.reserving import Reserving
from conductor_stub.builds.room_queue import RoomQueue
from conductor_stub.builds.sweeper import BuildSweeper
from conductor_stub.builds.termination import Termination
from conductor_stub.builds.unjudged import INTERVAL_S, Unjudged
from conductor_stub.parts import Common, Part, Run
from fleet.db.hosts import flavor_mix

#: Seconds between two looks at what could wake queued builds.
QUEUE_INTERVAL_S = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Builds(Part):
    intake: Intake
    placement: BuildPlacement
    termination: Termination
    sweeper: BuildSweeper
    room_queue: RoomQueue
    unjudged: Unjudged


def wire(common: Common, reserving: Reserving) -> Builds:
    """:param reserving: volumes of instances that are built with them"""
    database, limits, clients, settings = common.database, common.limits, common.clients, common.settings
    placement = BuildPlacement(
        *(database, clients.scheduler, clients.compute, clients.builds, clients.notifier, limits, common.clock),
        common.grouped,
    )
    unjudged = Unjudged(clients.scheduler.describe_filters)
    intake = Intake(
        *(database, placement, limits, settings.default_schedule_zone, common.clock, settings.aliases, common.local),
        *(common.grouped, settings.waits, reserving, unjudged, settings.default_zone),
    )
    termination = Termination(database, clients.compute, limits, common.fresh)
    sweeper = BuildSweeper(database, placement, termination, limits, common.fresh)
    room_queue = RoomQueue(database, placement, limits, common.clock)
    runs = [
        Run("deadlines", sweeper.end_overdue, settings.sweep_interval_s),
        Run("sweeper", sweeper.retry_lost, settings.sweep_interval_s),
        Run("room queue", room_queue.look, QUEUE_INTERVAL_S),
        Run("filters", unjudged.learn, INTERVAL_S),
        _flavor_mix(common),
    ]
    return Builds(
        endpoints=[ComputeTaskManager(intake, placement, termination, common.draining)],
        for_agents=[AgentTaskManager(placement)],
        runs=runs,
        intake=intake,
        placement=placement,
        termination=termination,
        sweeper=sweeper,
        room_queue=room_queue,
        unjudged=unjudged,
    )


def _flavor_mix(common: Common) -> Run:
    """Count the instances that are new once a minute. All conductors try, and the first one counts."""

    def count() -> None:
        common.database.write(flavor_mix.count, common.fresh(), common.settings.flavor_mix_half_life_s)

    return Run("flavor mix", count, flavor_mix.PERIOD_S)
