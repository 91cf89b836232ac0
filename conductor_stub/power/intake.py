# SPDX-License-Identifier: Apache-2.0
"""Power tasks that users request: accepted in one transaction each, or refused with the reason.

:mod:`conductor_stub.power.wiring` makes its endpoint.
"""

from __future__ import annotations

import types

from oslo_log import log as logging

from conductor_stub.power import machine, rebuild
from conductor_stub.power.image_check import ImageCheck
from conductor_stub.steps import casting
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import errors, states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.db.instances import instances
from fleet.db.tables.instances import RequestedInstance
from fleet.hardware.aliases import Aliases
from fleet.json_codec import JSONObject
from fleet.objects import RebuildRequest, fields
from fleet.objects.answers.instances import PowerView
from fleet.rpc.clients import ComputeAPI
from fleet.rpc.endpoint import endpoint, internal, require_size, served

LOG = logging.getLogger(__name__)


class PowerIntake:
    """Accepts power tasks and notifies their hosts: the RPC surface of the namespace ``operator`` for power."""

    target = served("conductor", "operator")

    def __init__(
        self,
        database: Database,
        compute: ComputeAPI,
        limits: StepLimits,
        clock: Clock = utcnow,
        aliases: Aliases = types.MappingProxyType({}),
        check: ImageCheck | None = None,
    ) -> None:
        """:param check: judges the new image of a rebuild; None: none is refused"""
        self._database = database
        self._check = check
        self._aliases = aliases
        self._compute = compute
        self._limits = limits
        self._clock = clock

    @endpoint
    def stop_instance(self, context: RequestContext, name: fields.Name) -> PowerView:
        """Switch the guest off. :raises errors.NotFound: errors.Conflict:"""
        return self._accept(context, name, states.POWERING_OFF)

    @endpoint
    def start_instance(self, context: RequestContext, name: fields.Name) -> PowerView:
        """Switch the guest on. :raises errors.NotFound: errors.Conflict:"""
        return self._accept(context, name, states.POWERING_ON)

    @endpoint
    def reboot_instance(self, context: RequestContext, name: fields.Name, hard: fields.Flag = False) -> PowerView:
        """End the guest and start it again. :raises errors.NotFound: errors.Conflict:"""
        return self._accept(context, name, states.REBOOTING_HARD if hard else states.REBOOTING)

    @endpoint
    def suspend_instance(self, context: RequestContext, name: fields.Name) -> PowerView:
        """Halt the guest, and keep its memory. :raises errors.NotFound: errors.Conflict:"""
        return self._accept(context, name, states.SUSPENDING)

    @endpoint
    def resume_instance(self, context: RequestContext, name: fields.Name) -> PowerView:
        """Let a suspended guest continue. :raises errors.NotFound: errors.Conflict:"""
        return self._accept(context, name, states.RESUMING)

    @endpoint
    def shelve_instance(self, context: RequestContext, name: fields.Name) -> PowerView:
        """Switch the guest off until it is unshelved. :raises errors.NotFound: errors.Conflict: errors.VersionPinned:"""
        return self._accept(context, name, states.SHELVING)

    @endpoint
    def shelve_offload_instance(self, context: RequestContext, name: fields.Name) -> PowerView:
        """Let a shelved instance give its host back. :raises errors.NotFound: errors.Conflict: errors.VersionPinned:"""
        return self._accept(context, name, states.SHELVING_OFFLOADING)

    @internal
    def unshelve(self, context: RequestContext, uuid: str) -> PowerView:
        """Switch the guest of a shelved instance on, which has kept its host. :raises: as of other tasks"""
        return self._accept(context, uuid, states.UNSHELVING)

    @internal
    def offload(self, context: RequestContext, row: RequestedInstance) -> None:
        """Offload an instance that the sweeper has found shelved for long enough. A refusal puts it off."""
        try:
            self._accept(context, row.uuid, states.SHELVING_OFFLOADING)
        except (errors.NotFound, errors.Conflict, errors.VersionPinned) as refused:
            LOG.info("Instance %s stays on its host for now: %s", row.name, refused.message)
            ctx = StepContext(self._limits, self._clock(), context.request_id)
            self._database.write(machine.put_off, row.uuid, ctx)

    @endpoint
    def rebuild_instance(self, context: RequestContext, name: fields.Name, request: JSONObject) -> PowerView:
        """Make the guest anew from an image. :param request: a RebuildRequest

        :raises errors.NotFound: also of an image or a key; errors.Conflict: errors.InvalidInput: errors.VersionPinned:
        """
        require_size(request, "request")
        wanted = RebuildRequest.from_wire(request)
        self._compute.require_power(states.REBUILD_DISK)
        found = self._database.read(instances.find, name)
        planned = self._database.read(rebuild.plan, context, found.uuid, wanted, self._aliases)
        if self._check is not None and planned.changes_image:
            self._check.require(context, planned.row, planned.image)
        ctx = StepContext(self._limits, self._clock(), context.request_id)
        row = self._database.write(rebuild.accept, found.uuid, planned, ctx)
        LOG.info("Accepted a rebuild of instance %s from image %s", row.name, planned.image.name or planned.image.id)
        self.notify(context, row)
        return power_view(row)

    def _accept(self, context: RequestContext, name: str, task: str) -> PowerView:
        self._compute.require_power(task)
        found = self._database.read(instances.find, name)
        ctx = StepContext(self._limits, self._clock(), context.request_id)
        row = self._database.write(machine.accept, found.uuid, task, ctx)
        LOG.info("Accepted task %s of instance %s", task, row.name)
        self.notify(context, row)
        return power_view(row)

    @internal
    def notify(self, context: RequestContext, row: RequestedInstance) -> None:
        """Cast to the host of an instance with a power task. The sweeper repeats what is lost."""
        host, _node = instances.place_of(row)
        about = context.about(instance_uuid=row.uuid, host=host)
        task, within_s = str(row.task_state), self._limits.spawn_timeout_s
        try:
            reached = casting.reaches(host, lambda: self._compute.advance_power(about, host, row.uuid, task, within_s))
        except errors.VersionPinned as old:
            LOG.warning("Host %s is not notified: %s", row.host, old.message)
            return
        if not reached:
            LOG.warning("The agent of host %s has no queue; the sweeper will notify it again", row.host)


def power_view(row: RequestedInstance) -> PowerView:
    return {"uuid": row.uuid, "name": row.name, "vm_state": row.vm_state, "task_state": row.task_state}
