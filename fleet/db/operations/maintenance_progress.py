# SPDX-License-Identifier: Apache-2.0
"""Reads the progress of a maintenance: guests in the plan, guests that are left, and pauses.

Called by :mod:`conductor_stub.maintenance.progress` and :mod:`conductor_stub.maintenance.manager`.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable
from typing import NamedTuple, cast

import sqlalchemy as sa

from fleet import move_states
from fleet.db.engine.database import Transaction
from fleet.db.operations import maintenances
from fleet.db.tables import models
from fleet.db.tables.operations.maintenance import MaintenanceRow

ACTS = models.administrative_acts
INSTANCES = models.instances
MIGRATIONS = models.migrations
GUESTS = models.maintenance_guests
#: The acts by which operators pause a maintenance, and let it go on.
PAUSED, RESUMED = "maintenance.pause", "maintenance.resume"

_HOSTS: sa.BindParameter[list[str]] = sa.bindparam("hosts", expanding=True)
_LEFT = (
    sa.select(INSTANCES.c.host, sa.func.count().label("number"))
    .where(INSTANCES.c.host.in_(_HOSTS), sa.not_(INSTANCES.c.deleted), maintenances.RUNS)
    .group_by(INSTANCES.c.host)
    .order_by(INSTANCES.c.host)
)
_MOVING = (
    sa.select(MIGRATIONS.c.source_compute.label("host"), sa.func.count().label("number"))
    .where(MIGRATIONS.c.status.in_(move_states.UNDER_WAY), MIGRATIONS.c.source_compute.in_(_HOSTS))
    .group_by(MIGRATIONS.c.source_compute)
    .order_by(MIGRATIONS.c.source_compute)
)
_PLANNED = (
    sa.select(GUESTS.c.host, sa.func.count().label("number"))
    .where(GUESTS.c.maintenance_uuid == sa.bindparam("wanted"))
    .group_by(GUESTS.c.host)
    .order_by(GUESTS.c.host)
)
_PAUSES = (
    sa.select(ACTS.c.act, ACTS.c.created_at)
    .where(
        ACTS.c.created_at >= sa.bindparam("since"),
        ACTS.c.act.in_((PAUSED, RESUMED)),
        ACTS.c.subject == sa.bindparam("name"),
    )
    .order_by(ACTS.c.created_at, ACTS.c.id)
)


class _Number(NamedTuple):
    host: str
    number: int


class Span(NamedTuple):
    """:ivar until: None: it has not ended"""

    since: datetime.datetime
    until: datetime.datetime | None


def left(connection: Transaction | sa.Connection, hosts: Collection[str]) -> dict[str, int]:
    """Return, by host, how many guests must leave it."""
    return _numbers(connection.execute(_LEFT, {"hosts": sorted(hosts)})) if hosts else {}


def moving(connection: Transaction | sa.Connection, hosts: Collection[str]) -> dict[str, int]:
    """Return, by host, how many moves away from it are under way."""
    return _numbers(connection.execute(_MOVING, {"hosts": sorted(hosts)})) if hosts else {}


def planned(connection: Transaction | sa.Connection, uuid: str) -> dict[str, int]:
    """Return, by host, how many guests leave it by the plan of this maintenance."""
    return _numbers(connection.execute(_PLANNED, {"wanted": uuid}))


def pauses(connection: Transaction | sa.Connection, row: MaintenanceRow) -> list[Span]:
    """Return when operators have paused it, in their order."""
    found: list[Span] = []
    for act, at in connection.execute(_PAUSES, {"since": row.created_at, "name": row.name}):
        is_open = bool(found) and found[-1].until is None
        if act == PAUSED and not is_open:
            found.append(Span(at, None))
        elif act == RESUMED and is_open:
            found[-1] = Span(found[-1].since, at)
    return found


def _numbers(rows: object) -> dict[str, int]:
    return {row.host: row.number for row in cast("Iterable[_Number]", rows)}
