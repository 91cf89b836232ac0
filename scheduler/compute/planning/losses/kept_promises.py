# SPDX-License-Identifier: Apache-2.0
"""Promises that a state of the fleet does not keep. Plans ask about the states that they lead through."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from oslo_config import cfg

from fleet.db.feed.feed import Changes
from fleet.objects.tolerance import Tolerance
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.planning.ground import packing
from scheduler.compute.planning.losses.decisions import Decisions
from scheduler.compute.planning.losses.promised_losses import LIMIT_S, Lost
from scheduler.compute.planning.losses.room_reader import RequestsOf, RoomReader
from scheduler.planning.copied_fleet import CopiedFleet
from scheduler.planning.survival.proof import Survival
from scheduler.planning.survival.room import Verdict


def broken(
    conf: cfg.ConfigOpts, state: Changes, promised: Sequence[Tolerance], requests_of: RequestsOf
) -> Collection[str]:
    """Return the names of the losses that are promised to be survived, and are not proved to be.

    More losses than can be looked at are left out.
    """
    asked = packing(loading.load_pipeline(conf))
    fleet = CopiedFleet(asked, state, conf.service_down_time, HostManager)
    reader = RoomReader(asked, requests_of)
    room, _changed = fleet.read(lambda hosts, _state: reader.read(hosts))
    lost = fleet.read(lambda hosts, _state: Lost(promised, hosts, conf.default_availability_zone))
    survival = Survival(room, Decisions(fleet, room, reader), LIMIT_S)
    found = enumerate(survival.findings(lost.rows))
    return {lost[number].name for number, each in found if each.verdict is not Verdict.SAFE}
