# SPDX-License-Identifier: Apache-2.0
"""Flavors by name, and the projects that may use those that are not public.

A project sees the public flavors and those that it may use. An administrator sees all. Called by the intakes of builds
and moves, and by :mod:`conductor_stub.operators.flavors`.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.hosts import lookup
from fleet.db.tables import models
from fleet.db.tables.catalog import FlavorRow
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Flavor
from fleet.objects.answers.catalog import FlavorView

FLAVORS = models.flavors
PROJECTS = models.flavor_projects
_COLUMNS = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "extra_specs")


@dataclasses.dataclass(frozen=True)
class Offer:
    """A flavor as the catalog has it. ``description`` is None if there is none."""

    flavor: Flavor
    is_public: bool = True
    description: str | None = None

    def to_wire(self) -> FlavorView:
        return {**self.flavor.to_wire(), "is_public": self.is_public, "description": self.description}


def create(tx: Transaction, offer: Offer, now: datetime.datetime) -> Offer:
    """Create a flavor. An equal one that exists already is returned: the commit was repeated.

    :param offer: its flavor has a ``flavorid``
    :raises errors.Conflict: the name or the flavorid is taken
    """
    values = _values(offer)
    found = tx.execute(sa.select(FLAVORS).where(FLAVORS.c.flavorid == offer.flavor.flavorid)).first()
    if found is not None and all(getattr(found, name) == value for name, value in values.items()):
        return _to_offer(found)
    with lookup.naming("Flavor", offer.flavor.name):
        tx.insert(FLAVORS, {**values, "created_at": now})
    return _named(tx, offer.flavor.name)


def change(tx: Transaction, key: int, changed: Callable[[Offer], Offer]) -> Offer:
    """Change a flavor as it is now. Instances keep the sizes that they were built with.

    :param changed: returns the flavor as it is to be
    :raises errors.NotFound: it is gone; errors.Conflict: the name is taken
    """
    row = tx.execute(sa.select(FLAVORS).where(FLAVORS.c.id == key).with_for_update()).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Flavor", name=str(key))
    offer = changed(_to_offer(row))
    with lookup.naming("Flavor", offer.flavor.name):
        tx.execute(FLAVORS.update().where(FLAVORS.c.id == key), _values(offer))
    return _named(tx, offer.flavor.name)


def _values(offer: Offer) -> JSONObject:
    values = {name: getattr(offer.flavor, name) for name in (*_COLUMNS, "name", "flavorid")}
    return {**values, "is_public": offer.is_public, "description": offer.description}


def find(connection: Transaction | sa.Connection, name: str, project: str | None = None) -> Flavor:
    """Return the flavor of :func:`offer`, without the fields that only the catalog has."""
    return offer(connection, name, project).flavor


def offer(connection: Transaction | sa.Connection, name: str, project: str | None = None) -> Offer:
    """Find a flavor by flavorid or name. The flavorid is preferred to the name of another flavor.

    :param project: look only at flavors that it may use; None: at all
    :raises errors.NotFound:
    """
    query = sa.select(FLAVORS).where(sa.or_(FLAVORS.c.name == name, FLAVORS.c.flavorid == name)).order_by(FLAVORS.c.id)
    found = connection.execute(query.where(*_usable(project))).all()
    row = min(found, key=lambda each: each.flavorid != name, default=None)
    if row is None:
        raise errors.NotFound(kind="Flavor", name=name)
    return _to_offer(row)


def _named(tx: Transaction, name: str) -> Offer:
    return _to_offer(tx.execute(sa.select(FLAVORS).where(FLAVORS.c.name == name)).one())


def list_all(connection: sa.Connection, project: str | None = None) -> Sequence[Offer]:
    """Return the flavors in the order of their sizes. :param project: only those that it may use; None: all"""
    query = sa.select(FLAVORS).where(*_usable(project)).order_by(FLAVORS.c.memory_mb, FLAVORS.c.name)
    return [_to_offer(row) for row in connection.execute(query)]


def _usable(project: str | None) -> tuple[sa.ColumnElement[bool], ...]:
    if project is None:
        return ()
    granted = sa.exists().where(PROJECTS.c.flavor_id == FLAVORS.c.id, PROJECTS.c.project_id == project)
    return (sa.or_(FLAVORS.c.is_public, granted),)


def projects(connection: Transaction | sa.Connection, key: int) -> Sequence[str]:
    """The projects that may use a flavor that is not public."""
    query = sa.select(PROJECTS.c.project_id).where(PROJECTS.c.flavor_id == key).order_by(PROJECTS.c.project_id)
    return connection.execute(query).scalars().all()


def grant(tx: Transaction, key: int, project: str) -> None:
    """Let a project use a flavor; it may do so already."""
    row = tx.execute(sa.select(FLAVORS.c.id).where(FLAVORS.c.id == key).with_for_update()).first()
    if row is not None and project not in projects(tx, key):
        tx.insert(PROJECTS, {"flavor_id": key, "project_id": project})


def revoke(tx: Transaction, key: int, project: str) -> None:
    """Let a project use a flavor no more. Its instances stay."""
    tx.execute(PROJECTS.delete().where(PROJECTS.c.flavor_id == key, PROJECTS.c.project_id == project))


def _to_offer(row: FlavorRow) -> Offer:
    values: JSONMapping = {name: getattr(row, name) for name in _COLUMNS}
    flavor = Flavor(id=row.id, name=row.name, flavorid=row.flavorid, **values)
    return Offer(flavor, row.is_public, row.description)
