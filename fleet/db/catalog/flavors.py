# SPDX-License-Identifier: Apache-2.0
"""Flavors by name."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.hosts import lookup
from fleet.db.tables import models
from fleet.db.tables.catalog import FlavorRow
from fleet.objects import Flavor

FLAVORS = models.flavors
_COLUMNS = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "extra_specs")


def create(tx: Transaction, flavor: Flavor, now: datetime.datetime) -> Flavor:
    """Create a flavor. An equal one that exists already is returned: the commit was repeated.

    :param flavor: with its ``flavorid``
    :raises errors.Conflict: the name or the flavorid is taken
    """
    values = {name: getattr(flavor, name) for name in (*_COLUMNS, "name", "flavorid")}
    found = tx.execute(sa.select(FLAVORS).where(FLAVORS.c.flavorid == flavor.flavorid)).first()
    if found is not None and all(getattr(found, name) == value for name, value in values.items()):
        return _to_flavor(found)
    with lookup.naming("Flavor", flavor.name):
        tx.insert(FLAVORS, {**values, "created_at": now})
    return _named(tx, flavor.name)


def change(tx: Transaction, key: int, flavor: Flavor) -> Flavor:
    """Change a flavor. Instances keep the sizes that they were built with.

    :raises errors.NotFound: it is gone; errors.Conflict: the name is taken
    """
    changed = {name: getattr(flavor, name) for name in (*_COLUMNS, "name")}
    with lookup.naming("Flavor", flavor.name):
        tx.execute(FLAVORS.update().where(FLAVORS.c.id == key), changed)
    return _named(tx, flavor.name)


def find(connection: Transaction | sa.Connection, name: str) -> Flavor:
    """By flavorid or name; the flavorid goes before another flavor's name. :raises errors.NotFound:"""
    query = sa.select(FLAVORS).where(sa.or_(FLAVORS.c.name == name, FLAVORS.c.flavorid == name)).order_by(FLAVORS.c.id)
    found = connection.execute(query).all()
    row = min(found, key=lambda each: each.flavorid != name, default=None)
    if row is None:
        raise errors.NotFound(kind="Flavor", name=name)
    return _to_flavor(row)


def _named(tx: Transaction, name: str) -> Flavor:
    return _to_flavor(tx.execute(sa.select(FLAVORS).where(FLAVORS.c.name == name)).one())


def list_all(connection: sa.Connection) -> Sequence[Flavor]:
    query = sa.select(FLAVORS).order_by(FLAVORS.c.memory_mb, FLAVORS.c.name)
    return [_to_flavor(row) for row in connection.execute(query)]


def _to_flavor(row: FlavorRow) -> Flavor:
    values = {name: getattr(row, name) for name in _COLUMNS}
    return Flavor(id=row.id, name=row.name, flavorid=row.flavorid, **values)
