# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of one host: receives orders, returns at once, and does the work in the host's queues.

Called by :mod:`compute_agent.main`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, Any

import pydantic

from compute_agent.node.host import Host
from compute_agent.work import orders
from compute_agent.work.attach import Attacher
from compute_agent.work.build import BuildOrder, BuildRunner
from compute_agent.work.moves.mover import Mover
from compute_agent.work.power import PowerSwitch
from compute_agent.work.termination import Termination
from fleet import errors, failpoints
from fleet.agent.work_queues import WorkQueues
from fleet.clock import utcnow
from fleet.context import RequestContext
from fleet.objects import fields
from fleet.rpc.endpoint import endpoint, served

_Seconds = Annotated[float, pydantic.Field(gt=0, le=86_400, allow_inf_nan=False)]
#: Of a console, in one answer.
MOST_CONSOLE_BYTES = 100 * 1024


class ComputeManager:
    """Topic ``compute``, server HOST. Orders are casts: a bad order is one line in the log.

    The ledger confirms each order before it is carried out: see ``orders``. Conductors repeat orders: one that waits in its
    queue is not queued again.
    """

    target = served("compute")

    def __init__(
        self,
        host: Host,
        builder: BuildRunner,
        mover: Mover,
        termination: Termination,
        switch: PowerSwitch,
        attacher: Attacher,
        queues: WorkQueues,
    ) -> None:
        self._host = host
        self._builder = builder
        self._mover = mover
        self._termination = termination
        self._switch = switch
        self._attacher = attacher
        self._queues = queues

    def build_and_run_instance(self, context: RequestContext, **build: object) -> None:
        try:
            order = BuildOrder.from_wire(build)
        except errors.InvalidInput as invalid:
            orders.invalid(orders.BUILD, invalid.message)
            return
        failpoints.hit("agent.order.before")
        work = functools.partial(self._builder.run, context, order, self._builder.clock())
        decline = functools.partial(self._builder.decline, context, order)
        if not self._queues.submit(order.instance.uuid, work, takes_slot=True, dropped=decline):
            decline()

    def terminate_instance(self, context: RequestContext, instance_uuid: object = None, **_unknown: object) -> None:
        """Destroy the guest, if the instance's row confirms it."""
        uuid = orders.uuid_of(orders.TERMINATE, instance_uuid)
        if uuid is not None:
            self._termination.order(context, uuid)

    def advance_migration(self, context: RequestContext, instance_uuid: object = None, **_unknown: object) -> None:
        """Read the migration record of the instance and do this host's part."""
        uuid = orders.uuid_of(orders.ADVANCE, instance_uuid)
        if uuid is not None:
            self._advance(context, uuid)

    def live_migration_abort(self, context: RequestContext, instance_uuid: object = None, **_unknown: object) -> None:
        """Read the migration record of the instance, and abort its live migration from this host if the record says so.

        The migration occupies the queue of the instance: the abort has another one. What follows is that of an
        :meth:`advance_migration`, in case that no migration runs here.
        """
        uuid = orders.uuid_of(orders.ABORT, instance_uuid)
        if uuid is None:
            return
        self._queues.submit(f"{uuid}/abort", functools.partial(self._mover.abort, context, uuid), once=orders.ABORT)
        if not self._queues.busy(uuid):
            self._advance(context, uuid)

    def _advance(self, context: RequestContext, uuid: str) -> None:
        work = functools.partial(self._mover.run, context, uuid)
        self._queues.submit(uuid, work, takes_slot=True, once=orders.ADVANCE)

    def advance_power(
        self, context: RequestContext, instance_uuid: object = None, spawn_within_s: Any = None, **_unknown: object
    ) -> None:
        """Read the row of the instance, and do with its guest what its task is: one of ``states.POWER_TASKS``."""
        try:
            uuid = fields.parse(fields.Uuid, instance_uuid, "instance_uuid")
            within_s = spawn_within_s and fields.parse(_Seconds, spawn_within_s, "spawn_within_s")
        except errors.InvalidInput as invalid:
            orders.invalid(orders.POWER, invalid.message)
            return
        # Work that waits with another limit of time is for another task.
        once = f"{orders.POWER} {within_s}"
        self._queues.submit(uuid, functools.partial(self._switch.run, context, uuid, within_s), once=once)

    def advance_attachments(self, context: RequestContext, instance_uuid: object = None, **_unknown: object) -> None:
        """Read the attachments of the instance, and attach or detach its volumes."""
        uuid = orders.uuid_of(orders.ATTACH, instance_uuid)
        if uuid is not None:
            self._queues.submit(uuid, functools.partial(self._attacher.run, context, uuid), once=orders.ATTACH)

    @endpoint
    def get_console_output(
        self, context: RequestContext, instance_uuid: fields.Uuid, most_bytes: fields.Positive = MOST_CONSOLE_BYTES
    ) -> str:
        """Return the end of the guest's output, without bytes that are no text.

        :raises errors.NotFound: there is no such guest; errors.ServiceDown: the driver does not answer
        """
        most = min(most_bytes, MOST_CONSOLE_BYTES)
        read = functools.partial(self._host.driver.get_console_output, context, instance_uuid, most)
        return self._host.ask(context, read).decode(errors="replace")

    @endpoint
    def describe_host(self, context: RequestContext) -> dict[str, object]:
        """Return the claims of this agent: totals and usage of each node with the instances, and the driver's guests.

        ``now`` is this host's clock, which operators compare with the conductor's.

        :raises errors.ServiceDown: the driver does not answer
        """
        driver = self._host.driver
        guests, volumes = self._host.ask(
            context, lambda: (sorted(driver.list_instance_uuids()), driver.attached_volumes())
        )
        nodes = []
        for tracker in self._host.trackers():
            view = tracker.view()
            amounts = {"total": dataclasses.asdict(view.total), "used": dataclasses.asdict(view.used)}
            nodes.append({"node": tracker.node, **amounts, "instances": sorted(view.instances)})
        return {
            "host": self._host.name,
            "now": utcnow().isoformat(),
            "nodes": nodes,
            "guests": guests,
            "volumes": volumes,
        }
