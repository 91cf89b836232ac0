# SPDX-License-Identifier: Apache-2.0
"""The history of volumes and snapshots: one event for each step that ended, written in the transaction of the step.

An event is named after the status of the volume while the step lasted (:mod:`fleet.volume_states`). ``create`` is its
acceptance, ``claim`` a claim on a pool; an event with the result ``begun`` is the beginning of what its name says.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import cast

import sqlalchemy as sa

from fleet import volume_states
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.sql_types import Values
from fleet.db.tables.volumes import VolumeEventRow, VolumeRow

EVENTS = models.volume_events

CREATE = "create"
CLAIM = "claim"
SUCCESS = "success"
BEGUN = "begun"
#: Result of a step whose order reached no agent.
UNREACHED = "ServiceDown"

_BEGINNINGS = frozenset(volume_states.FAILED) - {volume_states.CREATING} | {
    volume_states.RESERVED,
    *volume_states.WITH_A_HOST,
}
_UNCLAIMED = (volume_states.SCHEDULING, volume_states.PLACING)
_COLUMNS: Values = {
    **dict.fromkeys(("host", "pool", "step", "duration_s")),
    "attempt": 0,
    "result": SUCCESS,
    "message": "",
}


def created(tx: Transaction, rows: Sequence[Values]) -> None:
    """The rows are inserted."""
    for row in rows:
        managed = row["status"] == volume_states.MANAGING
        event = {"event": volume_states.MANAGING, "result": BEGUN} if managed else {"event": CREATE}
        _add(tx, row["uuid"], row["created_at"], row["request_id"], **event)


def changed(tx: Transaction, row: VolumeRow, values: Mapping[str, object], now: datetime.datetime) -> None:
    """``values`` are written to a locked row. What only hands out, takes or postpones a volume is no event."""
    event = _event(row, values)
    if event is None:
        return
    ended = event.get("result") != BEGUN
    duration_s = (now - (row.updated_at or row.created_at)).total_seconds() if ended else None
    _add(tx, row.uuid, now, row.request_id, attempt=row.attempt, duration_s=duration_s, **event)


def _event(row: VolumeRow, values: Values) -> dict[str, object] | None:
    status, step = values.get("status", row.status), values.get("step", row.step)
    failed = _failure(row, values, step)
    if failed is not None:
        return {**_end_of(row), "result": failed[0], "message": failed[1]}
    if (status, step) == (row.status, row.step) or (step in _UNCLAIMED and row.step in _UNCLAIMED):
        return None
    if status != row.status and status in _BEGINNINGS:
        return {"event": status, "result": BEGUN, "host": row.host, "pool": row.pool}
    if row.step == volume_states.PLACING and step in volume_states.ACTING:
        of = "held_" if step in volume_states.HOLDING else ""
        # A volume that is retyped where it is claims nothing.
        is_claim = f"{of}host" in values
        return {"event": CLAIM, "host": values[f"{of}host"], "pool": values[f"{of}pool"]} if is_claim else None
    if status == volume_states.DELETED and row.status not in (volume_states.DELETING, volume_states.UNMANAGING):
        return {"event": status}
    if row.status in volume_states.WITH_A_GUEST:
        # An instance that is deleted gives back what it uses.
        return {**_end_of(row), "event": row.status.replace(volume_states.IN_USE, volume_states.DETACHING)}
    return _end_of(row) if row.step else None


def _end_of(row: VolumeRow) -> dict[str, object]:
    """The end of the step of a row, with the pool that acted."""
    held = row.step in volume_states.HOLDING
    host, pool = (row.held_host, row.held_pool) if held else (row.host, row.pool)
    return {"event": row.status, "step": row.step, "host": host, "pool": pool}


def _failure(row: VolumeRow, values: Values, step: str | None) -> tuple[str, str] | None:
    """Name and message of the error that ``values`` record."""
    failure = values.get("failure")
    if failure:
        return str(failure["error"])[:64], failure["message"]
    tried = (values.get("plan") or {}).get("tried", [])
    if len(tried) > len(row.plan.get("tried", [])):
        return str(tried[-1]["result"])[:64], tried[-1]["reason"]
    if row.step in volume_states.ACTING and step in _UNCLAIMED:
        return UNREACHED, "the agent of the backend is not running"
    return None


def _add(tx: Transaction, uuid: str, now: datetime.datetime, request_id: str | None, **columns: object) -> None:
    event = {**_COLUMNS, "volume_uuid": uuid, "request_id": request_id, "created_at": now, **columns}
    tx.defer_insert(EVENTS, event)


def of_volume(connection: sa.Connection, uuid: str, limit: int) -> Sequence[VolumeEventRow]:
    """Oldest first. :param limit: most events"""
    return cast(
        "Sequence[VolumeEventRow]", connection.execute(_ordered(EVENTS.c.volume_uuid == uuid).limit(limit)).all()
    )


def faults(connection: sa.Connection, uuid: str, newest: int) -> list[VolumeEventRow]:
    """Return the newest failures in the life of a volume, in order."""
    failed = sa.and_(EVENTS.c.volume_uuid == uuid, EVENTS.c.result.not_in((SUCCESS, BEGUN)))
    query = sa.select(EVENTS).where(failed).order_by(EVENTS.c.id.desc()).limit(newest)
    return cast("list[VolumeEventRow]", list(connection.execute(query))[::-1])


def of_request(connection: sa.Connection, request_id: str, limit: int) -> Sequence[VolumeEventRow]:
    """Events of the volumes that a request has made, oldest first. :param limit: most events"""
    return cast(
        "Sequence[VolumeEventRow]", connection.execute(_ordered(EVENTS.c.request_id == request_id).limit(limit)).all()
    )


def _ordered(condition: sa.ColumnElement[bool]) -> sa.Select[object]:
    return sa.select(EVENTS).where(condition).order_by(EVENTS.c.id)
