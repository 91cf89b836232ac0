# SPDX-License-Identifier: Apache-2.0
"""Wires attachments. :mod:`conductor_stub.wiring` calls it."""

from __future__ import annotations

import dataclasses

from conductor_stub.attachments.intake import AttachmentIntake
from conductor_stub.attachments.progress import AttachmentManager
from conductor_stub.attachments.sweeper import AttachmentSweeper
from conductor_stub.parts import Common, Part, Run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attachments(Part):
    intake: AttachmentIntake
    manager: AttachmentManager
    sweeper: AttachmentSweeper


def wire(common: Common) -> Attachments:
    database, limits, clients = common.database, common.limits, common.clients
    intake = AttachmentIntake(database, clients.compute, clients.backends, limits, common.fresh)
    manager = AttachmentManager(database, limits, common.fresh)
    sweeper = AttachmentSweeper(database, intake, limits, common.fresh)
    return Attachments(
        endpoints=[intake, manager],
        for_agents=[manager],
        runs=[Run("attachments", sweeper.sweep, common.settings.sweep_interval_s)],
        intake=intake,
        manager=manager,
        sweeper=sweeper,
    )
