# SPDX-License-Identifier: Apache-2.0
"""Rows of attachments: which guest has which volume.

Called by modules of :mod:`conductor_stub`. An attachment is written, changed and removed together with the status of
its volume. Locks are taken in this order: the instance, the attachment, the volume.
"""

from __future__ import annotations

import datetime
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, cast

import sqlalchemy as sa

from fleet import volume_states
from fleet.db.engine.database import Transaction
from fleet.db.instances import instances
from fleet.db.tables import models
from fleet.db.tables.base import Row
from fleet.db.tables.volumes import AttachmentRow
from fleet.db.volumes import volumes
from fleet.json_codec import JSONMapping
from fleet.objects import Attachment, VolumeConnection, location

ATTACHMENTS = models.volume_attachments
_INSTANCES, _VOLUMES = models.instances, models.volumes
#: Of more instances than these, all attachments are read.
_FEW = 1001

#: Attachments with what is shown of their instance and their volume.
_JOINED = (
    sa.select(
        ATTACHMENTS,
        _INSTANCES.c.name.label("instance_name"),
        _INSTANCES.c.host.label("instance_host"),
        _VOLUMES.c.name.label("volume_name"),
        _VOLUMES.c.host.label("volume_host"),
        _VOLUMES.c.pool.label("volume_pool"),
        _VOLUMES.c.size_gb,
        _VOLUMES.c.project_id,
        _VOLUMES.c.user_id,
    )
    .join(_INSTANCES, ATTACHMENTS.c.instance_uuid == _INSTANCES.c.uuid)
    .join(_VOLUMES, ATTACHMENTS.c.volume_uuid == _VOLUMES.c.uuid)
    .order_by(ATTACHMENTS.c.created_at, ATTACHMENTS.c.device, ATTACHMENTS.c.uuid)
)
_OF_INSTANCES = _JOINED.where(ATTACHMENTS.c.instance_uuid.in_(sa.bindparam("wanted", expanding=True)))
_VOLUMES_HELD = sa.select(ATTACHMENTS.c.instance_uuid, ATTACHMENTS.c.volume_uuid).order_by(
    ATTACHMENTS.c.created_at, ATTACHMENTS.c.device, ATTACHMENTS.c.uuid
)
_OF_VOLUMES = _JOINED.where(ATTACHMENTS.c.volume_uuid.in_(sa.bindparam("wanted", expanding=True)))
_ONE = _JOINED.where(ATTACHMENTS.c.uuid == sa.bindparam("one"))
_DUE = (
    _JOINED.where(ATTACHMENTS.c.step_deadline <= sa.bindparam("now", type_=models.Timestamp))
    .order_by(None)
    .order_by(ATTACHMENTS.c.step_deadline, ATTACHMENTS.c.uuid)
    .limit(sa.bindparam("at_most"))
)
_LOCKED = (
    sa.select(ATTACHMENTS)
    .where(ATTACHMENTS.c.uuid.in_(sa.bindparam("wanted", expanding=True)))
    .order_by(ATTACHMENTS.c.uuid)
    .with_for_update()
)
_UUIDS = (
    sa.select(ATTACHMENTS.c.uuid)
    .where(ATTACHMENTS.c.instance_uuid == sa.bindparam("of_instance"))
    .order_by(ATTACHMENTS.c.uuid)
)
_THEIR_INSTANCES = (
    sa.select(ATTACHMENTS.c.instance_uuid)
    .where(ATTACHMENTS.c.uuid.in_(sa.bindparam("wanted", expanding=True)))
    .order_by(ATTACHMENTS.c.instance_uuid)
)


class PlacedAttachment(AttachmentRow, Protocol):
    """An attachment with what is shown of its instance and its volume."""

    instance_name: str
    instance_host: str | None
    volume_name: str
    volume_host: str | None
    volume_pool: str | None
    size_gb: int
    project_id: str | None
    user_id: str | None


class DueAttachment(PlacedAttachment, Protocol):
    """An attachment whose step has a deadline."""

    step_deadline: datetime.datetime


def of_instances(connection: Transaction | sa.Connection, uuids: Collection[str]) -> Sequence[PlacedAttachment]:
    """Attachments of these instances, oldest first, with names and places of instances and volumes."""
    return cast(
        "Sequence[PlacedAttachment]", connection.execute(_OF_INSTANCES, {"wanted": list(uuids)}).all() if uuids else []
    )


def that_follow(connection: Transaction | sa.Connection, uuids: Collection[str]) -> Sequence[PlacedAttachment]:
    """Attachments that these instances take along to another host, in the form of :func:`of_instances`.

    Those that their present host is to attach or detach stay with it.
    """
    return [row for row in of_instances(connection, uuids) if row.status not in volume_states.WITH_A_HOST]


def volumes_by_instance(connection: sa.Connection, uuids: Collection[str]) -> dict[str, list[str]]:
    """Return, by instance, the uuids of its volumes, the oldest attachment first. Instances without volumes are left out."""
    query = _VOLUMES_HELD
    if len(uuids) <= _FEW:
        query = query.where(ATTACHMENTS.c.instance_uuid.in_(uuids))
    found: dict[str, list[str]] = {}
    for instance, volume in connection.execute(query) if uuids else ():
        found.setdefault(instance, []).append(volume)
    return found


def of_volumes(connection: Transaction | sa.Connection, uuids: Collection[str]) -> dict[str, PlacedAttachment]:
    """Return the attachment of each volume, in the form of :func:`of_instances`."""
    found = connection.execute(_OF_VOLUMES, {"wanted": list(uuids)}) if uuids else ()
    return {row.volume_uuid: row for row in found}


