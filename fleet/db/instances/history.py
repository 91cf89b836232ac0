# SPDX-License-Identifier: Apache-2.0
"""The history of an instance: events (one for each step that ended) and faults (why it is in ERROR).

Conductors record them with each step, and operators read them.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import cast

import sqlalchemy as sa

from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.base import Row
from fleet.db.tables.instances import EventRow, FailedOrder, FaultRow
from fleet.json_codec import JSONObject

EVENTS = models.instance_events
FAULTS = models.instance_faults

#: A host has built the instance, or failed to.
ATTEMPT = "attempt"
#: A host returned the order without trying the build; no attempt is spent.
HAND_BACK = "hand-back"
#: The scheduler found no host.
SCHEDULE = "schedule"
#: The scheduler found no host, and the build waits for room.
QUEUE = "queue"
#: A host has claimed the resources of the instance.
CLAIM = "claim"
SUCCESS = "success"

_OF_ONE = EVENTS.c.instance_uuid == sa.bindparam("wanted")
_EVENTS = sa.select(EVENTS).where(_OF_ONE).order_by(EVENTS.c.id)
_FAILED_ATTEMPT = sa.and_(EVENTS.c.event == ATTEMPT, EVENTS.c.result != SUCCESS)
_FAILED_ATTEMPTS = _EVENTS.where(_FAILED_ATTEMPT)
_LAST = sa.select(EVENTS).where(_OF_ONE).order_by(EVENTS.c.id.desc()).limit(1)
_FIRST = _EVENTS.where(EVENTS.c.event == sa.bindparam("which")).limit(1)
_NEWEST = (
    sa.select(EVENTS)
    .where(_OF_ONE, EVENTS.c.event == sa.bindparam("which"), EVENTS.c.created_at > sa.bindparam("since"))
    .order_by(EVENTS.c.id.desc())
    .limit(sa.bindparam("at_most"))
)
_FAILED_ORDERS = (
    sa.select(EVENTS)
    .where(
        EVENTS.c.instance_uuid.in_(sa.bindparam("wanted", expanding=True)),
        sa.or_(_FAILED_ATTEMPT, EVENTS.c.event == HAND_BACK),
    )
    .order_by(EVENTS.c.id)
)


#: Columns of an event that an argument may set.
_EVENT: Mapping[str, object] = {
    **dict.fromkeys(("host", "node", "step", "duration_s", "request_id")),
    "attempt": 0,
    "result": SUCCESS,
    "message": "",
}


def add_event(tx: Transaction, uuid: str, event: str, *, now: datetime.datetime, **columns: object) -> None:
    """:param columns: ``attempt``, ``host``, ``node``, ``step``, ``result``, ``message``, ``duration_s``, ``request_id``"""
    tx.defer_insert(EVENTS, {**_EVENT, "instance_uuid": uuid, "event": event, "created_at": now, **columns})


def add_outcome(tx: Transaction, uuid: str, event: str, *, now: datetime.datetime, **columns: object) -> None:
    """As :func:`add_event`, for work that is repeated until it succeeds: the event of the same failure gets a new time."""
    last = tx.execute(_LAST, {"wanted": uuid}).one_or_none() if columns["result"] != SUCCESS else None
    if last is not None and (last.event, last.result, last.message) == (event, columns["result"], columns["message"]):
        tx.update(EVENTS, last.id, {"created_at": now})
    else:
        add_event(tx, uuid, event, now=now, **columns)


def add_fault(tx: Transaction, uuid: str, *, now: datetime.datetime, **columns: object) -> None:
    """:param columns: ``error``, ``code``, ``message``, ``details``, ``host``, ``request_id``"""
    tx.insert(FAULTS, {"instance_uuid": uuid, "created_at": now, **columns})


def events(connection: Transaction | sa.Connection, uuid: str, newest: int) -> list[EventRow]:
    """Events in order, without those before the ``newest`` of them."""
    query = sa.select(EVENTS).where(_OF_ONE).order_by(EVENTS.c.id.desc()).limit(newest)
    return cast("list[EventRow]", list(connection.execute(query, {"wanted": uuid}))[::-1])


def faults(connection: sa.Connection, uuid: str, newest: int) -> list[FaultRow]:
    """Faults in order, without those before the ``newest`` of them."""
    query = sa.select(FAULTS).where(FAULTS.c.instance_uuid == uuid).order_by(FAULTS.c.id.desc()).limit(newest)
    return cast("list[FaultRow]", list(connection.execute(query))[::-1])


def newest_faults(connection: sa.Connection, uuids: Sequence[str]) -> dict[str, FaultRow]:
    """The newest fault of each of these instances that has one, by uuid."""
    query = sa.select(FAULTS).where(FAULTS.c.instance_uuid.in_(uuids)).order_by(FAULTS.c.id)
    return cast("dict[str, FaultRow]", {row.instance_uuid: row for row in connection.execute(query)})


def failed_orders(connection: Transaction | sa.Connection, uuids: Sequence[str]) -> Sequence[FailedOrder]:
    """Orders for these instances that failed, in order: failed attempts and hand-backs."""
    return cast("Sequence[FailedOrder]", connection.execute(_FAILED_ORDERS, {"wanted": list(uuids)}).all())


def first(connection: Transaction | sa.Connection, uuid: str, event: str) -> EventRow | None:
    return cast("EventRow | None", connection.execute(_FIRST, {"wanted": uuid, "which": event}).one_or_none())


def newest(
    connection: Transaction | sa.Connection, uuid: str, event: str, since: datetime.datetime, limit: int
) -> list[EventRow]:
    """Events of this kind after ``since``, the newest first."""
    wanted = {"wanted": uuid, "which": event, "since": since, "at_most": limit}
    return cast("list[EventRow]", list(connection.execute(_NEWEST, wanted)))


def failed_attempts(connection: Transaction | sa.Connection, uuid: str) -> Sequence[EventRow]:
    """Failed attempts, in order: attempt, host, node, step, result (the name of the error), message, duration_s."""
    return cast("Sequence[EventRow]", connection.execute(_FAILED_ATTEMPTS, {"wanted": uuid}).all())


def timeline(connection: sa.Connection, *, limit: int, **of: str) -> list[JSONObject]:
    """Events and faults of several instances, oldest first, each with ``instance_uuid``. A fault is the event ``fault``.

    :param limit: most lines
    :param of: one of ``uuid``, ``reservation_id`` (the whole history of its instances) and ``request_id`` (what was done
        under this request; a deletion has another one than the build)
    """
    ((column, value),) = of.items()
    found = [
        dict(row._mapping) for table in (EVENTS, FAULTS) for row in _lines(connection, table, column, value, limit)
    ]
    for line in found:
        if "event" not in line:
            line.update(event="fault", result=line["error"])
    return sorted(found, key=lambda line: (line["created_at"], line["event"] == "fault", line["id"]))[:limit]


def _lines(connection: sa.Connection, table: sa.Table, column: str, value: str, limit: int) -> Sequence[Row]:
    instances = models.instances
    whose = table.c.request_id if column == "request_id" else instances.c[column]
    query = sa.select(table).join(instances, instances.c.uuid == table.c.instance_uuid).where(whose == value)
    return cast("Sequence[Row]", connection.execute(query.order_by(table.c.id).limit(limit)).all())
