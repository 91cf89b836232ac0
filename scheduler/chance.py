# SPDX-License-Identifier: Apache-2.0
"""Any host that is up, at random: no filters, no weighers, no booking."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from fleet import errors
from fleet.context import RequestContext
from fleet.objects import RequestSpec, Selection
from fleet.reasons import Reason
from scheduler.driver import Notifier, Scheduler
from scheduler.host_manager import HostManager


class ChanceScheduler(Scheduler):
    """Only ``ignore_hosts`` is heeded; the node is left to the host, and nothing limits the claim."""

    def __init__(
        self, conf: cfg.ConfigOpts, host_manager: HostManager, notifier: Notifier, chance: random.Random | None = None
    ) -> None:
        super().__init__(conf, host_manager, notifier)
        self._chance = chance or random.Random()

    def select_destinations(self, context: RequestContext, request: RequestSpec) -> Sequence[Selection]:
        self.host_manager.refresh()
        up = self.host_manager.hosts_up()
        details: dict[str, Any] = {
            "requested": request.num_instances,
            "considered": len(up),
            "placed": 0,
            "filters": [],
        }
        if not up:
            details["reason_code"] = Reason.HOSTS_DOWN.value
            raise errors.NoValidHost(reason="No compute service is up.", details=details)
        left = [host for host in up if host not in request.ignore_hosts]
        if not left:
            details["reason_code"] = Reason.POLICY.value
            raise errors.NoValidHost(reason="Every host that is up is to be ignored.", details=details)
        record = {**details, "placed": request.num_instances}
        return [Selection(self._chance.choice(left), None, None, [], record) for _ in range(request.num_instances)]
