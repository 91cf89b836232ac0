# SPDX-License-Identifier: Apache-2.0
"""The newest events of all instances and volumes, for readers that follow them.

:mod:`conductor_stub.operators.events` reads them.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import sqlalchemy as sa

from fleet.db.tables import models
from fleet.db.tables.sql_types import Element, Select
from fleet.json_codec import JSONObject

#: Events of one answer.
MOST = 2000
#: Events of each kind among which those of a project, or the last ones, are looked for: a bound on what a rare one costs.
LOOKED = 100_000
#: Within this time transactions commit in another order than that of their events' ids.
SETTLED_S = 2.0
_EVENTS, _INSTANCES = models.instance_events, models.instances
_VOLUME_EVENTS, _VOLUMES = models.volume_events, models.volumes
_COLUMNS = ("id", "event", "attempt", "host", "step", "result", "message", "duration_s", "request_id", "created_at")
_BY_KIND: Mapping[str, tuple[sa.Table, sa.Table, Element]] = {
    "instance": (_EVENTS, _INSTANCES, _EVENTS.c.instance_uuid),
    "volume": (_VOLUME_EVENTS, _VOLUMES, _VOLUME_EVENTS.c.volume_uuid),
}

#: By kind, the id of an event; those after it are still to be read.
Position = Mapping[str, int]


def newest(connection: sa.Connection) -> dict[str, int]:
    """The position after all events that there are."""
    return {kind: _newest(connection, events) for kind, (events, _, _) in _BY_KIND.items()}


def _newest(connection: sa.Connection, events: sa.Table) -> int:
    return connection.execute(sa.select(sa.func.max(events.c.id))).scalar() or 0


def after(
    connection: sa.Connection, position: Position, now: datetime.datetime, project_id: str | None
) -> tuple[list[JSONObject], dict[str, int]]:
    """Events after ``position``, oldest first, each with ``kind``, ``uuid``, ``name`` and ``project_id``; the next position.

    What is younger than SETTLED_S is read again from the next position, because an event with a lower id may still come.
    If there are more than MOST, it is not, so that the reader does not fall behind.

    If the ledger has no event as new as ``position``, a backup was restored, or on SQLite the newest events were purged.
    The next position is then that of the newest event, since later events get the same ids once more.

    :param project_id: only those of this project, among the next LOOKED of each kind. The next position is past the events
        of others that have settled, so that they are looked through once
    """
    settled = now - datetime.timedelta(seconds=SETTLED_S)
    found: list[JSONObject] = []
    reached = {}
    for kind, (events, owners, owner) in _BY_KIND.items():
        begin = position.get(kind, 0)
        query = _with_owners(events, owners, owner, project_id).where(events.c.id > begin)
        passed: int | None = None
        if project_id is not None:
            end, passed = _ahead(connection, events, begin, settled)
            query = query.where(events.c.id <= end)
        rows = connection.execute(query.order_by(events.c.id).limit(MOST)).all()
        sure = [row.id for row in rows if row.created_at <= settled or len(rows) == MOST]
        if passed is not None and len(rows) < MOST:
            sure.append(passed)
        known = begin if rows else min(begin, _newest(connection, events))
        reached[kind] = max(sure, default=known)
        found += [{"kind": kind, **row._mapping} for row in rows]
    return sorted(found, key=_in_time), reached


def _ahead(
    connection: sa.Connection, events: sa.Table, begin: int, settled: datetime.datetime
) -> tuple[int, int | None]:
    """Return the id of the last of the next LOOKED events after ``begin``, and that of the last settled one of them.

    They are ``begin`` and None if there are no such events.
    """
    following = sa.select(events.c.id, events.c.created_at).where(events.c.id > begin)
    ahead = following.order_by(events.c.id).limit(LOOKED).subquery()
    old = sa.case((ahead.c.created_at <= settled, ahead.c.id))
    row = connection.execute(sa.select(sa.func.max(ahead.c.id).label("end"), sa.func.max(old).label("passed"))).one()
    return row.end or begin, row.passed


def last(
    connection: sa.Connection,
    position: Position,
    count: int,
    project_id: str | None,
    host: str | None = None,
    uuid: str | None = None,
) -> list[JSONObject]:
    """The newest ``count`` events up to ``position``, oldest first, in the form of :func:`after`.

    They are looked for among the newest LOOKED of each kind: a caller whose events are rarer sees fewer.

    :param host: only those of this host or storage backend
    :param uuid: only those of this instance, volume or snapshot, all of which are looked for
    """
    found: list[JSONObject] = []
    for kind, (events, owners, owner) in _BY_KIND.items() if count else ():
        reached = position.get(kind, 0)
        query = _with_owners(events, owners, owner, project_id).where(events.c.id <= reached)
        query = query.where(events.c.id > reached - LOOKED if uuid is None else owner == uuid)
        if host is not None:
            query = query.where(events.c.host == host)
        rows = connection.execute(query.order_by(events.c.id.desc()).limit(count))
        found += [{"kind": kind, **row._mapping} for row in rows]
    return sorted(found, key=_in_time)[-count:]


def _with_owners(events: sa.Table, owners: sa.Table, owner: Element, project_id: str | None) -> Select:
    query = sa.select(
        *(events.c[name] for name in _COLUMNS), owners.c.uuid, owners.c.name, owners.c.project_id
    ).join_from(events, owners, owner == owners.c.uuid)
    return query if project_id is None else query.where(owners.c.project_id == project_id)


def _in_time(event: Mapping[str, object]) -> tuple[object, ...]:
    return event["created_at"], event["kind"], event["id"]
