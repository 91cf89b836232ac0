# SPDX-License-Identifier: Apache-2.0
"""Wires volumes. :mod:`conductor_stub.wiring` calls it."""

from __future__ import annotations

import dataclasses

from conductor_stub.parts import Common, Part, Run
from conductor_stub.volumes.creation import VolumeCreation
from conductor_stub.volumes.existing import ExistingIntake
from conductor_stub.volumes.intake import VolumeIntake
from conductor_stub.volumes.manager import VolumeManager
from conductor_stub.volumes.migrations import MigrationIntake
from conductor_stub.volumes.placement import VolumePlacement
from conductor_stub.volumes.progress import VolumeProgress
from conductor_stub.volumes.snapshots import SnapshotIntake
from conductor_stub.volumes.sweeper import VolumeSweeper
from fleet.domains import VOLUME


@dataclasses.dataclass(frozen=True, kw_only=True)
class Volumes(Part):
    creation: VolumeCreation
    placement: VolumePlacement
    progress: VolumeProgress
    sweeper: VolumeSweeper


def wire(common: Common) -> Volumes:
    database, limits, clients = common.database, common.limits, common.clients
    placement = VolumePlacement(
        *(database, clients.volume_scheduler, clients.backends, clients.volumes, limits, common.fresh, common.grouped)
    )
    # A conductor that places no volumes hands them out.
    local = common.local if VOLUME in common.settings.domains else None
    creation = VolumeCreation(database, placement, common.grouped, local, limits.default_quota)
    progress = VolumeProgress(database, placement)
    sweeper = VolumeSweeper(database, placement, limits, common.fresh)
    manager = VolumeManager(placement, progress)
    return Volumes(
        endpoints=[
            VolumeIntake(database, placement, creation),
            SnapshotIntake(database, placement),
            MigrationIntake(database, placement),
            ExistingIntake(database, placement, creation, clients.backends),
            manager,
        ],
        for_agents=[manager],
        runs=[Run("volumes", sweeper.sweep, common.settings.sweep_interval_s)],
        creation=creation,
        placement=placement,
        progress=progress,
        sweeper=sweeper,
    )
