# SPDX-License-Identifier: Apache-2.0
"""Balancing of aggregates (``fleet.balance_states``). :mod:`fleet.db.operations.balances` reads and writes them."""

from __future__ import annotations

import datetime
from typing import Any, Protocol

import sqlalchemy as sa

from fleet.db.tables.base import METADATA, NAME, UUID, BigId, Timestamp

#: An aggregate whose hosts are looked at.
balances = sa.Table(
    "balances",
    METADATA,
    sa.Column("aggregate", NAME, primary_key=True),
    sa.Column("paused", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    #: When a conductor looked last: the next one looks an interval later.
    sa.Column("looked_at", Timestamp),
    #: By host that is hot, since when: ISO 8601, UTC.
    sa.Column("hot_since", sa.JSON, nullable=False),
)

#: Measured loads of the guests of a node, as its agent reported them last. No scheduler follows them.
guest_loads = sa.Table(
    "guest_loads",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("host", NAME, nullable=False),
    sa.Column("node", NAME, nullable=False),
    #: By uuid: ``cores``, ``lasting`` and ``memory_mb``.
    sa.Column("loads", sa.JSON, nullable=False),
    sa.Column("measured_at", Timestamp, nullable=False, index=True),
    sa.UniqueConstraint("host", "node"),
)

balance_rounds = sa.Table(
    "balance_rounds",
    METADATA,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("uuid", UUID, nullable=False, unique=True),
    sa.Column("aggregate", NAME, nullable=False, index=True),
    sa.Column("mode", sa.String(16), nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    #: Loads in points: the most loaded hosts and the mean; and what the moves should bring.
    sa.Column("seen", sa.JSON, nullable=False),
    sa.Column("moves", sa.JSON, nullable=False),
    #: By host, or for the aggregate, why nothing is done.
    sa.Column("not_done", sa.JSON, nullable=False),
    #: Points of the most loaded host above the mean when all was done.
    sa.Column("after", sa.Float),
    sa.Column("created_at", Timestamp, nullable=False),
    #: When the same was seen last.
    sa.Column("seen_at", Timestamp, nullable=False),
    sa.Column("ended_at", Timestamp, index=True),
)


class GuestLoadsRow(Protocol):
    """A row of guest_loads."""

    id: int
    host: str
    node: str
    loads: dict[str, dict[str, float | None]]
    measured_at: datetime.datetime


class BalanceRow(Protocol):
    """A row of balances."""

    aggregate: str
    paused: bool
    looked_at: datetime.datetime | None
    hot_since: dict[str, str]


class BalanceRoundRow(Protocol):
    """A row of balance_rounds."""

    id: int
    uuid: str
    aggregate: str
    mode: str
    status: str
    seen: dict[str, object]
    moves: list[dict[str, Any]]
    not_done: dict[str, str]
    after: float | None
    created_at: datetime.datetime
    seen_at: datetime.datetime
    ended_at: datetime.datetime | None
