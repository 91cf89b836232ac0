# SPDX-License-Identifier: Apache-2.0
"""Promises to survive a loss: at most one for each scope.

:mod:`conductor_stub.operators.tolerances` writes them. Schedulers, and commands that plan, read them.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.hosts import aggregates
from fleet.db.tables import models
from fleet.db.tables.operations.tolerances import ToleranceRow
from fleet.db.tables.sql_types import Columns, Values
from fleet.objects import aggregate
from fleet.objects.aggregate import zones_of
from fleet.objects.tolerance import AGGREGATE, FLEET, ZONE, Tolerance

TOLERANCES = models.tolerances
_ALL = sa.select(TOLERANCES).order_by(TOLERANCES.c.kind.desc(), TOLERANCES.c.name, TOLERANCES.c.id)


class Grouped(Protocol):
    """The part of an aggregate that :func:`hosts_of` reads."""

    @property
    def name(self) -> str: ...
    @property
    def hosts(self) -> Sequence[str]: ...
    @property
    def metadata(self) -> Mapping[str, str]: ...


def list_all(connection: Transaction | sa.Connection) -> list[Tolerance]:
    """Return the promises whose scope exists. Of an aggregate, with its present name."""
    rows = cast("Sequence[ToleranceRow]", connection.execute(_ALL).all())
    names = aggregates.names(connection) if any(row.kind == AGGREGATE for row in rows) else {}
    found = []
    for row in rows:
        name = names.get(row.name) if row.kind == AGGREGATE else row.name
        if name is not None:
            found.append(Tolerance(row.kind, name, row.number, row.label, row.policy))
    return found


def promised(connection: Transaction | sa.Connection, of_fleet: Tolerance | None) -> list[Tolerance]:
    """Return the promises of the ledger, and of the options if the ledger has none of the fleet.

    :param of_fleet: what the options promise
    """
    found = list_all(connection)
    if of_fleet is not None and all(each.kind != FLEET for each in found):
        found.append(of_fleet)
    return found


def set_one(tx: Transaction, tolerance: Tolerance, now: datetime.datetime, default_zone: str) -> Tolerance:
    """:raises errors.NotFound: no such zone or aggregate"""
    if tolerance.kind == ZONE:
        _require_zone(tx, tolerance.name, default_zone)
    name = _stored_name(tx, tolerance.kind, tolerance.name)
    values: Columns = {"number": tolerance.number, "label": tolerance.label, "policy": tolerance.policy}
    row = _find(tx, tolerance.kind, name, locked=True)
    if row is None:
        tx.insert(TOLERANCES, {"kind": tolerance.kind, "name": name, "created_at": now, **values})
    else:
        tx.update(TOLERANCES, row.id, {**values, "updated_at": now})
    return tolerance


def unset(tx: Transaction, kind: str, name: str) -> None:
    """Also of a zone that is no longer there. :raises errors.NotFound: no such aggregate, or the scope promises nothing"""
    row = _find(tx, kind, _stored_name(tx, kind, name))
    if row is None:
        raise errors.NotFound(kind="Tolerance of", name=f"{kind} {name}".strip())
    tx.execute(TOLERANCES.delete().where(TOLERANCES.c.id == row.id))


def shown(tx: Transaction, kind: str, name: str) -> Values:
    """Return an operator's view of a scope. :raises errors.NotFound: no such aggregate"""
    row = _find(tx, kind, _stored_name(tx, kind, name))
    return {} if row is None else {"number": row.number, "label": row.label, "policy": row.policy}


def _find(tx: Transaction, kind: str, name: str, locked: bool = False) -> ToleranceRow | None:
    """:param name: as it is stored"""
    found = sa.select(TOLERANCES).where(TOLERANCES.c.kind == kind, TOLERANCES.c.name == name).order_by(TOLERANCES.c.id)
    return cast("ToleranceRow | None", tx.execute(found.with_for_update() if locked else found).one_or_none())


def _stored_name(tx: Transaction, kind: str, name: str) -> str:
    """:raises errors.NotFound: no such aggregate"""
    return (aggregates.find(tx, name).uuid or "") if kind == AGGREGATE else name


def _require_zone(tx: Transaction, name: str, default_zone: str) -> None:
    """:raises errors.NotFound:"""
    zones = (zone for said in aggregates.metadata_under(tx, aggregate.ZONE).values() for zone in zones_of(said))
    if name != default_zone and name not in zones:
        raise errors.NotFound(kind="Zone", name=name)


def hosts_of(tolerance: Tolerance, hosts: Sequence[str], known: Sequence[Grouped], default_zone: str) -> list[str]:
    """The hosts of a scope, in order. A host may be in several zones.

    :param known: all aggregates
    :param default_zone: zone of the hosts that are in no aggregate with a zone
    """
    if tolerance.kind == AGGREGATE:
        inside = {host for each in known if each.name == tolerance.name for host in each.hosts}
    elif tolerance.kind == ZONE:
        inside = {host for each in known if tolerance.name in zones_of(each.metadata) for host in each.hosts}
        if tolerance.name == default_zone:
            inside |= set(hosts) - {host for each in known if zones_of(each.metadata) for host in each.hosts}
    else:
        inside = set(hosts)
    return sorted(inside & set(hosts))
