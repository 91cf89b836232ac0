# SPDX-License-Identifier: Apache-2.0
"""Records of images: the properties that placement reads, and the place of the bytes.

Called by modules of :mod:`conductor_stub`: the catalog of operators, the calls of agents, rebuilds and new volumes.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.hosts import lookup
from fleet.db.tables import models
from fleet.db.tables.catalog import ImageRow
from fleet.objects import ImageRecord

IMAGES = models.images
_KEPT = ("uuid", "name", "location", "checksum", "disk_format", "min_ram", "min_disk", "size", "properties")


def create(tx: Transaction, wanted: ImageRecord, now: datetime.datetime) -> ImageRecord:
    """Create a record. An equal one that exists already is returned: the commit was repeated.

    :raises errors.Conflict: the name is taken
    """
    values = {name: getattr(wanted, name) for name in _KEPT} | {"properties": dict(wanted.properties)}
    found = tx.execute(sa.select(IMAGES).where(IMAGES.c.name == wanted.name)).one_or_none()
    if found is None:
        with lookup.naming("Image", wanted.name):
            tx.insert(IMAGES, {**values, "created_at": now})
        return by_uuid(tx, wanted.uuid)
    if any(getattr(found, name) != value for name, value in values.items()):
        raise errors.Conflict(kind="Image", name=wanted.name, reason="exists already")
    return _to_record(found)


def remove(tx: Transaction, uuid: str) -> None:
    """Remove a record. Instances keep a copy of what they need. :raises errors.NotFound:"""
    by_uuid(tx, uuid)
    tx.execute(IMAGES.delete().where(IMAGES.c.uuid == uuid))


def find(connection: Transaction | sa.Connection, name: str) -> ImageRecord:
    """Find an image by uuid, by name, or by the beginning of a uuid.

    :raises errors.NotFound: errors.Conflict: several match
    """
    return by_uuid(connection, lookup.find(connection, "Image", IMAGES, name))


def by_uuid(connection: Transaction | sa.Connection, uuid: str) -> ImageRecord:
    """:raises errors.NotFound:"""
    row = connection.execute(sa.select(IMAGES).where(IMAGES.c.uuid == uuid)).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Image", name=uuid)
    return _to_record(row)


def list_all(connection: sa.Connection) -> Sequence[ImageRecord]:
    """Return the images in the order of their names."""
    return [_to_record(row) for row in connection.execute(sa.select(IMAGES).order_by(IMAGES.c.name))]


def _to_record(row: ImageRow) -> ImageRecord:
    return ImageRecord(**{name: getattr(row, name) for name in _KEPT}, created_at=row.created_at.isoformat() + "Z")
