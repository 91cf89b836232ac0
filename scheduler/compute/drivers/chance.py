# SPDX-License-Identifier: Apache-2.0
"""A driver that picks any host that is up at random: no filters, no weighers, no booking.

Called by :mod:`scheduler.chance`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from oslo_config import cfg

from fleet import errors
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec, Selection
from fleet.reasons import Reason
from scheduler.compute.drivers.driver import Notifier, Scheduler
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine.decision import Decision
from scheduler.engine.filtering import Tally
from scheduler.engine.hosts.consumption import Consumption
from scheduler.why.refusal import Refusal


class ChanceScheduler(Scheduler):
    """Only ``ignore_hosts``, ``within_hosts`` and ``requested_hosts`` count, without case.

    The host chooses the node, and the claim has no limits.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts | None = None,
        host_manager: HostManager | None = None,
        notifier: Notifier | None = None,
        chance: random.Random | None = None,
    ) -> None:
        super().__init__(conf, host_manager, notifier)
        self._chance = chance or random.Random()

    def select_destinations(self, context: RequestContext, request: RequestSpec) -> Sequence[Selection]:
        self.host_manager.refresh()
        up, state = self.host_manager.hosts_up()
        ignored, requested = (
            {host.lower() for host in hosts} for hosts in (request.ignore_hosts, request.requested_hosts)
        )
        left = [host for host in up if host.lower() not in ignored and (not requested or host.lower() in requested)]
        if request.within_hosts is not None:
            within = {host.lower() for host in request.within_hosts}
            left = [host for host in left if host.lower() in within]
        refusal = None
        if not up:
            refusal = Refusal(Reason.HOSTS_DOWN, "No compute service is up.")
        elif not left:
            refusal = Refusal(Reason.POLICY, "The request allows no host that is up.")
        made = Decision(
            request.num_instances, len(up), [], Tally([], len(up), []), Consumption({}), request, refusal, state=state
        )
        if refusal is not None:
            raise errors.NoValidHost(reason=made.reason, details=made.to_wire())
        record = {**made.to_wire(), "placed": request.num_instances}
        return [Selection(self._chance.choice(left), None, None, [], record) for _ in range(request.num_instances)]

    def describe_filters(self) -> JSONObject:
        """Return empty lists. This driver has no filters, so none of those in the configuration counts as left out."""
        return {"filters": [], "judged": [], "left_out": []}
