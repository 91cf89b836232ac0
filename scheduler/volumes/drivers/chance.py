# SPDX-License-Identifier: Apache-2.0
"""A driver that picks any backend that is up at random: no filters, no weighers.

The value ``chance_scheduler`` names it; :mod:`scheduler.volumes.drivers.loading` loads it.
"""

from __future__ import annotations

import random

from oslo_config import cfg

from fleet.context import RequestContext
from fleet.reasons import Reason
from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.drivers.host_manager import HostManager
from scheduler.volumes.drivers.unweighed import Found, Unweighed


class ChanceScheduler(Unweighed):
    """Only ``ignore_hosts`` counts. Every backend that is up is equally likely, and so is each of its pools."""

    def __init__(self, conf: cfg.ConfigOpts, host_manager: HostManager, chance: random.Random | None = None) -> None:
        super().__init__(conf, host_manager)
        self._chance = chance or random.Random()

    def choose(self, pools: Candidates, request: VolumeRequest, context: RequestContext) -> Found:
        up = [pools.key(row) for row in pools.rows[self.up(pools)].tolist()]
        if not up:
            return Found.none(Reason.HOSTS_DOWN, "Is the appropriate service running? No backend is up.")
        left = [key for key in up if key[0] not in request.ignore_hosts]
        if not left:
            return Found.none(Reason.POLICY, "Could not find another host: every backend that is up is to be ignored.")
        backend = self._chance.choice(sorted({key[0] for key in left}))
        return Found(self._chance.choice([key for key in left if key[0] == backend]))
