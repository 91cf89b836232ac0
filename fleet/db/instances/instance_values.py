# SPDX-License-Identifier: Apache-2.0
"""The value of an instance as services exchange it, made from its row. Conductors make it for each order and answer."""

from __future__ import annotations

import datetime
import types
from collections.abc import Mapping

from fleet import errors, states, stored_json
from fleet.clock import as_text
from fleet.db.engine import claimed
from fleet.db.tables.instances import RequestedInstance
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Flavor, Image, Instance

#: What requests of earlier releases lack.
_FLAVOR = vars(Flavor(vcpus=1, memory_mb=1))
_IMAGE = vars(Image())

#: In place of a spec that cannot be read. No host is chosen by it (:func:`require_readable`).
_UNREADABLE: Mapping[str, object] = {
    "flavor": _FLAVOR,
    "image": _IMAGE,
    "metadata": {},
    "scheduler_hints": {},
    "availability_zone": "",
}


def require_readable(row: RequestedInstance) -> None:
    """:raises errors.RequestUnreadable: the stored request cannot be read: a host would be chosen by other sizes"""
    for spec in (row.spec, row.resized_spec):
        if stored_json.is_unreadable(spec):
            stored_json.note(spec, "build_requests", row.uuid)
            raise errors.RequestUnreadable(kind="instance", uuid=row.uuid)


def spec_of(row: RequestedInstance) -> JSONObject:
    """The spec of the request, with the changes of a resize and of the user."""
    return changed_spec(row.spec, row.resized_spec, row.details)


def changed_spec(
    spec: Mapping[str, object], resized_spec: JSONMapping | None, details: Mapping[str, object] | None
) -> JSONObject:
    """:func:`spec_of`, of the columns. A spec that cannot be read is replaced by one with the mandatory fields only."""
    if stored_json.is_unreadable(spec):
        spec = _UNREADABLE
    return {**spec, **(resized_spec or {}), **(details or {})}


def to_instance(row: RequestedInstance) -> Instance:
    """The value that is sent. ``row`` is from a query of this module, or from :func:`fleet.db.instances.instances.moved`."""
    spec = spec_of(row)
    return Instance(
        uuid=row.uuid,
        flavor=Flavor(**_sized(row, spec)),
        name=row.name,
        project_id=row.project_id,
        user_id=row.user_id,
        reservation_id=row.reservation_id,
        image=Image(**spec["image"]),
        vm_state=row.vm_state,
        task_state=row.task_state,
        power_state=row.power_state,
        attempt=row.attempt,
        host=row.host,
        node=row.node,
        availability_zone=row.availability_zone,
        # Requests that an earlier release has stored have neither.
        numa_topology=spec.get("numa_topology"),
        pci_requests=spec.get("pci_requests"),
        metadata=spec["metadata"],
        created_at=as_text(row.created_at),
        launched_at=as_text(row.launched_at),
        claimed_memory_mb=row.claimed_memory_mb,
        claimed_disk_gb=row.claimed_disk_gb,
        claimed_vcpus=row.claimed_vcpus,
        claimed_numa_topology=claimed.cells(row) or None,
        claimed_pci_devices=claimed.devices(row) or None,
        interfaces=row.interfaces or None,
        shelved_attempt=shelved_attempt(row.vm_state, row.shelved),
        task_deadline=task_deadline(row.task_state, row.deadline),
    )


def parts(stored: JSONMapping, spec: JSONMapping) -> tuple[JSONObject, JSONObject]:
    """Return the flavor and the image of an instance as answers have them.

    :param stored: the columns of a row
    :param spec: :func:`changed_spec` of it
    """
    flavor = spec["flavor"]
    if flavor is _FLAVOR:
        flavor = _sized(types.SimpleNamespace(**stored), spec)
    return {**_FLAVOR, **flavor}, {**_IMAGE, **spec["image"]}


def shelved_attempt(vm_state: str, shelved: JSONMapping | None) -> int | None:
    """The attempt whose disk an instance that is being unshelved starts with."""
    return shelved["attempt"] if shelved and vm_state == states.BUILDING else None


def task_deadline(task: str | None, deadline: datetime.datetime | None) -> str | None:
    """Name a power task: each has a deadline of its own, and the next one of the same kind has a later one."""
    return as_text(deadline) if task in states.POWER_TASKS else None


def _sized(row: RequestedInstance, spec: JSONMapping) -> JSONMapping:
    """The flavor. That of a request that cannot be read has the sizes that the row has besides."""
    flavor: Mapping[str, object] = spec["flavor"]
    if flavor is not _FLAVOR:
        return flavor
    stored_json.note(row.spec, "build_requests", row.uuid)
    sizes = {name: getattr(row, name) for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")}
    return {**_FLAVOR, **sizes, "name": row.flavor_name or ""}
