# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of one host: takes orders, returns at once, does the work in the host's lanes."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import oslo_messaging
from oslo_log import log as logging

from compute_agent import termination
from compute_agent.build import Builder, BuildOrder
from compute_agent.host import Host
from compute_agent.lanes import Lanes
from compute_agent.ledger import Ledger
from compute_agent.move import Mover
from fleet import errors, failpoints
from fleet.clock import utcnow
from fleet.context import RequestContext
from fleet.objects import fields
from fleet.rpc import versions
from fleet.rpc.server import endpoint

LOG = logging.getLogger(__name__)


class ComputeManager:
    """Topic ``compute``, server HOST. Orders are casts: a bad one is one line in the log."""

    target = oslo_messaging.Target(version=versions.CURRENT["compute"])

    def __init__(self, host: Host, ledger: Ledger, builder: Builder, mover: Mover, lanes: Lanes) -> None:
        self._host = host
        self._ledger = ledger
        self._builder = builder
        self._mover = mover
        self._lanes = lanes

    def build_and_run_instance(self, context: RequestContext, **build: Any) -> None:
        try:
            order = BuildOrder.from_wire(build)
        except errors.InvalidInput as invalid:
            LOG.error("Dropping a build order: %s", invalid.message)
            return
        failpoints.hit("agent.order.before")
        work = functools.partial(self._builder.run, context, order, self._builder.clock())
        decline = functools.partial(self._builder.decline, context, order)
        if not self._lanes.submit(order.instance.uuid, work, takes_slot=True, dropped=decline):
            decline()

    def terminate_instance(self, context: RequestContext, instance_uuid: Any = None, **_unknown: Any) -> None:
        """The row is ``deleting`` when this comes: a build that has not begun is not begun any more."""
        try:
            uuid = fields.parse(fields.Uuid, instance_uuid, "instance_uuid")  # type: ignore[arg-type]
        except errors.InvalidInput as invalid:
            LOG.error("Dropping a termination order: %s", invalid.message)
            return
        self._lanes.cancel(uuid)
        self._lanes.submit(uuid, functools.partial(termination.terminate, context, self._host, self._ledger, uuid))

    def advance_migration(self, context: RequestContext, instance_uuid: Any = None, **_unknown: Any) -> None:
        """A move of the instance waits for this host: the record says for what."""
        try:
            uuid = fields.parse(fields.Uuid, instance_uuid, "instance_uuid")  # type: ignore[arg-type]
        except errors.InvalidInput as invalid:
            LOG.error("Dropping an order to go on with a move: %s", invalid.message)
            return
        self._lanes.submit(uuid, functools.partial(self._mover.run, context, uuid), takes_slot=True)

    @endpoint
    def describe_host(self, context: RequestContext) -> dict[str, Any]:
        """What this agent holds: per node the totals, what is used and by whom; and the guests that its driver runs.

        ``now`` is its clock: operators compare it with the conductor's.
        """
        nodes = []
        for tracker in self._host.trackers():
            view = tracker.view()
            amounts = {"total": dataclasses.asdict(view.total), "used": dataclasses.asdict(view.used)}
            nodes.append({"node": tracker.node, **amounts, "instances": sorted(view.instances)})
        return {
            "host": self._host.name,
            "now": utcnow().isoformat(),
            "nodes": nodes,
            "guests": sorted(self._host.driver.list_instance_uuids()),
        }
