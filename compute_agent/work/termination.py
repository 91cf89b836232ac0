# SPDX-License-Identifier: Apache-2.0
"""Destroys one instance on one host, after the ledger has confirmed the order.

:mod:`compute_agent.manager` calls it for each order of a conductor.
"""

from __future__ import annotations

import functools

from oslo_log import log as logging

from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.node.host import Host
from compute_agent.work import orders
from fleet import errors, failpoints
from fleet.agent import time_limit
from fleet.agent.patience import Unanswered
from fleet.agent.work_queues import WorkQueues
from fleet.context import RequestContext

LOG = logging.getLogger(__name__)


class Termination:
    """Termination orders of one host.

    The ledger is read in a queue of the order's own: a build that waits for a slot does not delay it, and only a
    confirmed order cancels that build.
    """

    def __init__(self, host: Host, calls: BuildCalls, moves: MoveCalls | None, queues: WorkQueues) -> None:
        self._host = host
        self._calls = calls
        self._moves = moves
        self._queues = queues

    def order(self, context: RequestContext, uuid: str) -> None:
        lane = f"{uuid} (termination order)"
        # A repeated order would get the same answer as the one that is being confirmed.
        if not self._queues.busy(lane):
            self._queues.submit(lane, functools.partial(self._confirm, context, uuid))

    def _confirm(self, context: RequestContext, uuid: str) -> None:
        context = context.about(instance_uuid=uuid, host=self._host.name)
        try:
            against = orders.wants_termination(context, self._host, self._calls, self._moves, uuid)
        except (Unanswered, errors.FleetError) as silence:
            orders.unconfirmed(orders.TERMINATE, uuid, self._host.name, silence)
            return
        if against is None:
            self._queues.cancel(uuid)
            self._queues.submit(uuid, functools.partial(terminate, context, self._host, self._calls, uuid))
        elif uuid in self._host.tracked() or uuid in self._host.driver.list_instance_uuids():
            orders.unwanted(orders.TERMINATE, uuid, self._host.name, against)
        else:
            LOG.debug("Dropping a termination order that was already carried out: %s", against)


def terminate(context: RequestContext, host: Host, calls: BuildCalls, instance_uuid: str) -> None:
    """Destroy, release, report, in this order: the ledger must not give out room that this host still holds.

    May be repeated. If the driver fails, the row stays ``deleting``, and the conductor sends the order again.
    """
    context = context.about(instance_uuid=instance_uuid, host=host.name)
    failpoints.hit("agent.destroy.before")
    try:
        # The driver may still spawn the guest of a build that hung: then only the result of its destroy counts.
        if host.is_orphan(instance_uuid) or instance_uuid in host.driver.list_instance_uuids():
            host.destroy(context, instance_uuid)
    except Exception as failure:
        expected = isinstance(failure, time_limit.Overrun | errors.FleetError)
        LOG.warning(
            "Cannot destroy the guest; the conductor will send the order again: %s", failure, exc_info=not expected
        )
        return
    host.release(instance_uuid)
    failpoints.hit("agent.destroy.after")
    try:
        calls.instance_destroyed(context, instance_uuid, host.name)
    except Unanswered as unanswered:
        LOG.warning("The instance is gone, but cannot be reported to the conductor yet: %s", unanswered)
    else:
        LOG.info("Instance is destroyed")
