# SPDX-License-Identifier: Apache-2.0
"""Volumes that users attach to guests and detach: accepted in one transaction each, or refused with the reason.

Called by :mod:`conductor_stub.attachments.sweeper` and :mod:`conductor_stub.attachments.wiring`.
"""

from __future__ import annotations

from oslo_log import log as logging
from oslo_utils import uuidutils

from conductor_stub.attachments import machine
from conductor_stub.attachments.connections import connection_of
from conductor_stub.builds import left_guest
from conductor_stub.steps import casting, devices
from conductor_stub.steps.limits import StepContext, StepLimits
from conductor_stub.volumes import conditions, views
from fleet import errors, failpoints, states, volume_states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.hosts import services
from fleet.db.instances import instance_values, instances, moves
from fleet.db.tables.instances import RequestedInstance
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import attachments, volumes
from fleet.db.volumes.attachments import PlacedAttachment
from fleet.objects import VolumeConnection, fields
from fleet.objects.answers.volumes import AttachmentView
from fleet.objects.attachment import Device
from fleet.rpc.clients import ComputeAPI, VolumeAPI
from fleet.rpc.endpoint import endpoint, internal, served

LOG = logging.getLogger(__name__)


class AttachmentIntake:
    """The RPC surface of the namespace ``operator`` for attachments. ``name`` is the instance."""

    target = served("conductor", "operator")

    def __init__(
        self, database: Database, compute: ComputeAPI, backends: VolumeAPI, limits: StepLimits, clock: Clock = utcnow
    ) -> None:
        self._database = database
        self._compute = compute
        self._backends = backends
        self._limits = limits
        self._clock = clock

    @endpoint
    def attach_volume(
        self, context: RequestContext, name: fields.Name, volume: fields.Name, device: Device | None = None
    ) -> AttachmentView:
        """Return the attachment. A repeated request returns the one that there is.

        :param device: name of the disk. None: the first that is free
        :raises errors.NotFound: errors.Conflict: errors.VersionPinned: an agent may be too old
        :raises errors.ServiceDown: the agent of the volume's backend does not answer
        """
        self._compute.require_attachments()
        instance, found = self._database.read(_named, name, volume)
        where = connection_of(self._backends, context, found) if found.status == volume_states.AVAILABLE else None
        wanted = device and devices.plain(device)
        ctx = self._step_context(context)
        uuid = self._database.write(attach, uuidutils.generate_uuid(), instance.uuid, found, wanted, where, ctx)
        LOG.info("Attaching volume %s to instance %s", found.name, instance.name)
        row = self._database.read(attachments.find, uuid)
        if row is None:
            raise errors.NotFound(kind="Attachment", name=uuid)
        return self._begun(context, row)

    @endpoint
    def detach_volume(self, context: RequestContext, name: fields.Name, volume: fields.Name) -> AttachmentView:
        """Return the attachment. :raises errors.NotFound: errors.Conflict: it is not attached to this instance"""
        instance, found = self._database.read(_named, name, volume)
        before = self._database.write(detach, instance.uuid, found.uuid, self._step_context(context))
        LOG.info("Detaching volume %s from instance %s", found.name, instance.name)
        row = self._database.read(attachments.find, before.uuid)
        if row is None:
            # It is over already.
            return {**views.of_attachment(before), "status": volume_states.DETACHING}
        return self._begun(context, row)

    @endpoint
    def list_attachments(self, context: RequestContext, uuids: fields.Uuids) -> list[AttachmentView]:
        """The attachments of these instances, oldest first."""
        return [views.of_attachment(row) for row in self._database.read(attachments.of_instances, uuids)]

    def _begun(self, context: RequestContext, row: PlacedAttachment) -> AttachmentView:
        self.notify(context, row)
        return views.of_attachment(row)

    @internal
    def notify(self, context: RequestContext, row: PlacedAttachment) -> None:
        """Cast to the host of an attachment that has work for it. The sweeper repeats what is lost.

        :param row: from ``fleet.db.volumes.attachments``, with names and places
        """
        host, uuid = row.instance_host, row.instance_uuid
        if host is None or row.status not in volume_states.WITH_A_HOST:
            return
        about = context.about(instance_uuid=uuid, host=host)
        try:
            reached = casting.reaches(host, lambda: self._compute.advance_attachments(about, host, uuid))
        except errors.VersionPinned as old:
            LOG.warning("Host %s is not notified: %s", host, old.message)
            return
        if not reached:
            LOG.warning("The agent of host %s has no queue; the sweeper will notify it again", host)

    def _step_context(self, context: RequestContext) -> StepContext:
        return StepContext(self._limits, self._clock(), context.request_id)


def _named(connection: Connection, name: str, volume: str) -> tuple[RequestedInstance, VolumeRow]:
    return instances.find(connection, name), volumes.find(connection, volume)


