# SPDX-License-Identifier: Apache-2.0
"""Volume types by name."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.hosts import lookup
from fleet.db.tables import models
from fleet.objects import VolumeType

TYPES = models.volume_types
VOLUMES = models.volumes
_USERS = sa.select(sa.func.count()).where(VOLUMES.c.volume_type == sa.bindparam("named"), sa.not_(VOLUMES.c.deleted))
_NAMED = sa.select(TYPES).where(TYPES.c.name == sa.bindparam("named"))


def create(tx: Transaction, wanted: VolumeType, now: datetime.datetime) -> VolumeType:
    """Create a type. An equal one that exists already is returned: the commit was repeated.

    :raises errors.Conflict: the name is taken by a different one
    """
    values = {"name": wanted.name, "description": wanted.description, "extra_specs": dict(wanted.extra_specs)}
    found = tx.execute(_NAMED, {"named": wanted.name}).one_or_none()
    if found is None:
        with lookup.naming("Volume type", wanted.name):
            tx.insert(TYPES, {**values, "created_at": now})
        return find(tx, wanted.name)
    if any(getattr(found, name) != value for name, value in values.items()):
        raise errors.Conflict(kind="Volume type", name=wanted.name, reason="exists already")
    return _to_type(found)


def change(tx: Transaction, name: str, wanted: VolumeType) -> VolumeType:
    """Change a type. Volumes keep the extra specs that they were made with.

    :param name: as it is. A new one is refused while volumes have the type: they name it
    :raises errors.NotFound: errors.Conflict:
    """
    row = tx.execute(_NAMED.with_for_update(), {"named": name}).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Volume type", name=name)
    if wanted.name != name and (count := tx.execute(_USERS, {"named": name}).scalar_one()):
        raise errors.Conflict(kind="Volume type", name=name, reason=f"is the type of {count} volumes: its name stays")
    values = {"name": wanted.name, "description": wanted.description, "extra_specs": dict(wanted.extra_specs)}
    with lookup.naming("Volume type", wanted.name):
        tx.execute(TYPES.update().where(TYPES.c.id == row.id).values(**values))
    return find(tx, wanted.name)


def remove(tx: Transaction, name: str) -> None:
    """Remove a type. Volumes keep it. :raises errors.NotFound:"""
    find(tx, name)
    tx.execute(TYPES.delete().where(TYPES.c.name == name))


def find(connection: Transaction | sa.Connection, name: str) -> VolumeType:
    """:raises errors.NotFound:"""
    row = connection.execute(_NAMED, {"named": name}).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Volume type", name=name)
    return _to_type(row)


def list_all(connection: sa.Connection) -> Sequence[VolumeType]:
    return [_to_type(row) for row in connection.execute(sa.select(TYPES).order_by(TYPES.c.name))]


def _to_type(row: sa.Row[*tuple[Any, ...]]) -> VolumeType:
    return VolumeType(row.name, row.extra_specs, row.description or "", row.id)
