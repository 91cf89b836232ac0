# SPDX-License-Identifier: Apache-2.0
"""Volume types by name, and the projects that may use those that are not public.

A project sees the public types and those that it may use. An administrator sees all. Called by the modules of
:mod:`conductor_stub.volumes` that accept requests.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.hosts import lookup
from fleet.db.tables import models
from fleet.db.tables.volumes import VolumeTypeRow
from fleet.objects import VolumeType

TYPES = models.volume_types
VOLUMES = models.volumes
PROJECTS = models.volume_type_projects
_USERS = sa.select(sa.func.count()).where(VOLUMES.c.volume_type == sa.bindparam("named"), sa.not_(VOLUMES.c.deleted))
_NAMED = sa.select(TYPES).where(TYPES.c.name == sa.bindparam("named"))


def create(tx: Transaction, wanted: VolumeType, now: datetime.datetime) -> VolumeType:
    """Create a type. An equal one that exists already is returned: the commit was repeated.

    :raises errors.Conflict: the name is taken by a different one
    """
    values = _values(wanted)
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
    with lookup.naming("Volume type", wanted.name):
        tx.execute(TYPES.update().where(TYPES.c.id == row.id).values(**_values(wanted)))
    return find(tx, wanted.name)


def remove(tx: Transaction, name: str) -> None:
    """Remove a type. Volumes keep it. :raises errors.NotFound:"""
    key = find(tx, name).id
    tx.execute(PROJECTS.delete().where(PROJECTS.c.type_id == key))
    tx.execute(TYPES.delete().where(TYPES.c.id == key))


def find(connection: Transaction | sa.Connection, name: str, project: str | None = None) -> VolumeType:
    """:param project: look only at types that it may use; None: at all. :raises errors.NotFound:"""
    row = connection.execute(_NAMED.where(*_usable(project)), {"named": name}).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Volume type", name=name)
    return _to_type(row)


def list_all(connection: sa.Connection, project: str | None = None) -> Sequence[VolumeType]:
    """:param project: only those that it may use; None: all"""
    query = sa.select(TYPES).where(*_usable(project)).order_by(TYPES.c.name)
    return [_to_type(row) for row in connection.execute(query)]


def _usable(project: str | None) -> tuple[sa.ColumnElement[bool], ...]:
    if project is None:
        return ()
    granted = sa.exists().where(PROJECTS.c.type_id == TYPES.c.id, PROJECTS.c.project_id == project)
    return (sa.or_(TYPES.c.is_public, granted),)


def projects(connection: Transaction | sa.Connection, name: str) -> Sequence[str]:
    """The projects that may use a type that is not public. :raises errors.NotFound: errors.Conflict: it is public"""
    return _projects(connection, _private(connection, name))


def grant(tx: Transaction, name: str, project: str) -> Sequence[str]:
    """Let a project use a type. Return all that may.

    :raises errors.NotFound: errors.Conflict: it is public, or the project may use it already
    """
    key = _private(tx, name)
    if project in _projects(tx, key):
        raise errors.Conflict(kind="Volume type", name=name, reason=f"is open to project {project} already")
    tx.insert(PROJECTS, {"type_id": key, "project_id": project})
    return _projects(tx, key)


def revoke(tx: Transaction, name: str, project: str) -> Sequence[str]:
    """Let a project use a type no more; its volumes stay. Return those that still may.

    :raises errors.NotFound: also if the project may not use it; errors.Conflict: it is public
    """
    key = _private(tx, name)
    if project not in _projects(tx, key):
        raise errors.NotFound(kind=f"Access to volume type {name} of project", name=project)
    tx.execute(PROJECTS.delete().where(PROJECTS.c.type_id == key, PROJECTS.c.project_id == project))
    return _projects(tx, key)


def _projects(connection: Transaction | sa.Connection, key: int) -> Sequence[str]:
    query = sa.select(PROJECTS.c.project_id).where(PROJECTS.c.type_id == key).order_by(PROJECTS.c.project_id)
    return connection.execute(query).scalars().all()


def _private(connection: Transaction | sa.Connection, name: str) -> int:
    """The id of a type; a transaction locks it, so that changes of its projects follow each other."""
    query = _NAMED.with_for_update() if isinstance(connection, Transaction) else _NAMED
    row = connection.execute(query, {"named": name}).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Volume type", name=name)
    if row.is_public:
        raise errors.Conflict(kind="Volume type", name=name, reason="is public: every project may use it")
    key: int = row.id
    return key


def _values(wanted: VolumeType) -> dict[str, object]:
    values = {"name": wanted.name, "description": wanted.description, "is_public": wanted.is_public}
    return {**values, "extra_specs": dict(wanted.extra_specs)}


def _to_type(row: VolumeTypeRow) -> VolumeType:
    return VolumeType(row.name, row.extra_specs, row.description or "", row.id, row.is_public)