def find(connection: Transaction | sa.Connection, uuid: str) -> PlacedAttachment | None:
    return cast("PlacedAttachment | None", connection.execute(_ONE, {"one": uuid}).one_or_none())


def due(connection: sa.Connection, now: datetime.datetime, limit: int) -> Sequence[DueAttachment]:
    """Attachments whose step is overdue, the most urgent first."""
    return cast("Sequence[DueAttachment]", connection.execute(_DUE, {"now": now, "at_most": limit}).all())


def lock_all(tx: Transaction, uuids: Collection[str]) -> Sequence[AttachmentRow]:
    """The rows that exist, locked with their instances in one order for all transactions until this one ends."""
    instances.lock_all(tx, tx.execute(_THEIR_INSTANCES, {"wanted": list(uuids)}).scalars().all())
    return _lock(tx, uuids)


def lock(tx: Transaction, uuid: str) -> AttachmentRow | None:
    return next(iter(lock_all(tx, [uuid])), None)


def _lock(tx: Transaction, uuids: Collection[str]) -> Sequence[AttachmentRow]:
    return cast("Sequence[AttachmentRow]", tx.execute(_LOCKED, {"wanted": list(uuids)}).all())


def _lock_of(tx: Transaction, instance_uuid: str) -> Sequence[AttachmentRow]:
    """:param instance_uuid: of a locked instance"""
    uuids = tx.execute(_UUIDS, {"of_instance": instance_uuid}).scalars().all()
    return _lock(tx, uuids) if uuids else ()


def changed(row: AttachmentRow, values: Mapping[str, object]) -> AttachmentRow:
    """The locked ``row`` with ``values``, which were written, without another query."""
    return cast("AttachmentRow", types.SimpleNamespace(**{**cast("Row", row)._mapping, **values}))


def remove(tx: Transaction, row: AttachmentRow, now: datetime.datetime, **values: object) -> None:
    """Remove a locked attachment: its volume is available. :param values: of the volume, besides"""
    tx.execute(ATTACHMENTS.delete().where(ATTACHMENTS.c.uuid == row.uuid))
    volumes.write(tx, volumes.lock(tx, row.volume_uuid), now, status=volume_states.AVAILABLE, **values)


def release(tx: Transaction, instance_uuid: str, now: datetime.datetime) -> None:
    """Remove all attachments of a locked instance, which has no guest any more."""
    for row in _lock_of(tx, instance_uuid):
        remove(tx, row, now)


def abandon(tx: Transaction, instance_uuid: str, failure: JSONMapping, now: datetime.datetime) -> None:
    """Remove what the former host of a locked instance was to attach or detach: its guest runs elsewhere, without that.

    :param failure: of the volumes: why they are not attached
    """
    for row in _lock_of(tx, instance_uuid):
        if row.status in volume_states.WITH_A_HOST:
            remove(tx, row, now, failure=failure)


def withhold(tx: Transaction, instance_uuid: str, failure: JSONMapping, now: datetime.datetime) -> None:
    """``→ detaching``, until :func:`release`: a locked instance has ended, and its guest may still write.

    :param failure: of the volumes: why they are not available
    """
    for row in _lock_of(tx, instance_uuid):
        tx.update(ATTACHMENTS, row.uuid, {"status": volume_states.DETACHING})
        volumes.write(tx, volumes.lock(tx, row.volume_uuid), now, status=volume_states.DETACHING, failure=failure)


def settle(tx: Transaction, instance_uuid: str, now: datetime.datetime) -> None:
    """``reserved → attached``: the guest of a locked instance runs, with its volumes."""
    for row in _lock_of(tx, instance_uuid):
        if row.status == volume_states.RESERVED:
            tx.update(ATTACHMENTS, row.uuid, {"status": volume_states.ATTACHED})
            volumes.write(tx, volumes.lock(tx, row.volume_uuid), now, status=volume_states.IN_USE)


def reserve(tx: Transaction, instance_uuid: str, failure: JSONMapping, now: datetime.datetime) -> None:
    """``attached → reserved``: a locked instance has no guest for a while, and keeps its volumes.

    One that is being attached or detached is available: no host has a guest that could get it, or must give it back.

    :param failure: of the volumes that were being attached: why they are not
    """
    for row in _lock_of(tx, instance_uuid):
        if row.status == volume_states.ATTACHING:
            remove(tx, row, now, failure=failure)
        if row.status == volume_states.DETACHING:
            remove(tx, row, now)
        if row.status == volume_states.ATTACHED:
            tx.update(ATTACHMENTS, row.uuid, {"status": volume_states.RESERVED})
            volumes.write(tx, volumes.lock(tx, row.volume_uuid), now, status=volume_states.RESERVED)


#: Path of a volume whose row cannot be read. No file has it.
UNREADABLE = "/unreadable"


def to_attachment(row: PlacedAttachment) -> Attachment:
    """The value that is sent. ``row`` is from a query of this module that has names and places."""
    return Attachment(
        uuid=row.uuid,
        volume_uuid=row.volume_uuid,
        instance_uuid=row.instance_uuid,
        device=row.device,
        status=row.status,
        attempt=row.attempt,
        volume_host=location.append_host(row.volume_host, row.volume_pool) or "",
        # Nothing can be attached by what cannot be read; to detach, the host needs the device only.
        connection=VolumeConnection(**(row.connection or {"kind": "file", "path": UNREADABLE})),
        request_id=row.request_id,
    )
