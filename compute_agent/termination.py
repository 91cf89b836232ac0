# SPDX-License-Identifier: Apache-2.0
"""Ends one instance on one host."""

from __future__ import annotations

from oslo_log import log as logging

from compute_agent import deadline
from compute_agent.host import Host
from compute_agent.ledger import Ledger, Unanswered
from fleet import errors, failpoints
from fleet.context import RequestContext

LOG = logging.getLogger(__name__)


def terminate(context: RequestContext, host: Host, ledger: Ledger, instance_uuid: str) -> None:
    """Destroy, release, tell the ledger, in this order: the ledger must not sell room that this host still holds.

    May be repeated. If the driver fails the row stays ``deleting``, and the conductor asks again.
    """
    context = context.about(instance_uuid=instance_uuid, host=host.name)
    failpoints.hit("agent.destroy.before")
    try:
        if instance_uuid in host.driver.list_instance_uuids():
            host.destroy(context, instance_uuid)
    except Exception as failure:
        expected = isinstance(failure, deadline.Overrun | errors.FleetError)
        LOG.warning("Cannot destroy the guest; the conductor will ask again: %s", failure, exc_info=not expected)
        return
    host.release(instance_uuid)
    failpoints.hit("agent.destroy.after")
    try:
        ledger.instance_destroyed(context, instance_uuid, host.name)
    except Unanswered as unanswered:
        LOG.warning("Instance is gone, but the conductor does not know yet: %s", unanswered)
    else:
        LOG.info("Instance is destroyed")
