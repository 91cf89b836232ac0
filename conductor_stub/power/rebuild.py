# SPDX-License-Identifier: Apache-2.0
"""Rebuilds: the guest of an instance is made anew from an image, on the host and with the resources that it has.

It is a task of the row, as the tasks of ``power.machine`` are. Name, metadata, key and user data may change with it,
in the transaction that accepts it. Volumes and addresses stay. A rebuild that fails leaves the instance in ERROR,
because the former disk may be gone. Called by :mod:`conductor_stub.power.intake`.
"""

from __future__ import annotations

import dataclasses

from conductor_stub.power import machine
from conductor_stub.steps.flavor_check import check_image, requested_hardware
from conductor_stub.steps.limits import StepContext
from fleet import errors, failpoints, states, volume_states
from fleet.context import RequestContext
from fleet.db.catalog import images, key_pairs
from fleet.db.engine.database import Connection, Transaction
from fleet.db.instances import boot_data, instance_values, instances
from fleet.db.tables.instances import RequestedInstance
from fleet.db.volumes import attachments
from fleet.hardware.aliases import Aliases
from fleet.json_codec import JSONObject
from fleet.objects import BootData, Flavor, Image, RebuildRequest, host_name

#: States from which an instance is rebuilt.
_FROM = (states.ACTIVE, states.STOPPED, states.ERROR)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A rebuild, as far as it is known before the row is locked.

    :param row: as it was read
    :param public_key: of the key that the request names
    """

    row: RequestedInstance
    request: RebuildRequest
    image: Image
    public_key: str | None

    @property
    def changes_image(self) -> bool:
        """Return True if the instance, which is on a host, is to have another image."""
        return (
            self.row.host is not None
            and self.image.to_wire() != Image(**instance_values.spec_of(self.row)["image"]).to_wire()
        )


def plan(connection: Connection, context: RequestContext, uuid: str, request: RebuildRequest, aliases: Aliases) -> Plan:
    """:raises errors.NotFound: an image or a key is not there; errors.InvalidInput: the instance cannot have the image"""
    row = instances.get(connection, uuid)
    instance_values.require_readable(row)
    spec = instance_values.spec_of(row)
    image, flavor = Image(**spec["image"]), Flavor(**spec["flavor"])
    if request.image is not None:
        image = images.find(connection, request.image).to_image()
        check_image(image, flavor, "request.flavor")
        wanted = requested_hardware(flavor, image, aliases)
        if any(wanted[name] != spec.get(name) for name in wanted):
            reason = "asks for other NUMA cells or PCI devices than the instance has; boot a new one"
            raise errors.InvalidInput(field="request.image", reason=reason)
    owner = (row.project_id, row.user_id if context.is_admin else context.user_id)
    public_key = key_pairs.find(connection, owner, request.key_name).public_key if request.key_name else None
    return Plan(row, request, image, public_key)


@failpoints.commits("conductor.rebuild_accept")
def accept(tx: Transaction, uuid: str, planned: Plan, ctx: StepContext) -> RequestedInstance:
    """Write the task, and the columns that change with it. A repeated request changes nothing.

    :raises errors.Conflict: errors.NotFound: errors.InvalidInput: there would be too many keys or tags
    """
    row = instances.lock(tx, uuid)
    if row.deleted:
        raise errors.NotFound(kind="Instance", name=row.name)
    changed, kept = _changed(row, planned), boot_data.of_row(tx, row)
    found = _boot_data(kept, planned)
    is_same = changed == {"name": row.name, "details": row.details} and found == kept
    if row.task_state == states.REBUILD_DISK and is_same:
        return row
    _require(tx, row, ctx)
    _require_unchanged(row, planned)
    if found != kept:
        boot_data.replace(tx, uuid, found)
    os_type = planned.image.properties.get("os_type")
    values = {**changed, "os_type": None if os_type is None else str(os_type)[:255]}
    # A driver and a report of an earlier rebuild are recognized by their attempt. It counts towards no limit.
    values |= {"attempt": row.attempt + 1, "earlier_attempts": row.attempt}
    return machine.begin(tx, row, states.REBUILD_DISK, ctx, **values)


def _changed(row: RequestedInstance, planned: Plan) -> JSONObject:
    """The columns that change."""
    before, changes = instance_values.spec_of(row), planned.request.changes
    details = changes.details({"metadata": before["metadata"], "tags": before.get("tags", [])})
    if changes.name and not before.get("hostname"):
        details.setdefault("hostname", host_name.of(row.name))
    if planned.request.image is not None:
        details["image"] = planned.image.to_wire()
    if planned.request.key_name is not None:
        details["key_name"] = planned.request.key_name or None
    merged = {**(row.details or {}), **details}
    return {"name": changes.name or row.name, "details": merged or None}


def _boot_data(kept: BootData, planned: Plan) -> BootData:
    """Return the boot data that the guest reads from now on."""
    request = planned.request
    changes: JSONObject = {}
    if request.key_name is not None:
        changes.update(key_name=request.key_name, public_key=planned.public_key)
    if request.user_data is not None:
        changes["user_data"] = request.user_data
    if request.admin_password is not None:
        changes["admin_password"] = request.admin_password
    return dataclasses.replace(kept, **changes)


def _require_unchanged(row: RequestedInstance, planned: Plan) -> None:
    """The new image was judged for this host and these sizes. :raises errors.Conflict: they have changed since then"""
    if planned.request.image is not None and _judged(row) != _judged(planned.row):
        raise errors.Conflict(kind="Instance", name=row.name, reason="has changed meanwhile: repeat the request")


def _judged(row: RequestedInstance) -> tuple[object, ...]:
    spec = instance_values.spec_of(row)
    return row.host, row.node, spec["flavor"], spec["image"]


def _require(tx: Transaction, row: RequestedInstance, ctx: StepContext) -> None:
    """:raises errors.Conflict:"""
    reason = ""
    if row.task_state is not None:
        reason = "wait until its task has ended"
    elif row.vm_state not in _FROM or row.host is None:
        reason = "it must be on a host, and ACTIVE, STOPPED or ERROR"
    if reason:
        task = f" ({row.task_state})" if row.task_state else ""
        raise errors.Conflict(kind="Instance", name=row.name, reason=f"is {row.vm_state.upper()}{task}: {reason}")
    machine.require_host_up(tx, row, ctx)
    for each in attachments.of_instances(tx, [row.uuid]):
        if each.status != volume_states.ATTACHED:
            why = f"has volume {each.volume_name}, which is {each.status}: wait until that has ended"
            raise errors.Conflict(kind="Instance", name=row.name, reason=why)