@failpoints.commits("conductor.attach_accept")
def attach(
    tx: Transaction,
    uuid: str,
    instance_uuid: str,
    seen: VolumeRow,
    device: str | None,
    where: VolumeConnection | None,
    ctx: StepContext,
) -> str:
    """Write the attachment; return its uuid. From now on it is attached within ``attach_timeout``, or undone.

    :param seen: the volume as it was when its agent was asked ``where`` its data are
    :raises errors.Conflict: errors.NotFound:
    """
    instance = instances.lock(tx, instance_uuid)
    there = attachments.of_instances(tx, [instance_uuid])
    volume = volumes.lock(tx, seen.uuid)
    for row in there:
        if row.volume_uuid == volume.uuid and row.status != volume_states.DETACHING:
            return row.uuid
    conditions.require_settled(volume)
    conditions.require_not_copied(tx, volume)
    conditions.require_unchanged(volume, seen)
    if where is None:
        raise errors.Conflict(kind="Volume", name=volume.name, reason="was not available: try again")
    _require_guest(tx, instance, ctx)
    until = machine.deadline(ctx)
    accepted = {
        "uuid": uuid,
        "volume_uuid": volume.uuid,
        "instance_uuid": instance_uuid,
        "device": _free_device(instance, {row.device for row in there}, device),
        "status": volume_states.ATTACHING,
        "attempt": machine.FIRST_ATTEMPT,
        "connection": where.to_wire(),
        "deadline": until,
        # The cast that follows may be lost: the sweeper then repeats it.
        "step_deadline": ctx.due(ctx.limits.placing_timeout_s, until),
        "request_id": ctx.request_id,
        "created_at": ctx.now,
    }
    tx.insert(attachments.ATTACHMENTS, accepted)
    volumes.write(tx, volume, ctx.now, status=volume_states.ATTACHING, failure=None)
    return uuid


@failpoints.commits("conductor.attach_detach")
def detach(tx: Transaction, instance_uuid: str, volume_uuid: str, ctx: StepContext) -> PlacedAttachment:
    """``attached → detaching``; return the attachment as it was. Repeated: the same. :raises errors.Conflict:

    The volume of an instance that is SHELVED_OFFLOADED is available at once if no host may have a guest of it.
    """
    instance = instances.lock(tx, instance_uuid)
    known = [row for row in attachments.of_instances(tx, [instance_uuid]) if row.volume_uuid == volume_uuid]
    row = attachments.lock(tx, known[0].uuid) if known else None
    volume = volumes.lock(tx, volume_uuid)
    if row is None:
        reason = f"is {volume.status}, and not attached to instance {instance.name}"
        raise errors.Conflict(kind="Volume", name=volume.name, reason=reason)
    if row.status == volume_states.DETACHING:
        return known[0]
    if row.status == volume_states.RESERVED and _is_offloaded(instance):
        left_guest.require_none(tx, instance)
        machine.release(tx, row, ctx)
        return known[0]
    if row.status in (volume_states.RESERVED, volume_states.ATTACHING):
        raise errors.Conflict(kind="Volume", name=volume.name, reason="is being attached: wait until that has ended")
    if instance.task_state == states.DELETING:
        raise errors.Conflict(
            kind="Instance", name=instance.name, reason="is being deleted, which detaches its volumes"
        )
    if moves.of_instance(tx, instance_uuid) is not None:
        reason = "is being moved with its volumes: wait until that has ended, or confirm or revert its resize"
        raise errors.Conflict(kind="Instance", name=instance.name, reason=reason)
    _require_host(tx, instance, ctx)
    machine.begin_detaching(tx, row, machine.deadline(ctx), ctx)
    volumes.write(tx, volume, ctx.now, status=volume_states.DETACHING, failure=None)
    return known[0]


def _is_offloaded(instance: RequestedInstance) -> bool:
    return (instance.vm_state, instance.task_state) == (states.SHELVED_OFFLOADED, None)


def _free_device(instance: RequestedInstance, taken: set[str], wanted: str | None) -> str:
    """:raises errors.Conflict: no disk of this name, or no disk at all, is free"""
    flavor = instance_values.spec_of(instance)["flavor"]
    free = devices.free(instance.ephemeral_gb, flavor.get("swap", 0), taken)
    if wanted is None and free:
        return free[0]
    if wanted in free:
        return str(wanted)
    named = f"device {wanted} is taken" if wanted else "it has as many volumes as a guest may have"
    raise errors.Conflict(kind="Instance", name=instance.name, reason=f"cannot get the volume: {named}")


def _require_guest(tx: Transaction, instance: RequestedInstance, ctx: StepContext) -> None:
    """:raises errors.Conflict: errors.NotFound:"""
    if instance.deleted:
        raise errors.NotFound(kind="Instance", name=instance.name)
    if instance.task_state is not None or instance.vm_state not in (states.ACTIVE, states.STOPPED):
        state = f"{instance.vm_state.upper()} ({instance.task_state})" if instance.task_state else instance.vm_state
        reason = f"is {state.upper()}: it must be ACTIVE or STOPPED, and no task of it under way"
        raise errors.Conflict(kind="Instance", name=instance.name, reason=reason)
    _require_host(tx, instance, ctx)


def _require_host(tx: Transaction, instance: RequestedInstance, ctx: StepContext) -> None:
    """:raises errors.Conflict:"""
    if instance.host is None:
        reason = f"is {instance.vm_state.upper()} and on no host: unshelve it first"
        raise errors.Conflict(kind="Instance", name=instance.name, reason=reason)
    service = services.get(tx, instance.host, services.COMPUTE)
    if service is None or not services.is_up(service, ctx.now, ctx.limits.service_down_time_s):
        reason = f"is on a host whose {services.COMPUTE} is down: its volumes cannot be changed there"
        raise errors.Conflict(kind="Instance", name=instance.name, reason=reason)
