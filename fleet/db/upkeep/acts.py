# SPDX-License-Identifier: Apache-2.0
"""Acts of administrators, recorded in the transaction that changes something. ``conductor_stub.steps.acts`` does so."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import cast

import sqlalchemy as sa

from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.operations.acts import AcceptedBuild, ActRow
from fleet.json_codec import JSONObject

ACTS = models.administrative_acts
INSTANCES, REQUESTS = models.instances, models.build_requests
#: Acts are kept for this time.
KEPT = seconds(400 * 24 * 3600)
#: Acts that one statement removes.
_MOST_REMOVED = 10_000


def of_key(tx: Transaction, key: str) -> ActRow | None:
    """The act that an earlier, repeated run of this transaction has recorded."""
    found = tx.execute(sa.select(ACTS).where(ACTS.c.act_key == key)).one_or_none()
    return cast("ActRow | None", found)


def record(
    tx: Transaction,
    key: str,
    act: str,
    subject: str,
    changes: JSONObject,
    by: Mapping[str, object],
    now: datetime.datetime,
) -> None:
    """:param by: ``user_id``, ``project_id`` and ``request_id``"""
    values = {"act_key": key, "act": act, "subject": subject, "changes": changes, "created_at": now, **by}
    tx.insert(ACTS, values)


def newest(connection: sa.Connection, limit: int) -> Sequence[ActRow]:
    """The newest first."""
    query = sa.select(ACTS).order_by(ACTS.c.created_at.desc(), ACTS.c.id.desc()).limit(limit)
    return cast("Sequence[ActRow]", connection.execute(query).all())


def newest_builds(connection: sa.Connection, limit: int) -> Sequence[AcceptedBuild]:
    """The instances that were accepted last, the newest first. Their rows are their record."""
    shown = (INSTANCES.c[name] for name in ("uuid", "name", "user_id", "project_id", "created_at"))
    order = (INSTANCES.c.created_at.desc(), INSTANCES.c.launch_index.desc(), INSTANCES.c.uuid.desc())
    query = (
        sa.select(*shown, REQUESTS.c.request_id)
        .join_from(INSTANCES, REQUESTS, INSTANCES.c.reservation_id == REQUESTS.c.reservation_id)
        .order_by(*order)
        .limit(limit)
    )
    return cast("Sequence[AcceptedBuild]", connection.execute(query).all())


def remove_old(tx: Transaction, now: datetime.datetime) -> int:
    """Remove acts that are older than KEPT. Return how many."""
    old = sa.select(ACTS.c.id).where(ACTS.c.created_at < now - KEPT).order_by(ACTS.c.id).limit(_MOST_REMOVED)
    going = tx.execute(old).scalars().all()
    if going:
        tx.execute(ACTS.delete().where(ACTS.c.id.in_(going)))
    return len(going)
